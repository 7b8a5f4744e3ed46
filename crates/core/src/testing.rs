//! Ready-made jobs for tests and examples.

use crate::{Claim, Ids, Job, JobId, Json, NewJob, Spec, Status, Timestamp, WorkerId};

/// A queued job with defaults, modified by `adjust`.
pub fn job(adjust: impl FnOnce(&mut Job)) -> Job {
    let now = Timestamp::from_micros(1_767_225_600_000_000);
    let id = JobId::from_bits(Ids::seeded(1).next(now));
    let mut job = NewJob::new(id, Spec::new("test", Json::null())).into_job(now);
    adjust(&mut job);
    job
}

/// A claimed job in its first attempt, modified by `adjust`.
pub fn claim(adjust: impl FnOnce(&mut Job)) -> Claim {
    let worker = WorkerId::from_bits(2);
    let job = job(|job| {
        job.status = Status::Processing;
        (job.attempt, job.run) = (1, 1);
        job.worker_id = Some(worker);
        adjust(job);
    });
    Claim::new(Box::new(job), worker)
}
