//! A store with schedules, and a clock that the test sets.

use punctual::{
    Admin, Context, Draft, Filter, ManualClock, ManualWorker, Page, Punctual, Recurring, Timestamp, Worker,
    admin::{JobView, Put},
    core::Schedule,
};
use punctual_tests::TestStore;

/// A store, its clock, and a manual worker.
pub(crate) struct Scene {
    pub(crate) punctual: Punctual,
    pub(crate) admin: Admin,
    pub(crate) clock: ManualClock,
    pub(crate) worker: ManualWorker,
    _test_store: TestStore,
}

impl Scene {
    pub(crate) async fn new(new_store: fn() -> TestStore) -> Self {
        let test_store = new_store();
        let (punctual, clock) = test_store.connect_with_clock().await;
        let worker =
            Worker::builder(punctual.clone()).handler("report", |_: Context| async { Ok(None) }).manual().unwrap();
        Self { admin: punctual.admin("ada"), punctual, clock, worker, _test_store: test_store }
    }

    pub(crate) fn set(&self, time: &str) {
        self.clock.set(at(time));
    }

    pub(crate) async fn put(&self, schedule: Recurring) {
        assert_eq!(self.admin.put_schedule(schedule).await.unwrap(), Put::Added);
    }

    pub(crate) async fn tick(&self) -> usize {
        self.worker.tick().await.unwrap()
    }

    /// The jobs of a schedule, oldest first.
    pub(crate) async fn jobs(&self, schedule: &str) -> Vec<JobView> {
        let filter = Filter { schedule: Some(schedule.to_owned()), ..Filter::default() };
        let mut jobs = self.admin.jobs(filter, Page::first(1_000)).await.unwrap().jobs;
        jobs.reverse();
        jobs
    }

    /// The scheduled times of the jobs of a schedule.
    pub(crate) async fn times(&self, schedule: &str) -> Vec<String> {
        let jobs = self.jobs(schedule).await;
        jobs.iter().map(|job| job.occurrence.as_ref().unwrap().at.to_string()[11..19].to_owned()).collect()
    }

    pub(crate) async fn stored(&self, name: &str) -> Schedule {
        self.punctual.store().schedule(name.to_owned()).await.unwrap().unwrap()
    }
}

/// A time on the first of March 2026, when the clock of every test starts at noon.
pub(crate) fn at(time: &str) -> Timestamp {
    format!("2026-03-01T{time}Z").parse().unwrap()
}

pub(crate) fn report() -> Draft {
    Draft::new("report", &"all").queue("reports")
}
