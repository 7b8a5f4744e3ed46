//! Decides what a transition of a job writes besides the job's own row: entries in indexes, events, and changes of
//! counters. Pure decisions; engines only apply them.
//!
//! A store finds jobs by their entries in indexes: queued jobs in the order of claims, scheduled ones by their time.
//! [`Entries::of`] derives from the [phase](Phase) of a job which entries it has. A transition writes the difference
//! between the entries before and after it, so no transition can leave an entry behind.

use crate::{AttemptStatus, Settlement, Status, Timestamp, measure::Measure, workflow::EndsChange};

mod phase;

pub use phase::Phase;

/// The index in which an unfinished job is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// The jobs that wait for other jobs.
    Waiting {
        /// The job's position.
        run_at: Timestamp,
    },
    /// The scheduled and retrying jobs.
    Due {
        /// The job's position.
        run_at: Timestamp,
    },
    /// The queued jobs.
    Ready {
        /// The job's position in its lane.
        run_at: Timestamp,
    },
    /// The leases of running jobs.
    Running,
}

/// The entries of a job in the indexes of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entries {
    /// The index of an unfinished job.
    pub index: Option<Index>,
    /// The list of jobs that ended like this, by the time of the end. A deleted job is in none.
    pub end: Option<(Status, Timestamp)>,
    /// When a finished job with a retention of its own expires.
    pub expiry: Option<Timestamp>,
    /// When a deleted job was deleted.
    pub deleted: Option<Timestamp>,
    /// Whether the job may hold its unique key.
    pub key: bool,
}

impl Entries {
    /// The entries of a job in this state.
    pub fn of(state: &Phase) -> Self {
        let Phase { status, run_at, updated_at, finished_at, keep_for } = *state;
        let index = match status {
            Status::Waiting => Some(Index::Waiting { run_at }),
            Status::Scheduled | Status::Retrying => Some(Index::Due { run_at }),
            Status::Queued => Some(Index::Ready { run_at }),
            Status::Processing => Some(Index::Running),
            Status::Failed | Status::Succeeded | Status::Dead | Status::Cancelled | Status::Deleted => None,
        };
        let ended_at = finished_at.filter(|_| status != Status::Deleted);
        Self {
            index,
            end: ended_at.map(|at| (status, at)),
            expiry: ended_at.zip(keep_for).map(|(at, keep_for)| at.after(keep_for)),
            deleted: (status == Status::Deleted).then_some(updated_at),
            key: !matches!(status, Status::Cancelled | Status::Deleted),
        }
    }

    /// These entries, without those that are also in `other`.
    fn without(self, other: Self) -> Self {
        fn new<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<T> {
            if one == other { None } else { one }
        }
        Self {
            index: new(self.index, other.index),
            end: new(self.end, other.end),
            expiry: new(self.expiry, other.expiry),
            deleted: new(self.deleted, other.deleted),
            key: self.key && !other.key,
        }
    }
}

/// What a transition writes besides the job's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effects {
    /// The entries that are deleted.
    pub deleted: Entries,
    /// The entries that are inserted.
    pub inserted: Entries,
    /// The status in which the job is no longer counted; none for a new job.
    pub from: Option<Status>,
    /// The status in which it is counted now; none for a removed job.
    pub to: Option<Status>,
    /// The statuses that the job passes, one event each.
    pub events: &'static [Status],
    /// The change of the number of unfinished jobs of the job's user.
    pub pending: i64,
    /// The change of the counts of the job's workflow.
    pub ends: EndsChange,
    /// The status that the jobs that depend on this one learn of, if it is final for them.
    pub ended: Option<Status>,
    /// Durations to count: what is measured, and since when.
    pub measures: [Option<(Measure, Timestamp)>; 2],
    /// Whether the execution is taken from its worker, so that it keeps its slot in a limit until its handler has
    /// ended.
    pub keeps_slot: bool,
}

