//! Selection, order and paging of lists of jobs.

use serde::{Deserialize, Serialize};

use crate::{Invalid, Job, JobOptions, Status, Timestamp, check, limits};

/// Selects jobs. All given conditions must match; an empty filter selects all jobs but deleted ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Any of these statuses; when empty, any but deleted.
    pub statuses: Vec<Status>,
    /// Exactly this queue.
    pub queue: Option<String>,
    /// Exactly this name.
    pub name: Option<String>,
    /// Exactly this user.
    pub user_id: Option<String>,
    /// Exactly this correlation id.
    pub correlation_id: Option<String>,
    /// Jobs that have this tag.
    pub tag: Option<String>,
    /// Occurrences of this schedule.
    pub schedule: Option<String>,
    /// Not before this instant, by the time that [`Order`] sorts by.
    pub since: Option<Timestamp>,
    /// Before this instant, by the time that [`Order`] sorts by.
    pub until: Option<Timestamp>,
}

/// The order of a list. It follows from the filter, so that every list is read from an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Only finished jobs are selected: last finished first.
    Finished,
    /// Only unfinished jobs are selected: next due first.
    Due,
    /// Anything else: latest `scheduled_at` first.
    Newest,
}

impl Filter {
    /// Jobs of one status.
    pub fn status(status: Status) -> Self {
        Self { statuses: vec![status], ..Self::default() }
    }

    /// The order of the list.
    pub fn order(&self) -> Order {
        let by_label =
            [&self.user_id, &self.correlation_id, &self.tag, &self.schedule].into_iter().any(Option::is_some);
        match self.statuses.as_slice() {
            [] => Order::Newest,
            _ if by_label => Order::Newest,
            some if some.iter().all(|status| status.is_finished()) => Order::Finished,
            some if some.iter().all(|status| status.is_active()) => Order::Due,
            _ => Order::Newest,
        }
    }

    /// The time of a job by which the list is sorted and bounded.
    pub fn time_of(&self, job: &Job) -> Timestamp {
        match self.order() {
            Order::Finished => job.finished_at.unwrap_or(job.updated_at),
            Order::Due => job.run_at,
            Order::Newest => job.scheduled_at(),
        }
    }

    /// Whether `job` is selected.
    pub fn selects(&self, job: &Job) -> bool {
        let wanted =
            |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|wanted| found == Some(wanted));
        let status = match self.statuses.as_slice() {
            [] => job.status != Status::Deleted,
            some => some.contains(&job.status),
        };
        let time = self.time_of(job);
        status
            && wanted(&self.queue, Some(&job.spec.queue))
            && wanted(&self.name, Some(&job.spec.name))
            && wanted(&self.user_id, job.spec.user_id.as_deref())
            && wanted(&self.correlation_id, job.spec.correlation_id.as_deref())
            && self.selects_options(&job.spec.options)
            && self.since.is_none_or(|since| time >= since)
            && self.until.is_none_or(|until| time < until)
    }

    /// Whether a job with these options is selected, judged by the options only.
    pub fn selects_options(&self, options: &JobOptions) -> bool {
        let schedule = options.occurrence.as_ref().map(|occurrence| &occurrence.schedule);
        self.tag.as_ref().is_none_or(|tag| options.tags.contains(tag))
            && self.schedule.as_ref().is_none_or(|name| schedule == Some(name))
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Maximum number of jobs.
    pub limit: usize,
    /// The `next` cursor of the previous page.
    pub after: Option<String>,
}

impl Page {
    /// The first `limit` jobs.
    pub const fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }

    /// Rejects a page that is empty or too large.
    pub fn check(&self) -> Result<(), Invalid> {
        check::range("limit", self.limit, 1..=limits::PAGE_MAX_JOBS)
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPage {
    /// The jobs. There may be fewer than requested although more follow: a page reads a bounded number of rows.
    pub jobs: Vec<Job>,
    /// Cursor of the next page; nothing if this is the last one.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_depends_on_the_filter() {
        let of = |statuses: &[Status]| Filter { statuses: statuses.to_vec(), ..Filter::default() }.order();
        assert_eq!(of(&[]), Order::Newest);
        assert_eq!(of(&[Status::Dead, Status::Succeeded]), Order::Finished);
        assert_eq!(of(&[Status::Queued, Status::Retrying]), Order::Due);
        assert_eq!(of(&[Status::Queued, Status::Dead]), Order::Newest);
        let mine = Filter { user_id: Some("ada".into()), ..Filter::status(Status::Dead) };
        assert_eq!(mine.order(), Order::Newest);
    }
}
