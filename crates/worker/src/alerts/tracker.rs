//! The state of alerts: which were sent and which are due. Pure functions: observations come in, alerts come out. The
//! state is stored in one transaction with the delivery jobs, so that a crash neither loses nor repeats an alert.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{JobId, Timestamp, time::in_words};
use serde::{Deserialize, Serialize};

use super::alert::{Alert, AlertKind, AlertState, jobs, lasted};

/// Maximum time by which a death becomes visible later than its timestamp: the duration of its transaction.
pub(crate) const SHOWS_WITHIN: Duration = Duration::from_secs(120);
/// How often the state is updated while nothing happens.
const REFRESH_PERIOD: Duration = Duration::from_secs(60);
/// Minimum time between two alerts about deaths of one job name.
const DEATHS_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of job ids in an alert.
pub(crate) const JOBS_NAMED: usize = 5;

/// Counts by job name.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The intervals between events and their alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AlertTiming {
    /// Time from the first death to the alert, which reports all deaths of that time.
    pub(crate) gather: Duration,
    /// Time for which a condition must last before its alert, and be absent before the alert of its end.
    pub(crate) hold: Duration,
    /// Time between two alerts about one condition.
    pub(crate) reminder_interval: Duration,
}

/// Follows the state of alerts: which were sent, and which are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AlertTracker {
    /// Deaths before this instant are counted, except those that become visible late.
    pub(crate) until: Timestamp,
    /// Start of the period that is queried again for deaths that became visible late.
    pub(crate) since: Timestamp,
    /// Number of deaths counted in the period from `since` to `until`.
    counted: Counts,
    /// Deaths that are still to be reported, or were reported recently, by job name.
    died: BTreeMap<String, Died>,
    /// Conditions that continue, or are not yet known to be over.
    conditions: Vec<KnownCondition>,
}

/// Jobs of one name that died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Died {
    found: Found,
    noticed_at: Timestamp,
    alerted_at: Option<Timestamp>,
}

/// Deaths that were found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Number of deaths.
    pub(crate) count: u64,
    /// Time of the first death, or a lower bound of it.
    pub(crate) since: Option<Timestamp>,
    /// Ids of some of the jobs, oldest first.
    pub(crate) jobs: Vec<JobId>,
    /// Their queues.
    pub(crate) queues: BTreeSet<String>,
    /// The error of the last one.
    pub(crate) error: Option<String>,
}

impl Found {
    fn add(&mut self, later: Self) {
        self.count += later.count;
        self.since = self.since.or(later.since);
        self.jobs.extend(later.jobs);
        self.jobs.truncate(JOBS_NAMED);
        self.queues.extend(later.queues);
        self.error = later.error.or_else(|| self.error.take());
    }
}

/// A condition that lasts for some time, such as a queue without workers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(crate) kind: AlertKind,
    pub(crate) queue: String,
    /// Number of waiting jobs.
    pub(crate) count: u64,
    /// Their names, unless the condition is about the whole queue.
    pub(crate) names: Vec<String>,
    /// The job that has waited longest, and since when.
    pub(crate) oldest: (JobId, Timestamp),
    /// Maximum waiting time.
    pub(crate) limit: Option<Duration>,
}

/// A condition that was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KnownCondition {
    kind: AlertKind,
    queue: String,
    since: Timestamp,
    /// The time since which it has not been observed.
    gone_at: Option<Timestamp>,
    alerted_at: Option<Timestamp>,
}

impl AlertTracker {
    /// Initial state: events before `now` are not reported.
    pub(crate) const fn beginning(now: Timestamp) -> Self {
        Self { until: now, since: now, counted: Counts::new(), died: BTreeMap::new(), conditions: Vec::new() }
    }

    /// The deaths that are not counted yet: those from [`since`](Self::since) to [`until`](Self::until) that became
    /// visible late, and all later ones.
    pub(crate) fn uncounted(&self, before: &Counts, mut after: Counts) -> Counts {
        for (name, count) in before {
            let late = count.saturating_sub(self.counted.get(name).copied().unwrap_or(0));
            if late > 0 {
                *after.entry(name.clone()).or_default() += late;
            }
        }
        after
    }

    /// Adds deaths that were not counted. `recent` are the deaths visible in the period that will be queried again,
    /// read before the query that found `found`: a death that becomes visible between the two queries is reported twice
    /// rather than not at all.
    pub(crate) fn count(&mut self, found: BTreeMap<String, Found>, recent: Counts, now: Timestamp) {
        if found.is_empty() && now.since(self.until) < REFRESH_PERIOD {
            return;
        }
        (self.since, self.until, self.counted) = (now.before(SHOWS_WITHIN), now, recent);
        for (name, found) in found {
            let died = self.died.entry(name).or_insert_with(|| Died {
                found: Found::default(),
                noticed_at: now,
                alerted_at: None,
            });
            if died.found.count == 0 {
                died.noticed_at = now;
            }
            died.found.add(found);
        }
    }

