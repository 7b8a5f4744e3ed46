//! Bulk actions: one action on all jobs that match a filter, with a preview.

use std::ops::ControlFlow;

use punctual_core::{Change, Changed, Error, Filter, Invalid, Page, Status, Verb, limits};
use serde::{Deserialize, Serialize};

use super::{Admin, JobView};

/// The jobs that a bulk action would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preview {
    /// Number of jobs.
    pub count: u64,
    /// Whether there may be more jobs than were counted.
    pub more: bool,
    /// The first jobs, as a sample.
    pub sample: Vec<JobView>,
}

/// The result of a bulk action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BulkDone {
    /// Jobs that were changed.
    pub changed: u64,
    /// Jobs that were skipped because their state changed meanwhile and the action no longer applied.
    pub skipped: u64,
    /// Whether `on_page` stopped the action before all jobs were processed.
    pub more: bool,
}

/// Maximum number of jobs that a preview counts where no counter covers its filter.
const PREVIEW_MAX_COUNT: u64 = 10_000;
/// Number of jobs in the sample of a preview.
const PREVIEW_SAMPLE: usize = 5;

impl Admin {
    /// Returns how many of the jobs that match `filter` the action `verb` would change, with a sample of them.
    pub async fn preview(&self, verb: Verb, filter: Filter) -> Result<Preview, Error> {
        let mut pages = Pages::new(self, verb, filter)?;
        let counted = pages.counted().await?;
        let enough = if counted.is_some() { PREVIEW_SAMPLE as u64 } else { PREVIEW_MAX_COUNT };
        let mut preview = Preview { count: 0, more: false, sample: Vec::new() };
        while let Some(jobs) = pages.next(limits::PAGE_MAX_JOBS.min(enough as usize)).await? {
            preview.count += jobs.len() as u64;
            let room = PREVIEW_SAMPLE - preview.sample.len();
            preview.sample.extend(jobs.iter().take(room).map(JobView::of));
            if preview.count >= enough {
                preview.more = counted.is_none();
                break;
            }
        }
        // A counter may lag behind.
        preview.count = preview.count.max(counted.unwrap_or(0));
        Ok(preview)
    }

    /// Applies `verb` to all jobs that match `filter`, page by page. `on_page` receives the number of jobs done so far,
    /// and may stop the action.
    pub async fn bulk(
        &self,
        verb: Verb,
        filter: Filter,
        mut on_page: impl FnMut(BulkDone) -> ControlFlow<()>,
    ) -> Result<BulkDone, Error> {
        let mut pages = Pages::new(self, verb, filter)?;
        let mut done = BulkDone::default();
        while let Some(jobs) = pages.next(limits::PAGE_MAX_JOBS).await? {
            let change =
                |job: &punctual_core::Job| Change { job: job.id, verb, actor: self.actor.clone(), reason: None };
            let answers = self.punctual.store().change(jobs.iter().map(change).collect()).await?;
            let changed = answers.iter().filter(|answer| **answer == Changed::Done).count() as u64;
            done.changed += changed;
            done.skipped += answers.len() as u64 - changed;
            if on_page(done).is_break() {
                done.more = true;
                break;
            }
        }
        Ok(done)
    }
}

/// The jobs that an action applies to, page by page. Each page has jobs of one status only, so that it is read from the
/// index of that status whatever the filter.
struct Pages<'a> {
    admin: &'a Admin,
    filter: Filter,
    statuses: Vec<Status>,
    after: Option<String>,
}

impl<'a> Pages<'a> {
    fn new(admin: &'a Admin, verb: Verb, filter: Filter) -> Result<Self, Invalid> {
        let wanted = |status: &Status| filter.statuses.is_empty() || filter.statuses.contains(status);
        // Statuses are popped from the end.
        let statuses: Vec<_> = verb.applies_to().iter().rev().copied().filter(wanted).collect();
        if statuses.is_empty() {
            let names: Vec<_> = verb.applies_to().iter().map(|status| status.as_str()).collect();
            return Err(Invalid::new("status", format!("{verb} applies only to jobs that are {}", names.join(", "))));
        }
        Ok(Self { admin, filter, statuses, after: None })
    }

    /// The number of jobs, if the filter selects by status, queue and name only, so that counters can answer.
    async fn counted(&self) -> Result<Option<u64>, Error> {
        let Filter { queue, name, .. } = &self.filter;
        let by_these = Filter {
            statuses: self.filter.statuses.clone(),
            queue: queue.clone(),
            name: name.clone(),
            ..Filter::default()
        };
        if self.filter != by_these {
            return Ok(None);
        }
        let fits = |wanted: &Option<String>, value: &String| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let counts = self.admin.punctual.store().counts().await?;
        let ours = counts.into_iter().filter(|count| fits(queue, &count.queue) && fits(name, &count.name));
        Ok(Some(ours.filter(|count| self.statuses.contains(&count.status)).map(|count| count.count).sum()))
    }

    /// The next page, of at most `limit` jobs.
    async fn next(&mut self, limit: usize) -> Result<Option<Vec<punctual_core::Job>>, Error> {
        while let Some(status) = self.statuses.last() {
            let filter = Filter { statuses: vec![*status], ..self.filter.clone() };
            let page = Page { limit, after: self.after.take() };
            let found = self.admin.punctual.store().list(filter, page).await?;
            match found.next {
                Some(next) => self.after = Some(next),
                None => drop(self.statuses.pop()),
            }
            if !found.jobs.is_empty() {
                return Ok(Some(found.jobs));
            }
        }
        Ok(None)
    }
}
