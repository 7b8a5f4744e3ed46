//! Schedules: recurring jobs.
//!
//! A [`ScheduleSpec`] defines the job and its times, as plain data; its [`Timing`] computes the instants; [`due()`]
//! decides which occurrences are to be enqueued now. A [`Schedule`] is the stored form: the specification and a cursor.

mod cadence;
mod due;
mod wall_clock;

use std::{fmt, str::FromStr, time::Duration};

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::{
    cadence::Cadence,
    due::{AHEAD, Due, MISFIRE_GRACE, due, evaluation_time},
};
use crate::{Invalid, JobId, Json, NewJob, ScheduleId, Spec, Timestamp, check, limits, time::millis};

/// The name of the schedule that stores the state of alerts: which were sent, and which are due. It never runs. The
/// name is reserved, and no list contains it.
pub const ALERT_STATE_SCHEDULE: &str = "punctual.alerts";

/// The definition of a schedule: a job, and its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    /// Its unique name.
    pub name: String,
    /// The times: a cron expression, a macro such as `@hourly`, or `@every 90s`.
    pub cron: String,
    /// The time zone of the cron expression, as an IANA name.
    #[serde(default = "utc")]
    pub zone: String,
    /// What happens to occurrences that no process enqueued in time.
    #[serde(default)]
    pub misfire: Misfire,
    /// What happens to an occurrence while the job of the previous one is unfinished.
    #[serde(default)]
    pub overlap: Overlap,
    /// Maximum delay of an occurrence after its time. The delay of each occurrence is fixed.
    #[serde(rename = "jitter_ms", with = "millis", default)]
    pub jitter: Duration,
    /// No occurrences before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// No occurrences at or after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The program or file that defines the schedule and is synchronised with it; nothing if it was created manually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The job of each occurrence.
    pub job: Spec,
    /// A stored definition that this version cannot read; it is preserved.
    #[serde(skip)]
    pub unreadable: Option<Box<Unreadable>>,
}

/// A stored definition that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// The stored text.
    pub text: String,
    /// Why it cannot be read.
    pub problem: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What happens to occurrences that no process enqueued in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Misfire {
    /// The last one runs, in place of all of them.
    #[default]
    RunOnce,
    /// The last ones run, at most this number.
    CatchUpLimited(u32),
    /// None of them runs.
    Ignore,
}

impl fmt::Display for Misfire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunOnce => f.write_str("run-once"),
            Self::CatchUpLimited(most) => write!(f, "catch-up-limited:{most}"),
            Self::Ignore => f.write_str("ignore"),
        }
    }
}

impl FromStr for Misfire {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match (text, text.strip_prefix("catch-up-limited:").map(str::parse)) {
            ("run-once", _) => Ok(Self::RunOnce),
            ("ignore", _) => Ok(Self::Ignore),
            (_, Some(Ok(most))) => Ok(Self::CatchUpLimited(most)),
            _ => Err(Invalid::new(
                "misfire",
                format!("unknown policy `{text}`: expected run-once, catch-up-limited:N or ignore"),
            )),
        }
    }
}

/// What happens to an occurrence while the job of the previous one is unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Overlap {
    /// It runs concurrently.
    #[default]
    Allow,
    /// It is skipped.
    Skip,
    /// It runs, and the job of the previous one is cancelled.
    CancelPrevious,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::CancelPrevious => "cancel-previous",
        })
    }
}

impl FromStr for Overlap {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "allow" => Ok(Self::Allow),
            "skip" => Ok(Self::Skip),
            "cancel-previous" => Ok(Self::CancelPrevious),
            _ => Err(Invalid::new(
                "overlap",
                format!("unknown policy `{text}`: expected allow, skip or cancel-previous"),
            )),
        }
    }
}

/// Serialises as text in every stored or transmitted document.
macro_rules! as_text {
    ($($name:ident)*) => {
        $(
            impl From<$name> for String {
                fn from(value: $name) -> Self {
                    value.to_string()
                }
            }

            impl TryFrom<String> for $name {
                type Error = Invalid;

                fn try_from(text: String) -> Result<Self, Invalid> {
                    text.parse()
                }
            }
        )*
    };
}