impl Effects {
    /// Storing a job, whether it is new or was imported. An imported job brings its own events.
    pub fn stored(after: Phase) -> Self {
        Self { events: event(after.status), ..Self::between(None, Some(after)) }
    }

    /// A change of a job with one event: a promotion, a claim, the end of its last parent, an operator's action, or an
    /// update by another enqueue, which leaves the status as it is.
    pub fn changed(before: Phase, after: Phase) -> Self {
        let (from, to) = (before.status, after.status);
        let starts = to == Status::Processing;
        // Only operators take a job from its worker; `settled` is for the other ends of an execution.
        let stops = from == Status::Processing;
        let lateness = starts.then_some((Measure::Lateness, before.run_at));
        let duration = stops.then_some((Measure::Ended(AttemptStatus::Cancelled), before.updated_at));
        Self {
            events: event(to),
            ends: EndsChange::of(from, to),
            ended: to.is_finished().then_some(to),
            measures: [lateness, duration],
            keeps_slot: stops,
            ..Self::between(Some(before), Some(after))
        }
    }

    /// The end of an execution, whose fence holds, at `now`.
    pub fn settled(before: Phase, settlement: &Settlement, now: Timestamp) -> Self {
        let (ending, started_at) = (settlement.ending, before.updated_at);
        let died = (ending.status() == Status::Dead).then_some((Measure::Died, started_at));
        Self {
            events: ending.path(),
            measures: [Some((Measure::Ended(settlement.attempt_status), started_at)), died],
            keeps_slot: false,
            ..Self::changed(before, before.settled(ending, now))
        }
    }

    /// A change of the retention of a finished job, which is not an event.
    pub fn kept(before: Phase, after: Phase) -> Self {
        Self::between(Some(before), Some(after))
    }

    /// The removal of a job. For the jobs that depend on it, a job that is removed before it was deleted is deleted.
    pub fn removed(before: Phase) -> Self {
        Self {
            ends: EndsChange::of(before.status, Status::Deleted),
            ended: (before.status != Status::Deleted).then_some(Status::Deleted),
            ..Self::between(Some(before), None)
        }
    }

    /// The entries and counters of a change of state.
    fn between(before: Option<Phase>, after: Option<Phase>) -> Self {
        let entries = |state: Option<Phase>| state.map_or_else(Entries::default, |state| Entries::of(&state));
        let status = |state: Option<Phase>| state.map(|state| state.status);
        let pending = |status: Option<Status>| i64::from(status.is_some_and(Status::is_active));
        let (from, to) = (status(before), status(after));
        Self {
            deleted: entries(before).without(entries(after)),
            inserted: entries(after).without(entries(before)),
            from,
            to,
            events: &[],
            pending: pending(to) - pending(from),
            ends: EndsChange::default(),
            ended: None,
            measures: [None; 2],
            keeps_slot: false,
        }
    }
}

