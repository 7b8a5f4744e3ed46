//! The part of a job's state that decides what its transitions write, and how transitions change it.

use std::time::Duration;

use crate::{
    Ending, Job, NewJob, Status, Timestamp,
    flow::{self, Next},
};

/// The attributes of a job that decide which entries it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its status.
    pub status: Status,
    /// The earliest time of its next start.
    pub run_at: Timestamp,
    /// When its status last changed; for a running job, when its execution started.
    pub updated_at: Timestamp,
    /// When it finished.
    pub finished_at: Option<Timestamp>,
    /// Its retention once finished, if not the default.
    pub keep_for: Option<Duration>,
}

impl Phase {
    /// The state of a stored job.
    pub const fn of(job: &Job) -> Self {
        Self {
            status: job.status,
            run_at: job.run_at,
            updated_at: job.updated_at,
            finished_at: job.finished_at,
            keep_for: job.spec.keep_for,
        }
    }

    /// The first state of a new job that is stored at `now`. A job whose parents already decide that it is cancelled is
    /// stored as waiting, and then cancelled, so that its history tells both.
    pub fn new(job: &NewJob, next: &Next, now: Timestamp) -> Self {
        let (start, run_at) = job.start(now);
        let status = if *next == Next::Start { start } else { Status::Waiting };
        Self { status, run_at, updated_at: now, finished_at: None, keep_for: job.spec.keep_for }
    }

    /// After the job has become due.
    #[must_use]
    pub const fn promoted(self, now: Timestamp) -> Self {
        Self { status: Status::Queued, updated_at: now, ..self }
    }

    /// After the parents that the job waited for have ended.
    #[must_use]
    pub fn after_parents(self, now: Timestamp) -> Self {
        let (status, run_at) = flow::start_after_parents(self.run_at, now);
        Self { status, run_at, updated_at: now, ..self }
    }

    /// After a worker has claimed the job; `at` is the start of the execution.
    #[must_use]
    pub const fn claimed(self, at: Timestamp) -> Self {
        Self { status: Status::Processing, updated_at: at, ..self }
    }

    /// After the end of an execution.
    #[must_use]
    pub fn settled(self, ending: Ending, now: Timestamp) -> Self {
        let status = ending.status();
        Self {
            status,
            run_at: ending.run_at(self.run_at, now),
            updated_at: now,
            finished_at: status.is_finished().then_some(now),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ids, JobId, Json, Spec, flow::Waiting};

    #[test]
    fn a_new_job_waits_for_parents_or_for_its_time_or_is_queued() {
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        let id = JobId::from_bits(Ids::seeded(1).next(now));
        let plain = NewJob::new(id, Spec::new("test", Json::null()));
        let delayed = NewJob { delay: Some(Duration::from_secs(9)), ..plain.clone() };
        let waits = Next::Wait(Waiting { on: 1, any_failed: false });
        let status = |job: &NewJob, next: &Next| Phase::new(job, next, now).status;
        assert_eq!(status(&plain, &Next::Start), Status::Queued);
        assert_eq!(status(&delayed, &Next::Start), Status::Scheduled);
        assert_eq!(status(&delayed, &waits), Status::Waiting);
        assert_eq!(status(&plain, &Next::Cancel("no".to_owned())), Status::Waiting);
        let started = Phase::new(&delayed, &waits, now).after_parents(now);
        assert_eq!((started.status, started.run_at), (Status::Scheduled, now.after(Duration::from_secs(9))));
        assert_eq!(started.promoted(started.run_at).status, Status::Queued);
    }
}