    /// The alerts about deaths that are due.
    pub(crate) fn due_death_alerts(&mut self, timing: AlertTiming, now: Timestamp) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for (name, died) in &mut self.died {
            let gathered = died.found.count > 0 && now.since(died.noticed_at) >= timing.gather;
            if gathered && died.alerted_at.is_none_or(|at| now.since(at) >= DEATHS_PERIOD) {
                died.alerted_at = Some(now);
                alerts.push(death_alert(name, std::mem::take(&mut died.found), died.noticed_at, now));
            }
        }
        let recently = |died: &Died| died.alerted_at.is_some_and(|at| now.since(at) < DEATHS_PERIOD);
        self.died.retain(|_, died| died.found.count > 0 || recently(died));
        alerts
    }

    /// Whether a condition of a queue is known.
    pub(crate) fn has_condition(&self, queue: &str) -> bool {
        self.conditions.iter().any(|known| known.queue == queue)
    }

    /// The alerts about conditions that began, continue or are over, given the current conditions.
    pub(crate) fn due_condition_alerts(
        &mut self,
        seen: &[Condition],
        timing: AlertTiming,
        now: Timestamp,
    ) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for condition in seen {
            let index = self.conditions.iter().position(|known| known.matches(condition));
            let index = index.unwrap_or_else(|| {
                self.conditions.push(KnownCondition::new(condition, now));
                self.conditions.len() - 1
            });
            alerts.extend(self.conditions[index].observe(condition, timing, now));
        }
        self.conditions.retain_mut(|known| {
            let stays = seen.iter().any(|condition| known.matches(condition)) || known.may_recur(timing, now);
            if !stays && known.alerted_at.is_some() {
                alerts.push(known.resolved(now));
            }
            stays
        });
        alerts
    }
}

impl KnownCondition {
    fn new(condition: &Condition, now: Timestamp) -> Self {
        Self { kind: condition.kind, queue: condition.queue.clone(), since: now, gone_at: None, alerted_at: None }
    }

    fn matches(&self, condition: &Condition) -> bool {
        self.kind == condition.kind && self.queue == condition.queue
    }

    /// The condition continues.
    fn observe(&mut self, condition: &Condition, timing: AlertTiming, now: Timestamp) -> Option<Alert> {
        self.gone_at = None;
        let state = match self.alerted_at {
            None if now.since(self.since) >= timing.hold => AlertState::Raised,
            Some(at) if now.since(at) >= timing.reminder_interval => AlertState::Reminder,
            _ => return None,
        };
        self.alerted_at = Some(now);
        Some(condition_alert(condition, state, self.since, now))
    }

    /// The condition was not observed; returns whether it is too early to report its end. A condition that was never
    /// reported is removed at once.
    fn may_recur(&mut self, timing: AlertTiming, now: Timestamp) -> bool {
        let gone_at = *self.gone_at.get_or_insert(now);
        self.alerted_at.is_some() && now.since(gone_at) < timing.hold
    }

    fn resolved(&self, now: Timestamp) -> Alert {
        let Self { kind, queue, since, gone_at, .. } = self;
        let after = lasted(*since, gone_at.unwrap_or(now));
        let text = match kind {
            AlertKind::Late => format!("queue {queue} is no longer late, after {after}"),
            _ => format!("queue {queue} has live workers for all of its waiting jobs again, after {after}"),
        };
        Alert { text, queue: Some(queue.clone()), ..Alert::new(*kind, AlertState::Resolved, *since, now) }
    }
}

fn death_alert(name: &str, found: Found, noticed_at: Timestamp, now: Timestamp) -> Alert {
    let since = found.since.unwrap_or(noticed_at);
    let which = found.jobs.first().map(|id| format!(", such as {id}")).unwrap_or_default();
    let why = found.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    Alert {
        text: format!("{} of {name} died in the last {}{which}{why}", jobs(found.count), lasted(since, now)),
        count: found.count,
        name: Some(name.to_owned()),
        queue: found.queues.first().filter(|_| found.queues.len() == 1).cloned(),
        jobs: found.jobs,
        error: found.error,
        ..Alert::new(AlertKind::DeadJobs, AlertState::Raised, since, now)
    }
}