/// One event with this status.
fn event(status: Status) -> &'static [Status] {
    const EVERY: &[Status] = &Status::ALL;
    let index = status as usize;
    &EVERY[index..=index]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{JobError, Outcome, Retry, Verb, change, settle, state::TRANSITIONS, testing};

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// A job in this status, with a retention of its own. Its times depend on `second`.
    fn state(status: Status, second: i64) -> Phase {
        let times = |offset| at(second * 1_000_000 + offset);
        Phase {
            status,
            run_at: times(1),
            updated_at: times(2),
            finished_at: status.is_finished().then_some(times(3)),
            keep_for: Some(Duration::from_secs(5)),
        }
    }

    /// The entries after the effects.
    fn applied(to: Entries, effects: &Effects) -> Entries {
        fn one<T: PartialEq + std::fmt::Debug>(there: Option<T>, deleted: Option<T>, inserted: Option<T>) -> Option<T> {
            assert!(deleted.is_none() || deleted == there, "{deleted:?} is deleted, but is not there");
            let left = if deleted.is_some() { None } else { there };
            assert!(left.is_none() || inserted.is_none(), "{inserted:?} is added to {left:?}");
            inserted.or(left)
        }
        let Effects { deleted, inserted, .. } = *effects;
        Entries {
            index: one(to.index, deleted.index, inserted.index),
            end: one(to.end, deleted.end, inserted.end),
            expiry: one(to.expiry, deleted.expiry, inserted.expiry),
            deleted: one(to.deleted, deleted.deleted, inserted.deleted),
            key: (to.key && !deleted.key) || inserted.key,
        }
    }

    /// All transitions, and each status to itself, as an update by another enqueue.
    fn pairs() -> impl Iterator<Item = (Phase, Phase)> {
        let legal = TRANSITIONS.into_iter().flat_map(|(from, targets)| targets.iter().map(move |to| (from, *to)));
        let same = Status::ALL.into_iter().filter(|status| status.is_active()).map(|status| (status, status));
        legal.chain(same).map(|(from, to)| (state(from, 10), state(to, 20)))
    }

    #[test]
    fn every_transition_leads_from_the_entries_before_to_those_after() {
        for (before, after) in pairs() {
            let effects = Effects::changed(before, after);
            let entries = applied(Entries::of(&before), &effects);
            assert_eq!(entries, Entries::of(&after), "{} to {}", before.status, after.status);
            assert_eq!(effects.events, [after.status]);
            assert_eq!((effects.from, effects.to), (Some(before.status), Some(after.status)));
        }
    }

    #[test]
    fn storing_inserts_all_entries_and_removing_deletes_them() {
        for status in Status::ALL {
            let state = state(status, 1);
            let (stored, removed) = (Effects::stored(state), Effects::removed(state));
            assert_eq!((stored.deleted, stored.inserted), (Entries::default(), Entries::of(&state)), "{status}");
            assert_eq!((removed.deleted, removed.inserted), (Entries::of(&state), Entries::default()), "{status}");
            assert_eq!((stored.from, stored.to, removed.from, removed.to), (None, Some(status), Some(status), None));
            assert_eq!(stored.pending + removed.pending, 0);
            assert_eq!((stored.events, removed.events), (&[status][..], &[][..]));
            assert_eq!(removed.ended.is_none(), status == Status::Deleted, "who depends on it learns of it once");
        }
    }

    #[test]
    fn a_job_is_in_one_index_until_it_ends_and_then_in_one_list() {
        for status in Status::ALL.into_iter().filter(|status| *status != Status::Failed) {
            let entries = Entries::of(&state(status, 1));
            let places = [entries.index.is_some(), entries.end.is_some(), entries.deleted.is_some()];
            assert_eq!(places.into_iter().filter(|is_there| *is_there).count(), 1, "{status}");
            assert_eq!(entries.index.is_some(), status.is_active(), "{status}");
            assert_eq!(entries.expiry.is_some(), entries.end.is_some(), "{status}");
        }
        assert_eq!(Entries::of(&state(Status::Failed, 1)), Entries { key: true, ..Entries::default() });
    }

    #[test]
    fn a_key_is_released_by_cancellation_and_deletion_only() {
        for (before, after) in pairs() {
            let effects = Effects::changed(before, after);
            let releases = matches!(after.status, Status::Cancelled | Status::Deleted);
            assert_eq!(effects.deleted.key, releases && before.status != Status::Cancelled, "{effects:?}");
            assert!(!effects.inserted.key, "only an enqueue takes a key, or a retry that needs it again");
        }
    }

    #[test]
    fn users_and_workflows_count_every_end_once() {
        for (before, after) in pairs() {
            let effects = Effects::changed(before, after);
            let (was_over, is_over) = (before.status.is_finished(), after.status.is_finished());
            assert_eq!(effects.pending, i64::from(was_over) - i64::from(is_over), "{effects:?}");
            let EndsChange { succeeded, dead, cancelled } = effects.ends;
            assert_eq!(i64::from(succeeded + dead + cancelled), -effects.pending, "{effects:?}");
            assert_eq!(effects.ended, is_over.then_some(after.status));
        }
    }

    #[test]
    fn the_end_of_an_execution_writes_its_path_and_its_durations() {
        let claim = testing::claim(|job| job.updated_at = at(1));
        let before = Phase::of(&claim.job);
        let failed = [Retry::ByPolicy, Retry::After(Duration::ZERO), Retry::Never]
            .map(|retry| Outcome::Failed { fault: JobError::new("no"), retry });
        let others = [
            Outcome::Succeeded { result: None },
            Outcome::Snoozed { after: Duration::from_secs(1) },
            Outcome::Released,
            Outcome::TimedOut,
            Outcome::Lost { evidence: None },
        ];
        for outcome in failed.into_iter().chain(others) {
            let settlement = settle(&claim, outcome, 0.5);
            let effects = Effects::settled(before, &settlement, at(9));
            let after = before.settled(settlement.ending, at(9));
            assert_eq!(effects.deleted, Entries { index: Some(Index::Running), ..Entries::default() });
            assert_eq!(applied(Entries::of(&before), &effects), Entries::of(&after));
            let mut status = Status::Processing;
            for event in effects.events {
                assert!(status.may_become(*event), "{status} to {event}");
                status = *event;
            }
            assert_eq!((effects.to, after.status), (Some(status), status));
            assert_eq!(effects.measures[0], Some((Measure::Ended(settlement.attempt_status), at(1))));
            assert_eq!(effects.measures[1].is_some(), status == Status::Dead);
            assert!(!effects.keeps_slot, "its handler has ended");
        }
    }

    #[test]
    fn a_start_measures_its_delay_and_a_cancellation_the_execution() {
        let queued = state(Status::Queued, 1);
        let running = queued.claimed(at(7));
        let claim = Effects::changed(queued, running);
        assert_eq!(claim.measures, [Some((Measure::Lateness, queued.run_at)), None]);
        let cancelled = Effects::changed(running, state(Status::Cancelled, 2));
        assert_eq!(cancelled.measures, [None, Some((Measure::Ended(AttemptStatus::Cancelled), at(7)))]);
        assert!(cancelled.keeps_slot && !claim.keeps_slot);
    }

    #[test]
    fn every_action_of_an_operator_has_effects_that_fit_the_job() {
        for verb in [Verb::Retry, Verb::Cancel, Verb::Delete, Verb::RunNow] {
            for from in verb.applies_to() {
                let before = testing::job(|job| {
                    job.status = *from;
                    job.spec.keep_for = Some(Duration::from_secs(3));
                    job.finished_at = from.is_finished().then_some(at(4));
                });
                let mut after = before.clone();
                assert_eq!(change::apply(verb, &mut after, at(9)), Ok(false));
                let effects = Effects::changed(Phase::of(&before), Phase::of(&after));
                let entries = applied(Entries::of(&Phase::of(&before)), &effects);
                assert_eq!(entries, Entries::of(&Phase::of(&after)), "{verb} from {from}");
            }
        }
    }

    #[test]
    fn a_later_start_moves_the_entry_and_an_equal_one_does_not() {
        let before = state(Status::Scheduled, 1);
        let later = Phase { run_at: at(99), ..before };
        let effects = Effects::changed(before, later);
        assert_eq!(effects.deleted.index, Some(Index::Due { run_at: before.run_at }));
        assert_eq!(effects.inserted.index, Some(Index::Due { run_at: at(99) }));
        let effects = Effects::changed(before, Phase { updated_at: at(99), ..before });
        assert_eq!((effects.deleted, effects.inserted), (Entries::default(), Entries::default()));
    }

    #[test]
    fn a_longer_retention_moves_the_expiry_without_an_event() {
        let before = state(Status::Succeeded, 1);
        let effects = Effects::kept(before, Phase { keep_for: Some(Duration::from_secs(60)), ..before });
        assert!(effects.deleted.expiry < effects.inserted.expiry && effects.events.is_empty());
        assert_eq!((effects.ended, effects.ends, effects.pending), (None, EndsChange::default(), 0));
    }
}
