//! Jobs that recur, defined in code or in a file.

use std::{collections::BTreeMap, time::Duration};

use punctual_core::{
    Error, Invalid, Misfire, Overlap, Schedule, ScheduleSpec, Spec, Store, StoreResult, Timestamp, check, limits,
};
use serde::Serialize;

use crate::{Draft, Punctual, admin};

/// A schedule: a job, and when it runs again and again.
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
    /// What is wrong with the job; told when the schedule is stored.
    refused: Option<Invalid>,
}

impl Recurring {
    /// Enqueues `job` whenever `cron` says: five fields, six with seconds in front, `@daily` and its kin, or `@every
    /// 90s`.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, job: impl Into<Draft>) -> Self {
        match job.into().into_template() {
            Ok(job) => Self { spec: ScheduleSpec::new(name, cron, job), refused: None },
            Err(refused) => {
                let spec = ScheduleSpec::new(name, cron, Spec::new("", punctual_core::Json::null()));
                Self { spec, refused: Some(refused) }
            }
        }
    }

    /// The time zone that the cron expression is read in, by its IANA name; UTC by default.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.spec.zone = zone.into();
        self
    }

    /// What becomes of occurrences whose time went by while nobody was there; by default the last one runs.
    #[must_use]
    pub const fn misfire(mut self, misfire: Misfire) -> Self {
        self.spec.misfire = misfire;
        self
    }

    /// What an occurrence does while the job of the one before is unfinished; by default it runs beside it.
    #[must_use]
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.spec.overlap = overlap;
        self
    }

    /// Starts each occurrence up to so much later, always by the same amount.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.spec.jitter = jitter;
        self
    }

    /// No occurrence before this instant.
    #[must_use]
    pub const fn starts_at(mut self, at: Timestamp) -> Self {
        self.spec.starts_at = Some(at);
        self
    }

    /// No occurrence at this instant or after it.
    #[must_use]
    pub const fn ends_at(mut self, at: Timestamp) -> Self {
        self.spec.ends_at = Some(at);
        self
    }

    /// A sentence for people.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.spec.description = Some(text.into());
        self
    }

    /// Checks it, as seen from `now`.
    pub fn check(self, now: Timestamp) -> Result<ScheduleSpec, Invalid> {
        let spec = self.into_spec()?;
        spec.check(now)?;
        Ok(spec)
    }

    fn into_spec(mut self) -> Result<ScheduleSpec, Invalid> {
        // As it comes back from the store.
        self.spec.jitter = Duration::from_millis(u64::try_from(self.spec.jitter.as_millis()).unwrap_or(u64::MAX));
        self.refused.map_or(Ok(self.spec), Err)
    }
}

/// What a synchronisation did, by the schedules' names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Synced {
    /// Those that are new.
    pub added: Vec<String>,
    /// Those that are different now.
    pub changed: Vec<String>,
    /// Those that are gone, because their definition is.
    pub removed: Vec<String>,
    /// Those that somebody else owns, or that were made by hand. They are as they were.
    pub left_alone: Vec<String>,
}

impl Punctual {
    /// Makes the schedules that `owner` defines what the store has of this owner: adds, changes and removes. Schedules
    /// of others, and those made by hand, are left alone. Nothing is changed if one of them is refused.
    pub async fn sync_schedules(
        &self,
        owner: &str,
        schedules: impl IntoIterator<Item = Recurring>,
    ) -> Result<Synced, Error> {
        check::word("owner", owner, limits::LABEL_MAX_CHARS)?;
        let (now, mut wanted) = (self.store().now(), BTreeMap::new());
        for recurring in schedules {
            let name = recurring.spec.name.clone();
            let named =
                |invalid: Invalid| Invalid { problem: format!("{} (schedule {name})", invalid.problem), ..invalid };
            let mut spec = recurring.into_spec().map_err(named)?;
            spec.check_defined(now).map_err(named)?;
            spec.owner = Some(owner.to_owned());
            if wanted.insert(spec.name.clone(), spec).is_some() {
                return Err(Invalid::new("schedule", format!("`{name}` is defined twice")).into());
            }
        }
        let (mut synced, mut known) = (Synced::default(), BTreeMap::new());
        for schedule in all(&**self.store()).await? {
            let name = schedule.spec.name.clone();
            if schedule.spec.owner.as_deref() == Some(owner) && !wanted.contains_key(&name) {
                self.store().remove_schedule(name.clone(), owner.to_owned()).await?;
                tracing::warn!(schedule = name, owner, "removed a schedule that is no longer defined");
                synced.removed.push(name);
            } else {
                known.insert(name, schedule);
            }
        }
        let mut saves = Vec::new();
        for (name, spec) in &wanted {
            match admin::decide_put(self, known.get(name), spec, owner, now) {
                Ok(Some(save)) => saves.push(save),
                Ok(None) => {}
                Err(Error::Owned { schedule, owner }) => {
                    tracing::warn!(schedule, owner, "left a schedule alone that is somebody else's");
                    synced.left_alone.push(schedule);
                }
                Err(error) => return Err(error),
            }
        }
        for page in saves.chunks(limits::PAGE_MAX_SCHEDULES) {
            let saved = self.store().save_schedules(page.to_vec()).await?;
            for (save, saved) in page.iter().zip(saved) {
                let (name, mut put) = (save.schedule.spec.name.clone(), admin::Put::of(save));
                if !saved {
                    // Somebody was faster, most likely with the same definition.
                    put = match admin::put(self, save.schedule.spec.clone(), owner).await {
                        Err(Error::Owned { schedule, .. }) => {
                            synced.left_alone.push(schedule);
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
        }
        Ok(synced)
    }
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
