//! Alerts: conditions that operators must know of.
//!
//! | step | file |
//! |---|---|
//! | what is reported, and to which webhooks | [`Alerts`], [`Webhook`]; `alert` |
//! | check for it, in one worker of the fleet | `watch` |
//! | which alerts were sent, and which are due? | `tracker` |
//! | enqueue the deliveries | `alert_queue` |
//! | sign and send them | `webhook`, `webhook_sender` |

mod alert;
mod alert_queue;
mod tracker;
mod watch;
#[cfg(feature = "webhooks")]
mod webhook;
#[cfg(feature = "webhooks")]
mod webhook_sender;

use std::{collections::BTreeMap, time::Duration};

use punctual_core::{Invalid, check, limits};

pub use self::alert::{Alert, AlertKind, AlertState};
#[cfg(feature = "webhooks")]
pub(crate) use self::webhook::DeliveryHandler;
#[cfg(feature = "webhooks")]
pub use self::webhook::Webhook;
pub(crate) use self::{
    alert_queue::AlertQueue,
    tracker::AlertTiming,
    watch::{check_once, watch_on},
};

/// Queue of the jobs that deliver alerts to webhooks. While it is paused, no alert is sent.
pub const ALERTS_QUEUE: &str = "punctual.alerts";
/// Name of the jobs that deliver alerts. A dead job of this name raises no alert.
pub const ALERT_JOB: &str = "punctual.alert";

/// Maximum duration of the settings.
const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Settings of alerts: which conditions are reported, and to which webhooks. Every alert is also written to the log.
///
/// ```
/// use punctual_worker::Alerts;
/// use std::time::Duration;
/// let alerts = Alerts::new().late_after(Duration::from_secs(120)).late_after_in("bulk", Duration::from_secs(3_600));
/// assert!(alerts.check().is_ok());
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Alerts {
    late_after: Duration,
    late_after_in: BTreeMap<String, Duration>,
    pub(crate) timing: AlertTiming,
    pub(crate) check_interval: Duration,
    pub(crate) dashboard: Option<String>,
    #[cfg(feature = "webhooks")]
    pub(crate) webhooks: Vec<Webhook>,
}

impl Default for Alerts {
    fn default() -> Self {
        Self::new()
    }
}

impl Alerts {
    /// All kinds of alerts, written to the log only.
    pub const fn new() -> Self {
        Self {
            late_after: Duration::from_secs(300),
            late_after_in: BTreeMap::new(),
            timing: AlertTiming {
                gather: Duration::from_secs(10),
                hold: Duration::from_secs(30),
                reminder_interval: Duration::from_secs(3_600),
            },
            check_interval: Duration::from_secs(5),
            dashboard: None,
            #[cfg(feature = "webhooks")]
            webhooks: Vec::new(),
        }
    }

    /// Maximum time for which the oldest job of a queue may have been due; 5 min by default.
    pub const fn late_after(mut self, limit: Duration) -> Self {
        self.late_after = limit;
        self
    }

    /// Maximum time as in [`late_after`](Self::late_after), for one queue.
    pub fn late_after_in(mut self, queue: impl Into<String>, limit: Duration) -> Self {
        self.late_after_in.insert(queue.into(), limit);
        self
    }

    /// Time from the first death to its alert, which also reports the other deaths of that time; 10 s by default.
    pub const fn gather(mut self, time: Duration) -> Self {
        self.timing.gather = time;
        self
    }

    /// How long a queue must be late or without workers before that is reported, and be normal before its end is
    /// reported; 30 s by default.
    pub const fn hold(mut self, time: Duration) -> Self {
        self.timing.hold = time;
        self
    }

    /// Interval of reminders while a condition continues; one hour by default.
    pub const fn reminder_interval(mut self, period: Duration) -> Self {
        self.timing.reminder_interval = period;
        self
    }

    /// Interval of the checks; 5 s by default.
    pub const fn check_interval(mut self, interval: Duration) -> Self {
        self.check_interval = interval;
        self
    }

    /// URL of the dashboard, for a link in each alert: `https://punctual.example`.
    pub fn dashboard(mut self, url: impl Into<String>) -> Self {
        self.dashboard = Some(url.into());
        self
    }

    /// Adds a webhook; may be called several times.
    #[cfg(feature = "webhooks")]
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<(), Invalid> {
        let (least, second) = (Duration::from_millis(1), Duration::from_secs(1));
        check::duration("late_after", self.late_after, least, DURATION_MAX)?;
        for (queue, limit) in &self.late_after_in {
            check::name("queue", queue, limits::QUEUE_MAX_CHARS)?;
            check::duration("late_after", *limit, least, DURATION_MAX)?;
        }
        check::duration("gather", self.timing.gather, Duration::ZERO, DURATION_MAX)?;
        check::duration("hold", self.timing.hold, Duration::ZERO, DURATION_MAX)?;
        check::duration("reminder_interval", self.timing.reminder_interval, second, DURATION_MAX)?;
        check::duration("check_interval", self.check_interval, limits::LEASE_MIN, Duration::from_secs(3_600))?;
        if let Some(url) = &self.dashboard
            && !(url.starts_with("https://") || url.starts_with("http://"))
        {
            return Err(Invalid::new("dashboard", "invalid URL; expected https:// or http://"));
        }
        self.check_webhooks()
    }

    #[cfg(feature = "webhooks")]
    fn check_webhooks(&self) -> Result<(), Invalid> {
        for (index, webhook) in self.webhooks.iter().enumerate() {
            webhook.check()?;
            if self.webhooks[..index].iter().any(|other| other.name() == webhook.name()) {
                return Err(Invalid::new("webhook", format!("duplicate webhook name `{}`", webhook.name())));
            }
        }
        Ok(())
    }

    #[cfg(not(feature = "webhooks"))]
    const fn check_webhooks(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// Maximum delay of the jobs of a queue.
    pub(crate) fn limit_of(&self, queue: &str) -> Duration {
        self.late_after_in.get(queue).copied().unwrap_or(self.late_after)
    }

    /// Lowest maximum delay of any queue.
    pub(crate) fn least_limit(&self) -> Duration {
        self.late_after_in.values().copied().fold(self.late_after, Duration::min)
    }
}
