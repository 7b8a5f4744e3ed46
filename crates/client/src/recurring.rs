//! Schedules, defined in code or in a file.

use std::{collections::BTreeMap, time::Duration};

use punctual_core::{
    Error, Invalid, Misfire, Overlap, Schedule, ScheduleSave, ScheduleSpec, Spec, Store, StoreResult, Timestamp, check,
    limits,
};
use serde::Serialize;

use crate::{Draft, Punctual, admin};

/// A schedule: a job, and the times at which it is enqueued.
///
/// ```
/// use punctual_client::{Draft, Recurring};
/// use punctual_core::Misfire;
/// use std::time::Duration;
/// let nightly = Recurring::new("nightly-report", "0 2 * * *", Draft::new("report", &"all").queue("reports"))
///     .zone("Europe/Berlin")
///     .misfire(Misfire::CatchUpLimited(3))
///     .jitter(Duration::from_secs(30));
/// ```
#[derive(Debug, Clone)]
pub struct Recurring {
    spec: ScheduleSpec,
    /// The error in the job's definition; reported when the schedule is stored.
    refused: Option<Invalid>,
}

impl Recurring {
    /// Creates a schedule that enqueues `job` at the times of `cron`: five fields, six with seconds first, `@daily` and
    /// the like, or `@every 90s`.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, job: impl Into<Draft>) -> Self {
        match job.into().into_template() {
            Ok(job) => Self { spec: ScheduleSpec::new(name, cron, job), refused: None },
            Err(refused) => {
                let spec = ScheduleSpec::new(name, cron, Spec::new("", punctual_core::Json::null()));
                Self { spec, refused: Some(refused) }
            }
        }
    }

    /// The time zone of the cron expression, by its IANA name; UTC by default.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.spec.zone = zone.into();
        self
    }

    /// Misfire policy: how occurrences are handled that were missed because no worker was running; by default only the
    /// last one runs.
    #[must_use]
    pub const fn misfire(mut self, misfire: Misfire) -> Self {
        self.spec.misfire = misfire;
        self
    }

    /// Overlap policy: what an occurrence does while the job of the previous one is unfinished; by default both run.
    #[must_use]
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.spec.overlap = overlap;
        self
    }

    /// Maximum delay of each occurrence, constant per occurrence.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.spec.jitter = jitter;
        self
    }

    /// Start of the schedule: no occurrence before this instant.
    #[must_use]
    pub const fn starts_at(mut self, at: Timestamp) -> Self {
        self.spec.starts_at = Some(at);
        self
    }

    /// End of the schedule: no occurrence at or after this instant.
    #[must_use]
    pub const fn ends_at(mut self, at: Timestamp) -> Self {
        self.spec.ends_at = Some(at);
        self
    }

    /// Description.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.spec.description = Some(text.into());
        self
    }

    /// Checks the schedule, as of the time `now`.
    pub fn check(self, now: Timestamp) -> Result<ScheduleSpec, Invalid> {
        let spec = self.into_spec()?;
        spec.check(now)?;
        Ok(spec)
    }

    /// Checks the schedule as one that a program defines: a schedule that has ended is accepted.
    pub fn check_defined(self, now: Timestamp) -> Result<ScheduleSpec, Invalid> {
        let spec = self.into_spec()?;
        spec.check_defined(now)?;
        Ok(spec)
    }

    fn into_spec(mut self) -> Result<ScheduleSpec, Invalid> {
        // Rounded as in the store.
        self.spec.jitter = Duration::from_millis(u64::try_from(self.spec.jitter.as_millis()).unwrap_or(u64::MAX));
        self.refused.map_or(Ok(self.spec), Err)
    }
}

/// The result of a synchronization, as names of schedules.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Synced {
    /// Schedules that were created.
    pub added: Vec<String>,
    /// Schedules that were changed.
    pub changed: Vec<String>,
    /// Schedules that were removed because they are no longer defined.
    pub removed: Vec<String>,
    /// Schedules that were defined but not changed, because they have another owner or were created by hand.
    pub skipped: Vec<String>,
}

