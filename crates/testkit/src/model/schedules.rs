//! Schedules.

use async_trait::async_trait;
use punctual_core::{Schedule, ScheduleEvent, ScheduleSave, StoreResult, Timestamp, store::ports::ScheduleStore};

use super::{state::State, store::ModelStore};

impl State {
    pub(super) fn save_schedule(&mut self, now: Timestamp, save: ScheduleSave) -> bool {
        let ScheduleSave { mut schedule, is_new, jobs, done } = save;
        let fits = match self.schedules.get(&schedule.spec.name) {
            Some(known) => !is_new && (known.id, known.revision) == (schedule.id, schedule.revision),
            None => is_new,
        };
        if fits {
            schedule.revision += 1;
            if let Some(action) = done {
                let event = ScheduleEvent { at: now, actor: schedule.updated_by.clone(), action };
                self.schedule_events.push((schedule.spec.name.clone(), event));
            }
            self.schedules.insert(schedule.spec.name.clone(), schedule);
            for job in jobs {
                self.enqueue(now, job);
            }
            self.follow(now);
        }
        fits
    }
}

#[async_trait]
impl ScheduleStore for ModelStore {
    async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>> {
        let state = self.state();
        let beyond = state.schedules.values().filter(|one| Some(&one.spec.name) > after.as_ref());
        Ok(beyond.take(limit).cloned().collect())
    }

    async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>> {
        Ok(self.state().schedules.get(&name).cloned())
    }

    async fn upcoming(
        &self,
        after: Option<(Timestamp, String)>,
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Schedule>> {
        let state = self.state();
        let position = |one: &Schedule| Some((one.next_run_at?, one.spec.name.clone()));
        let runs =
            |one: &&Schedule| one.enabled && one.next_run_at.is_some_and(|at| at <= until) && position(one) > after;
        let mut found: Vec<Schedule> = state.schedules.values().filter(runs).cloned().collect();
        found.sort_by_key(|one| one.next_run_at);
        found.truncate(limit);
        Ok(found)
    }

    async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>> {
        self.write(|state, now| saves.into_iter().map(|save| state.save_schedule(now, save)).collect())
    }

    async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool> {
        self.write(|state, at| {
            let removed = state.schedules.remove(&name).is_some();
            if removed {
                state.schedule_events.push((name, ScheduleEvent { at, actor, action: "removed".into() }));
            }
            removed
        })
    }

    async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
        let state = self.state();
        let of_it = state.schedule_events.iter().rev().filter(|(schedule, _)| *schedule == name);
        Ok(of_it.map(|(_, event)| event.clone()).take(limit).collect())
    }
}
