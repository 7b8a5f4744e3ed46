//! Schedules.

use crate::{Schedule, ScheduleEvent, ScheduleSave, Timestamp, store::StoreResult};

port! {
    /// Schedules.
    pub trait ScheduleStore {
        /// Schedules by name, from the one after `after`, at most `limit`.
        async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>>;

        /// The schedule of that name.
        async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>>;

        /// The schedules that run and have a next occurrence until then, soonest first, then by name, from the one
        /// after `after`, at most `limit`.
        async fn upcoming(
            &self,
            after: Option<(Timestamp, String)>,
            until: Timestamp,
            limit: usize,
        ) -> StoreResult<Vec<Schedule>>;

        /// Stores schedules, each together with its jobs and what was done to it. One answer each, in order: whether it
        /// was stored. One that somebody else has stored meanwhile is not, nor are its jobs.
        async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>>;

        /// Removes the schedule of that name; says whether there was one. Its jobs and its events stay.
        async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool>;

        /// What was done to the schedule of that name, latest first, at most `limit`.
        async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>>;
    }
}