as_text! { Misfire Overlap }

impl ScheduleSpec {
    /// A schedule of this job with these times, and defaults otherwise.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, job: Spec) -> Self {
        Self {
            name: name.into(),
            cron: cron.into(),
            zone: utc(),
            misfire: Misfire::default(),
            overlap: Overlap::default(),
            jitter: Duration::ZERO,
            starts_at: None,
            ends_at: None,
            description: None,
            owner: None,
            job,
            unreadable: None,
        }
    }

    /// Parses the stored definition of the schedule with this name. A definition that cannot be read has no
    /// occurrences, and is preserved.
    pub fn from_stored(name: &str, text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| {
            let unreadable = Unreadable { text: text.to_owned(), problem: error.to_string() };
            let job = Spec::new("unreadable", Json::null());
            Self { unreadable: Some(Box::new(unreadable)), ..Self::new(name, "", job) }
        })
    }

    /// The text that an engine stores.
    pub fn to_stored(&self) -> Result<String, serde_json::Error> {
        match &self.unreadable {
            Some(unreadable) => Ok(unreadable.text.clone()),
            None => serde_json::to_string(self),
        }
    }

    /// Rejects a definition that is invalid, or would never run after `now`.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        let timing = self.check_limits()?;
        match timing.next(now) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Invalid::new("cron", format!("`{}` never runs{}", self.cron, self.why_never(now)))),
            Err(problem) => Err(Invalid::new("cron", format!("`{}`: {problem}", self.cron))),
        }
    }

    /// The same, but accepts a schedule that has ended: a program must not fail to start because one of its schedules
    /// has ended.
    pub fn check_defined(&self, now: Timestamp) -> Result<(), Invalid> {
        if self.ends_at.is_some_and(|end| self.starts_at.is_none_or(|start| start < end)) {
            return self.check_limits().map(drop);
        }
        self.check(now)
    }

    fn check_limits(&self) -> Result<Timing, Invalid> {
        check::name("schedule", &self.name, limits::NAME_MAX_CHARS)?;
        if self.name == ALERT_STATE_SCHEDULE {
            return Err(Invalid::new("schedule", format!("`{ALERT_STATE_SCHEDULE}` is reserved")));
        }
        check::duration("jitter", self.jitter, Duration::ZERO, limits::JITTER_MAX)?;
        if let Some(text) = &self.description {
            check::text("description", text, limits::DESCRIPTION_MAX_CHARS)?;
        }
        if let Some(owner) = &self.owner {
            check::name("owner", owner, limits::LABEL_MAX_CHARS)?;
        }
        if let Misfire::CatchUpLimited(most) = self.misfire {
            check::range("misfire", most, 1..=limits::CATCH_UP_MAX_JOBS)?;
        }
        self.job.check()?;
        self.timing()
    }

    fn why_never(&self, now: Timestamp) -> &'static str {
        match (self.starts_at, self.ends_at) {
            (_, Some(end)) if end <= now => ": its end is past",
            (Some(start), Some(end)) if end <= start => ": its end is not after its start",
            (_, Some(_)) => " before its end",
            _ => ": no such date exists",
        }
    }

    /// The times of the schedule.
    pub fn timing(&self) -> Result<Timing, Invalid> {
        if let Some(unreadable) = &self.unreadable {
            let problem =
                format!("the stored definition cannot be read: {}; define the schedule again", unreadable.problem);
            return Err(Invalid::new("definition", problem));
        }
        let zone = TimeZone::get(&self.zone).map_err(|_| {
            let problem = format!("unknown time zone `{}`: expected UTC, or a name such as Europe/Berlin", self.zone);
            Invalid::new("zone", problem)
        })?;
        Ok(Timing { cadence: self.cron.parse()?, zone, starts_at: self.starts_at, ends_at: self.ends_at })
    }

    /// The job of the occurrence at `at`. The job and its id are deterministic, so that it is stored only once.
    pub fn occurrence(&self, at: Timestamp) -> NewJob {
        let mut key = Sha256::new();
        key.update(self.name.as_bytes());
        key.update([0]);
        key.update(at.as_micros().to_be_bytes());
        let digest = key.finalize();
        let part = |range: std::ops::Range<usize>| {
            digest[range].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        // A number from 0 to the whole jitter that depends only on the schedule's name and the time.
        let late = (u128::from(part(8..16)) * self.jitter.as_micros()) >> 64;
        let delay = Some(Duration::from_micros(late as u64));
        NewJob { delay, ..NewJob::new(JobId::derived(at, part(0..8)), self.job_at(at)) }
    }

    /// The specification of the job of the occurrence at `at`.
    pub fn job_at(&self, at: Timestamp) -> Spec {
        let mut spec = self.job.clone();
        spec.options.occurrence = Some(Occurrence { schedule: self.name.clone(), at });
        spec
    }
}

