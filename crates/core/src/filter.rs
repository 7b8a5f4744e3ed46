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

/// The attributes of a job that must be equal to those of a filter.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// Its queue.
    pub queue: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its user, if it has one.
    pub user_id: Option<&'a str>,
    /// Its correlation id, if it has one.
    pub correlation_id: Option<&'a str>,
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
        let time = self.time_of(job);
        self.selects_status(job.status)
            && self.selects_attributes(Attributes {
                queue: &job.spec.queue,
                name: &job.spec.name,
                user_id: job.spec.user_id.as_deref(),
                correlation_id: job.spec.correlation_id.as_deref(),
            })
            && self.selects_options(&job.spec.options)
            && self.since.is_none_or(|since| time >= since)
            && self.until.is_none_or(|until| time < until)
    }

    /// Whether a job with this status is selected, judged by the status only.
    pub fn selects_status(&self, status: Status) -> bool {
        if self.statuses.is_empty() { status != Status::Deleted } else { self.statuses.contains(&status) }
    }

    /// Whether a job with these attributes is selected, judged by them only.
    pub fn selects_attributes(&self, attributes: Attributes<'_>) -> bool {
        let Attributes { queue, name, user_id, correlation_id } = attributes;
        let same = |selected: &Option<String>, found: Option<&str>| selected.is_none() || selected.as_deref() == found;
        same(&self.queue, Some(queue))
            && same(&self.name, Some(name))
            && same(&self.user_id, user_id)
            && same(&self.correlation_id, correlation_id)
    }

    /// Whether the options of a job matter.
    pub const fn depends_on_options(&self) -> bool {
        self.tag.is_some() || self.schedule.is_some()
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

    #[test]
    fn attributes_that_a_filter_does_not_name_may_have_any_value() {
        let job = Attributes { queue: "mail", name: "send", user_id: Some("ada"), correlation_id: None };
        let by_user = |user: &str| Filter { user_id: Some(user.into()), ..Filter::default() };
        assert!(Filter::default().selects_attributes(job) && by_user("ada").selects_attributes(job));
        assert!(!by_user("bob").selects_attributes(job));
        assert!(!by_user("ada").selects_attributes(Attributes { user_id: None, ..job }));
        assert!(!Filter { queue: Some("other".into()), ..by_user("ada") }.selects_attributes(job));
    }

    #[test]
    fn only_a_filter_that_names_it_selects_the_status_deleted() {
        assert!(Filter::default().selects_status(Status::Dead) && !Filter::default().selects_status(Status::Deleted));
        let deleted = Filter::status(Status::Deleted);
        assert!(deleted.selects_status(Status::Deleted) && !deleted.selects_status(Status::Dead));
    }
}