impl Punctual {
    /// Synchronizes the schedules of `owner` with these definitions: creates, changes and removes. Schedules of other
    /// owners, and those created by hand, are left unchanged. If a definition is invalid, nothing is changed; if the
    /// store refuses one, nothing is removed.
    pub async fn sync_schedules(
        &self,
        owner: &str,
        schedules: impl IntoIterator<Item = Recurring>,
    ) -> Result<Synced, Error> {
        check::name("owner", owner, limits::LABEL_MAX_CHARS)?;
        let now = self.store().now();
        let wanted = defined(owner, schedules, now)?;
        // Everything is decided before anything is written.
        let known = all(&**self.store()).await?.into_iter().map(|schedule| (schedule.spec.name.clone(), schedule));
        let known: BTreeMap<String, Schedule> = known.collect();
        let (mut synced, mut saves) = (Synced::default(), Vec::new());
        for spec in wanted.values() {
            match admin::decide_put(self, known.get(&spec.name), admin::PutRequest { spec, actor: owner, now }) {
                Ok(save) => saves.extend(save),
                Err(Error::Owned { schedule, owner }) => {
                    tracing::warn!(schedule, owner, "schedule not changed: it has another owner");
                    synced.skipped.push(schedule);
                }
                Err(error) => return Err(error),
            }
        }
        for page in saves.chunks(limits::PAGE_MAX_SCHEDULES) {
            self.save_definitions(page, owner, &mut synced).await?;
        }
        // Last, so that nothing is removed if the store refuses a definition.
        for (name, schedule) in &known {
            if schedule.spec.owner.as_deref() == Some(owner) && !wanted.contains_key(name) {
                self.store().remove_schedule(name.clone(), owner.to_owned()).await?;
                tracing::warn!(schedule = name, owner, "removed a schedule that is no longer defined");
                synced.removed.push(name.clone());
            }
        }
        Ok(synced)
    }

    /// Stores a page of decided changes.
    async fn save_definitions(&self, page: &[ScheduleSave], owner: &str, synced: &mut Synced) -> Result<(), Error> {
        let saved = self.store().save_schedules(page.to_vec()).await?;
        for (save, saved) in page.iter().zip(saved) {
            let (name, mut put) = (save.schedule.spec.name.clone(), admin::Put::of(save));
            if !saved {
                // Another process was faster, most likely with the same definition.
                put = match admin::put(self, save.schedule.spec.clone(), owner).await {
                    Err(Error::Owned { schedule, .. }) => {
                        synced.skipped.push(schedule);
                        admin::Put::Unchanged
                    }
                    put => put?,
                };
            }
            match put {
                admin::Put::Added => synced.added.push(name),
                admin::Put::Changed => synced.changed.push(name),
                admin::Put::Unchanged => {}
            }
        }
        Ok(())
    }
}

/// The checked definitions of `owner`, by name.
fn defined(
    owner: &str,
    schedules: impl IntoIterator<Item = Recurring>,
    now: Timestamp,
) -> Result<BTreeMap<String, ScheduleSpec>, Invalid> {
    let mut defined = BTreeMap::new();
    for recurring in schedules {
        let name = recurring.spec.name.clone();
        let named = |invalid: Invalid| Invalid { problem: format!("{} (schedule {name})", invalid.problem), ..invalid };
        let mut spec = recurring.into_spec().map_err(named)?;
        spec.check_defined(now).map_err(named)?;
        spec.owner = Some(owner.to_owned());
        if defined.insert(spec.name.clone(), spec).is_some() {
            return Err(Invalid::new("schedule", format!("`{name}` is defined twice")));
        }
    }
    Ok(defined)
}

/// All schedules of a store, by name.
async fn all(store: &dyn Store) -> StoreResult<Vec<Schedule>> {
    let mut all: Vec<Schedule> = Vec::new();
    loop {
        let after = all.last().map(|schedule| schedule.spec.name.clone());
        let page = store.schedules(after, limits::PAGE_MAX_SCHEDULES).await?;
        let is_last = page.len() < limits::PAGE_MAX_SCHEDULES;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}