fn condition_alert(condition: &Condition, state: AlertState, since: Timestamp, now: Timestamp) -> Alert {
    let Condition { kind, queue, count, names, oldest: (oldest, due), limit } = condition;
    let late = now.since(*due);
    let text = match limit {
        Some(limit) => format!(
            "the oldest job of queue {queue} has been due for {}, more than {}; {} queued",
            in_words(late),
            in_words(*limit),
            jobs(*count)
        ),
        None => format!(
            "{} waiting in queue {queue}, but no live worker has a handler for {}",
            jobs(*count),
            names.join(", ")
        ),
    };
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Alert {
        text,
        count: *count,
        name: names.first().filter(|_| names.len() == 1).cloned(),
        queue: Some(queue.clone()),
        jobs: vec![*oldest],
        lateness_ms: Some(millis(late)),
        limit_ms: limit.map(millis),
        ..Alert::new(*kind, state, since, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: AlertTiming = AlertTiming {
        gather: Duration::from_secs(10),
        hold: Duration::from_secs(30),
        reminder_interval: Duration::from_secs(3_600),
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::MIN.after(Duration::from_secs(100_000 + seconds))
    }

    fn counts(mail: u64) -> Counts {
        if mail == 0 { Counts::new() } else { Counts::from([("mail".to_owned(), mail)]) }
    }

    fn found(count: u64) -> BTreeMap<String, Found> {
        BTreeMap::from([("mail".to_owned(), Found { count, ..Found::default() })])
    }

    fn late(queue: &str) -> Condition {
        Condition {
            kind: AlertKind::Late,
            queue: queue.to_owned(),
            count: 3,
            names: Vec::new(),
            oldest: (JobId::from_bits(7), at(0)),
            limit: Some(Duration::from_secs(60)),
        }
    }

    fn states(alerts: &[Alert]) -> Vec<(AlertState, u64)> {
        alerts.iter().map(|alert| (alert.state, alert.count)).collect()
    }

    #[test]
    fn a_burst_of_deaths_is_one_alert_and_the_next_comes_a_minute_later() {
        let mut tracker = AlertTracker::beginning(at(0));
        for second in 0..10 {
            tracker.count(found(2), counts(2), at(second));
            assert_eq!(tracker.due_death_alerts(TIMING, at(second)), []);
        }
        assert_eq!(states(&tracker.due_death_alerts(TIMING, at(10))), [(AlertState::Raised, 20)]);
        tracker.count(found(1), counts(21), at(12));
        assert_eq!(tracker.due_death_alerts(TIMING, at(69)), []);
        assert_eq!(states(&tracker.due_death_alerts(TIMING, at(70))), [(AlertState::Raised, 1)]);
        assert_eq!(tracker.due_death_alerts(TIMING, at(500)), []);
        assert!(tracker.died.is_empty(), "reported deaths are removed in the end");
    }

    #[test]
    fn deaths_that_become_visible_late_and_repeated_deaths_are_counted() {
        let mut tracker = AlertTracker::beginning(at(0));
        tracker.count(found(2), counts(2), at(60));
        assert_eq!(tracker.uncounted(&counts(2), counts(0)), counts(0));
        assert_eq!(tracker.uncounted(&counts(3), counts(0)), counts(1), "one more became visible");
        assert_eq!(tracker.uncounted(&counts(0), counts(2)), counts(2), "both were retried and died again");
    }

    #[test]
    fn the_state_is_refreshed_once_a_minute_while_nothing_happens() {
        let (mut tracker, before) = (AlertTracker::beginning(at(0)), AlertTracker::beginning(at(0)));
        tracker.count(BTreeMap::new(), counts(0), at(59));
        assert_eq!(tracker, before);
        tracker.count(BTreeMap::new(), counts(0), at(60));
        assert_eq!((tracker.since, tracker.until), (at(60).before(SHOWS_WITHIN), at(60)));
    }

    #[test]
    fn a_condition_is_raised_after_the_hold_time_then_reminded_then_resolved() {
        let (mut tracker, condition) = (AlertTracker::beginning(at(0)), [late("mail")]);
        let mut check = |seen: &[Condition], second| states(&tracker.due_condition_alerts(seen, TIMING, at(second)));
        assert_eq!(check(&condition, 0), []);
        assert_eq!(check(&condition, 30), [(AlertState::Raised, 3)]);
        assert_eq!(check(&condition, 3_629), []);
        assert_eq!(check(&condition, 3_630), [(AlertState::Reminder, 3)]);
        assert_eq!(check(&[], 3_700), [], "it may recur");
        assert_eq!(check(&condition, 3_729), []);
        assert_eq!(check(&[], 3_800), []);
        assert_eq!(check(&[], 3_830), [(AlertState::Resolved, 0)]);
        assert_eq!(check(&[], 9_000), []);
        assert!(tracker.conditions.is_empty());
    }

    #[test]
    fn a_short_condition_raises_no_alert_and_queues_have_conditions_of_their_own() {
        let mut tracker = AlertTracker::beginning(at(0));
        assert_eq!(tracker.due_condition_alerts(&[late("mail")], TIMING, at(0)), []);
        assert_eq!(tracker.due_condition_alerts(&[late("web")], TIMING, at(29)), []);
        assert_eq!(tracker.due_condition_alerts(&[late("mail"), late("web")], TIMING, at(31)), [], "it began again");
        let alerts = tracker.due_condition_alerts(&[late("mail"), late("web")], TIMING, at(59));
        assert_eq!(alerts.iter().map(|alert| alert.queue.as_deref()).collect::<Vec<_>>(), [Some("web")]);
        assert!(alerts[0].text.contains("due for 59 s, more than 60 s"), "{}", alerts[0].text);
    }

    #[test]
    fn the_state_survives_serialization() {
        let mut tracker = AlertTracker::beginning(at(0));
        tracker.count(found(2), counts(2), at(60));
        tracker.due_condition_alerts(&[late("mail")], TIMING, at(60));
        let stored = serde_json::to_string(&tracker).unwrap();
        assert_eq!(serde_json::from_str::<AlertTracker>(&stored).unwrap(), tracker);
    }
}
