//! Schedules: jobs that recur.
//!
//! A [`ScheduleSpec`] says what and when, as plain data; its [`Timing`] answers which instants that means; [`due()`]
//! decides which occurrences are to be enqueued now. A [`Schedule`] is what the store has: the spec and a cursor.

mod cadence;
mod due;
mod wall_clock;

use std::{fmt, str::FromStr, time::Duration};

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::{
    cadence::Cadence,
    due::{AHEAD, Due, MISFIRE_GRACE, due, look_at},
};
use crate::{Invalid, JobId, Json, NewJob, ScheduleId, Spec, Timestamp, check, limits, time::millis};

/// The name under which alerts remember what they have told: a schedule that never runs. Nobody else may have it, and
/// no list shows it.
pub const MEMORY_OF_ALERTS: &str = "punctual.alerts";

/// What is to be done again and again, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    /// Its name, of which there is one.
    pub name: String,
    /// When: a cron expression, `@hourly` and its kin, or `@every 90s`.
    pub cron: String,
    /// The time zone that a cron expression is read in, by its IANA name.
    #[serde(default = "utc")]
    pub zone: String,
    /// What becomes of occurrences whose time went by while nobody was there.
    #[serde(default)]
    pub misfire: Misfire,
    /// What an occurrence does while the job of the one before is unfinished.
    #[serde(default)]
    pub overlap: Overlap,
    /// Each occurrence starts up to so much later, always by the same amount.
    #[serde(rename = "jitter_ms", with = "millis", default)]
    pub jitter: Duration,
    /// No occurrence before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// No occurrence at this instant or after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The program or file that it is defined in and synchronised with; nothing if it was made by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The job that every occurrence is.
    pub job: Spec,
    /// What the store has and this version cannot read; kept as it is.
    #[serde(skip)]
    pub unreadable: Option<Box<Unreadable>>,
}