/// The occurrence of a schedule that a job belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Occurrence {
    /// Name of the schedule.
    pub schedule: String,
    /// Time of the occurrence, without jitter.
    pub at: Timestamp,
}

/// The times of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    cadence: Cadence,
    zone: TimeZone,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
}

impl Timing {
    /// A description in words.
    pub fn describe(&self) -> String {
        self.cadence.describe()
    }

    /// The first occurrence after `after`, if any.
    pub fn next(&self, after: Timestamp) -> Result<Option<Timestamp>, String> {
        let after = match self.starts_at {
            Some(start) if start > after => start.before(Duration::from_micros(1)),
            _ => after,
        };
        let next = self.cadence.next(after, &self.zone, self.anchor())?;
        Ok(next.filter(|next| self.ends_at.is_none_or(|end| *next < end)))
    }

    /// The last occurrence at or before `at`, if any.
    pub fn last(&self, at: Timestamp) -> Result<Option<Timestamp>, String> {
        let at = match self.ends_at {
            Some(end) if end <= at => end.before(Duration::from_micros(1)),
            _ => at,
        };
        let last = self.cadence.last(at, &self.zone, self.anchor())?;
        Ok(last.filter(|last| self.starts_at.is_none_or(|start| *last >= start)))
    }

    /// The next occurrences after `after`, at most `limit`.
    pub fn upcoming(&self, after: Timestamp, limit: usize) -> Result<Vec<Timestamp>, String> {
        let (mut found, mut from) = (Vec::new(), after);
        while found.len() < limit
            && let Some(next) = self.next(from)?
        {
            found.push(next);
            from = next;
        }
        Ok(found)
    }

    /// The instant from which a period is counted.
    fn anchor(&self) -> Timestamp {
        self.starts_at.unwrap_or(Timestamp::MIN)
    }
}

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// The definition.
    pub spec: ScheduleSpec,
    /// Whether it is enabled; otherwise it is paused.
    pub enabled: bool,
    /// Why it was disabled, if not by an operator.
    pub problem: Option<String>,
    /// The number of changes, for optimistic locking.
    pub revision: u64,
    /// The last occurrence that was enqueued.
    pub last_run_at: Option<Timestamp>,
    /// The next occurrence, if any.
    pub next_run_at: Option<Timestamp>,
    /// The last job that was enqueued.
    pub last_job: Option<JobId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its definition or its state was last changed, by the author of the last change. Not when its cursor
    /// advances: that is the time of the occurrence, [`last_run_at`](Self::last_run_at).
    pub updated_at: Timestamp,
    /// The author of the last change: an operator, its owner, or `punctual`.
    pub updated_by: String,
}

/// The new state of a schedule, and jobs to enqueue with it. If the schedule was changed meanwhile, nothing is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleSave {
    /// The schedule. The store increments its revision.
    pub schedule: Schedule,
    /// Whether it is new, and no schedule of its name may exist; otherwise the stored one must have its revision.
    pub is_new: bool,
    /// The jobs.
    pub jobs: Vec<NewJob>,
    /// The action on the schedule by the author that it names; nothing if only its cursor advances.
    pub done: Option<String>,
}

/// An action on a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleEvent {
    /// Time of the action.
    pub at: Timestamp,
    /// Author of the action.
    pub actor: String,
    /// Action, such as `paused`.
    pub action: String,
}
