//! Creates the jobs that deliver alerts to webhooks.

use std::{fmt::Write, sync::Arc};

use punctual_client::Punctual;
use punctual_core::{Invalid, JobId, NewJob, Schedule, Store, Timestamp};

use super::{
    Alert, AlertKind, AlertState, Alerts,
    alert::{jobs, lasted},
};

/// Maximum number of missed schedules per tick that are reported individually.
const SCHEDULES_REPORTED_MAX: usize = 20;

/// Creates alerts and their delivery jobs.
#[derive(Debug)]
pub(crate) struct AlertQueue {
    pub(crate) punctual: Punctual,
    pub(crate) alerts: Alerts,
}

impl AlertQueue {
    pub(crate) fn new(punctual: Punctual, alerts: Alerts) -> Arc<Self> {
        Arc::new(Self { punctual, alerts })
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.punctual.store()
    }

    /// Fills in the fields that all alerts have.
    pub(crate) fn complete(&self, alert: Alert) -> Alert {
        let id = JobId::from_bits(self.punctual.ids().next(alert.at)).to_string();
        let link =
            self.alerts.dashboard.as_ref().map(|url| format!("{}{}", url.trim_end_matches('/'), path_of(&alert)));
        Alert { id: id.replacen("job_", "alr_", 1), store: self.store().info().location, link, ..alert }
    }

    /// The delivery jobs of alerts, one for each webhook that subscribes to the kind.
    #[cfg(feature = "webhooks")]
    pub(crate) fn jobs(&self, alerts: &[Alert]) -> Result<Vec<NewJob>, Invalid> {
        let webhooks = &self.alerts.webhooks;
        let drafts = alerts.iter().flat_map(|alert| webhooks.iter().filter_map(|webhook| webhook.draft(alert)));
        self.punctual.check(drafts)
    }

    /// Without webhooks there is nothing to deliver.
    #[cfg(not(feature = "webhooks"))]
    pub(crate) fn jobs(&self, _: &[Alert]) -> Result<Vec<NewJob>, Invalid> {
        Ok(Vec::new())
    }

    /// The delivery jobs for a missed schedule, of which `run` occurrences are enqueued now. They are stored in the
    /// transaction of the tick. The schedule is the `number`th of the tick: after a long outage, not all are reported.
    pub(crate) fn missed(&self, schedule: &Schedule, run: usize, number: usize, now: Timestamp) -> Vec<NewJob> {
        let since = schedule.next_run_at.unwrap_or(now);
        let name = &schedule.spec.name;
        let mut alert = Alert::new(AlertKind::MissedSchedule, AlertState::Raised, since, now);
        if number > SCHEDULES_REPORTED_MAX + 1 {
            return Vec::new();
        } else if number > SCHEDULES_REPORTED_MAX {
            alert.text = format!(
                "more than {SCHEDULES_REPORTED_MAX} schedules were missed; `punctual schedules list` shows all"
            );
        } else {
            alert.text = format!(
                "schedule {name} misfired: no live worker for {}; {} enqueued now",
                lasted(since, now),
                if run == 0 { "no jobs".to_owned() } else { jobs(run as u64) }
            );
            (alert.schedule, alert.count) = (Some(name.clone()), run as u64);
        }
        let alert = self.complete(alert);
        alert.log();
        self.jobs(&[alert]).unwrap_or_else(|error| {
            tracing::error!(schedule = name, %error, "cannot create the alert of a missed schedule");
            Vec::new()
        })
    }
}

/// The path of the alert's subject on the dashboard.
fn path_of(alert: &Alert) -> String {
    match (alert.kind, &alert.name, &alert.queue, &alert.schedule) {
        (AlertKind::DeadJobs, Some(name), ..) => format!("/jobs?status=dead&name={}", percent_encoded(name)),
        (AlertKind::DeadJobs, ..) => "/jobs?status=dead".to_owned(),
        (AlertKind::MissedSchedule, .., Some(schedule)) => format!("/schedules/{}", percent_encoded(schedule)),
        (AlertKind::MissedSchedule, ..) => "/schedules".to_owned(),
        (.., Some(queue), _) => format!("/queues/{}", percent_encoded(queue)),
        _ => "/queues".to_owned(),
    }
}

/// Percent-encodes a part of a URL.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
