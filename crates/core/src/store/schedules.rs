//! Schedules.

use crate::{Schedule, ScheduleEvent, ScheduleSave, Timestamp, store::StoreResult};

port! {
    /// Schedules.
    pub trait ScheduleStore {
        /// Schedules by name, following `after`, at most `limit`.
        async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>>;

        /// The schedule with this name.
        async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>>;

        /// The enabled schedules that have their next occurrence up to `until`, soonest first, then by name, following
        /// `after`, at most `limit`.
        async fn upcoming(
            &self,
            after: Option<(Timestamp, String)>,
            until: Timestamp,
            limit: usize,
        ) -> StoreResult<Vec<Schedule>>;

        /// Stores schedules, each with its jobs and its event. Returns for each, in order, whether it was stored. A
        /// schedule that was changed meanwhile is not stored, nor are its jobs.
        async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>>;

        /// Removes the schedule with this name; returns whether it existed. Its jobs and its events are kept.
        async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool>;

        /// The actions on the schedule with this name, latest first, at most `limit`.
        async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>>;
    }
}
