//! Ready-made jobs for tests and examples.

use crate::{Claim, Ids, Job, JobId, Json, Spec, Status, Timestamp, WorkerId};

/// A queued job with defaults everywhere, changed by `adjust`.
pub fn job(adjust: impl FnOnce(&mut Job)) -> Job {
    let now = Timestamp::from_micros(1_767_225_600_000_000);
    let mut job = Job {
        id: JobId::from_bits(Ids::seeded(1).next(now)),
        spec: Spec::new("test", Json::null()),
        status: Status::Queued,
        run_at: now,
        attempt: 0,
        run: 0,
        crash_count: 0,
        worker_id: None,
        lease_until: None,
        waiting_on: 0,
        progress: None,
        result: None,
        error: None,
        created_at: now,
        updated_at: now,
        started_at: None,
        finished_at: None,
    };
    adjust(&mut job);
    job
}

/// A claimed job in its first attempt, changed by `adjust`.
pub fn claim(adjust: impl FnOnce(&mut Job)) -> Claim {
    let worker = WorkerId::from_bits(2);
    let job = job(|job| {
        job.status = Status::Processing;
        (job.attempt, job.run) = (1, 1);
        job.worker_id = Some(worker);
        adjust(job);
    });
    Claim { job, worker }
}