/// A stored definition that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// What is stored.
    pub text: String,
    /// Why it cannot be read.
    pub problem: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What becomes of occurrences whose time went by while nobody was there to enqueue them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Misfire {
    /// The last one runs, for all of them.
    #[default]
    RunOnce,
    /// The last ones run, at most so many.
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

/// What an occurrence does while the job of the one before is unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Overlap {
    /// It runs beside it.
    #[default]
    Allow,
    /// It is left out.
    Skip,
    /// It runs, and the one before is cancelled.
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

/// As text in every stored or transmitted document.
macro_rules! as_text {
    ($($name:ident)*) => {
        $(
            impl From<$name> for String {
                fn from(word: $name) -> Self {
                    word.to_string()
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
    /// That job at these times, all else as by default.
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

    /// From what an engine stored for the schedule of that name. What cannot be read has no times, and stays what it
    /// is.
    pub fn from_stored(name: &str, text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| {
            let unreadable = Unreadable { text: text.to_owned(), problem: error.to_string() };
            let job = Spec::new("unreadable", Json::null());
            Self { unreadable: Some(Box::new(unreadable)), ..Self::new(name, "", job) }
        })
    }

    /// What an engine stores.
    pub fn to_stored(&self) -> Result<String, serde_json::Error> {
        match &self.unreadable {
            Some(unreadable) => Ok(unreadable.text.clone()),
            None => serde_json::to_string(self),
        }
    }

    /// Refuses what breaks a limit or would never run, as seen from `now`.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        let timing = self.check_limits()?;
        match timing.next(now) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Invalid::new("cron", format!("`{}` never runs{}", self.cron, self.why_never(now)))),
            Err(problem) => Err(Invalid::new("cron", format!("`{}`: {problem}", self.cron))),
        }
    }

    /// The same, but what has had its time is right: a program does not stop to start because one of its schedules has
    /// ended.
    pub fn check_defined(&self, now: Timestamp) -> Result<(), Invalid> {
        if self.ends_at.is_some_and(|end| self.starts_at.is_none_or(|start| start < end)) {
            return self.check_limits().map(drop);
        }
        self.check(now)
    }

    fn check_limits(&self) -> Result<Timing, Invalid> {
        check::word("schedule", &self.name, limits::NAME_MAX_CHARS)?;
        if self.name == MEMORY_OF_ALERTS {
            return Err(Invalid::new("schedule", format!("`{MEMORY_OF_ALERTS}` is a name of Punctual's own")));
        }
        check::duration("jitter", self.jitter, Duration::ZERO, limits::JITTER_MAX)?;
        if let Some(text) = &self.description {
            check::text("description", text, limits::DESCRIPTION_MAX_CHARS)?;
        }
        if let Some(owner) = &self.owner {
            check::word("owner", owner, limits::LABEL_MAX_CHARS)?;
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

    /// When it runs.
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

    /// The job of the occurrence at `at`. Whoever makes it again makes the same, with the same id, so that it is stored
    /// once.
    pub fn occurrence(&self, at: Timestamp) -> NewJob {
        let mut key = Sha256::new();
        key.update(self.name.as_bytes());
        key.update([0]);
        key.update(at.as_micros().to_be_bytes());
        let digest = key.finalize();
        let part = |range: std::ops::Range<usize>| {
            digest[range].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        // A number from 0 to the whole jitter, which depends on nothing but the schedule's name and the time.
        let late = (u128::from(part(8..16)) * self.jitter.as_micros()) >> 64;
        let delay = Some(Duration::from_micros(late as u64));
        NewJob { delay, ..NewJob::new(JobId::derived(at, part(0..8)), self.job_at(at)) }
    }

    /// What the job of the occurrence at `at` is to do.
    pub fn job_at(&self, at: Timestamp) -> Spec {
        let mut spec = self.job.clone();
        spec.options.occurrence = Some(Occurrence { schedule: self.name.clone(), at });
        spec
    }
}

/// Which occurrence of which schedule a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Occurrence {
    /// The schedule's name.
    pub schedule: String,
    /// The time that it was for, without jitter.
    pub at: Timestamp,
}

/// When a schedule runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    cadence: Cadence,
    zone: TimeZone,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
}

impl Timing {
    /// The cadence in words.
    pub fn describe(&self) -> String {
        self.cadence.describe()
    }

    /// The first occurrence after `after`; nothing if there is none.
    pub fn next(&self, after: Timestamp) -> Result<Option<Timestamp>, String> {
        let after = match self.starts_at {
            Some(start) if start > after => start.before(Duration::from_micros(1)),
            _ => after,
        };
        let next = self.cadence.next(after, &self.zone, self.anchor())?;
        Ok(next.filter(|next| self.ends_at.is_none_or(|end| *next < end)))
    }

    /// The last occurrence at or before `at`; nothing if there is none.
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

    /// What a period is counted from.
    fn anchor(&self) -> Timestamp {
        self.starts_at.unwrap_or(Timestamp::MIN)
    }
}

/// A schedule as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// What and when.
    pub spec: ScheduleSpec,
    /// Whether it runs; otherwise it is paused.
    pub enabled: bool,
    /// Why it was disabled, if not by somebody.
    pub problem: Option<String>,
    /// Counts its changes, so that nobody overwrites what he has not seen.
    pub revision: u64,
    /// The last occurrence that was enqueued.
    pub last_run_at: Option<Timestamp>,
    /// The next occurrence; nothing if there is none.
    pub next_run_at: Option<Timestamp>,
    /// The job that was enqueued last.
    pub last_job: Option<JobId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed by somebody.
    pub updated_at: Timestamp,
    /// Who last changed it.
    pub updated_by: String,
}

/// A schedule as it is to be from now on, and jobs to enqueue with it: all of it or, if somebody else was faster,
/// nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleSave {
    /// The schedule. The store counts its revision on.
    pub schedule: Schedule,
    /// Whether it is new, so that there must be none of its name; otherwise the store's must have its revision.
    pub is_new: bool,
    /// The jobs.
    pub jobs: Vec<NewJob>,
    /// What was done to the schedule, by whom it says was last; nothing if its cursor moves as it should.
    pub done: Option<String>,
}

/// Something that was done to a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleEvent {
    /// When.
    pub at: Timestamp,
    /// Who did it.
    pub actor: String,
    /// What was done, such as `paused`.
    pub action: String,
}
