//! Webhooks: where alerts are sent, how they are signed, and the handler of the delivery jobs.

use std::{fmt, sync::Arc, time::Duration};

use hmac::{Hmac, KeyInit, Mac};
use punctual_client::{Context, Draft, Failure};
use punctual_core::{Invalid, RetryPolicy, check, limits};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{
    ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, Alerts,
    webhook_sender::{Target, WebhookResponse, WebhookSender},
};
use crate::HandlerResult;

/// Minimum length of a secret: shorter ones can be guessed.
const SECRET_MIN_BYTES: usize = 16;
/// Maximum length of a secret.
const SECRET_MAX_BYTES: usize = 1_024;
/// Maximum delivery attempts: over three quarters of an hour in total, with the waits between them.
const ATTEMPTS: u32 = 10;
/// Retention of finished delivery jobs.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Maximum wait that is accepted from a `retry-after` header.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// A webhook: a URL to which alerts are sent, signed with a shared secret.
///
/// ```
/// use punctual_worker::{AlertKind, Webhook};
/// let webhook = Webhook::new("ops", "https://ops.example/punctual", "a secret of sixteen bytes or more")
///     .kinds([AlertKind::DeadJobs, AlertKind::NoWorkers]);
/// assert!(webhook.check().is_ok());
/// assert!(!format!("{webhook:?}").contains("secret of"));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Webhook {
    name: String,
    url: String,
    secret: Vec<u8>,
    /// All kinds if empty.
    kinds: Vec<AlertKind>,
    timeout: Duration,
}

impl fmt::Debug for Webhook {
    /// Hides the URL, which often contains a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Creates a webhook. The name identifies it in the payloads of its delivery jobs.
    pub fn new(name: impl Into<String>, url: impl Into<String>, secret: impl Into<Vec<u8>>) -> Self {
        let (name, url, secret) = (name.into(), url.into(), secret.into());
        Self { name, url, secret, kinds: Vec::new(), timeout: Duration::from_secs(10) }
    }

    /// Sends only these kinds of alerts; all by default.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = AlertKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Timeout per request; 10 s by default.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<(), Invalid> {
        check::name("webhook", &self.name, limits::LABEL_MAX_CHARS)?;
        Target::of(&self.url).map_err(|problem| Invalid::new("url", problem))?;
        if !(SECRET_MIN_BYTES..=SECRET_MAX_BYTES).contains(&self.secret.len()) {
            let problem = format!(
                "must have {SECRET_MIN_BYTES} to {SECRET_MAX_BYTES} bytes, not {} (webhook {})",
                self.secret.len(),
                self.name,
            );
            return Err(Invalid::new("secret", problem));
        }
        check::duration("timeout", self.timeout, Duration::from_millis(1), Duration::from_secs(60))
    }

    /// The job that delivers an alert to this webhook, if the webhook subscribes to its kind. The job refers to the
    /// webhook by name: neither URL nor secret are stored.
    pub(crate) fn draft(&self, alert: &Alert) -> Option<Draft> {
        if !self.kinds.is_empty() && !self.kinds.contains(&alert.kind) {
            return None;
        }
        let body = serde_json::value::to_raw_value(alert).ok()?;
        let delivery = Delivery { webhook: self.name.clone(), seal: self.seal(body.get()), alert: body };
        let draft = Draft::new(ALERT_JOB, &delivery)
            .queue(ALERTS_QUEUE)
            .priority(limits::PRIORITY_MAX)
            .max_attempts(ATTEMPTS)
            .retry(RetryPolicy::exponential(Duration::from_secs(5)))
            .timeout(self.timeout + Duration::from_secs(5))
            .keep_for(KEPT)
            .correlation_id(&alert.id)
            .created_by("punctual")
            .tag(alert.kind.as_str());
        Some(draft.description(alert.text.chars().take(limits::DESCRIPTION_MAX_CHARS).collect::<String>()))
    }

    /// Proves that Punctual itself created the alert, not another program that can enqueue jobs.
    fn seal(&self, body: &str) -> String {
        hex(&self.mac(&["seal", &self.name, body]))
    }

    /// The value of the signature header, by which a receiver verifies sender and time.
    fn signature(&self, unix_seconds: i64, body: &str) -> String {
        format!("t={unix_seconds},v1={}", hex(&self.mac(&[&unix_seconds.to_string(), body])))
    }

    /// The MAC of the parts, joined by dots.
    fn mac(&self, parts: &[&str]) -> Vec<u8> {
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) else { return Vec::new() };
        mac.update(parts.join(".").as_bytes());
        mac.finalize().into_bytes().to_vec()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The payload of a delivery job.
#[derive(Serialize, Deserialize)]
struct Delivery {
    webhook: String,
    seal: String,
    /// Byte for byte as it was sealed.
    alert: Box<RawValue>,
}

/// The handler of delivery jobs.
pub(crate) struct DeliveryHandler {
    webhooks: Vec<(Webhook, Target)>,
    sender: WebhookSender,
}

impl DeliveryHandler {
    /// The handler for these webhooks; `None` if there are none.
    pub(crate) fn new(alerts: &Alerts) -> Result<Option<Arc<Self>>, Invalid> {
        alerts.check()?;
        if alerts.webhooks.is_empty() {
            return Ok(None);
        }
        let problem = |problem| Invalid::new("url", problem);
        let target = |webhook: &Webhook| Ok((webhook.clone(), Target::of(&webhook.url).map_err(problem)?));
        let webhooks = alerts.webhooks.iter().map(target).collect::<Result<Vec<_>, Invalid>>()?;
        let sender = WebhookSender::new(webhooks.iter().any(|(_, target)| target.is_https())).map_err(problem)?;
        Ok(Some(Arc::new(Self { webhooks, sender })))
    }

    /// Runs a delivery job.
    pub(crate) async fn deliver(self: Arc<Self>, ctx: Context) -> HandlerResult {
        let unreadable = |error: serde_json::Error| Failure::permanent(format!("the payload is not an alert: {error}"));
        let Delivery { webhook: name, seal, alert } = ctx.claim().job.spec.payload.read().map_err(unreadable)?;
        let Some((webhook, target)) = self.webhooks.iter().find(|(webhook, _)| webhook.name == name) else {
            return Err(Failure::new(format!("the configuration of this worker has no webhook `{name}`")));
        };
        let body = alert.get();
        if !bool::from(seal.as_bytes().ct_eq(webhook.seal(body).as_bytes())) {
            let problem = "not created by Punctual, or signed with another secret than that of this worker";
            return Err(Failure::new(format!("the alert for webhook {name} was {problem}")));
        }
        let now = ctx.punctual().store().now().as_micros() / 1_000_000;
        let id = ctx.claim().job.spec.correlation_id.clone().unwrap_or_default();
        let headers = [("punctual-signature", webhook.signature(now, body)), ("punctual-id", id)];
        let request = self.sender.post(target, &headers, body.to_owned(), webhook.timeout);
        let response = ctx.signal().run_until_cancelled(request).await.ok_or_else(|| Failure::new("asked to stop"))?;
        result_of(&ctx, &name, response)
    }
}

/// The result of the job for this response.
fn result_of(ctx: &Context, webhook: &str, response: Result<WebhookResponse, String>) -> HandlerResult {
    let WebhookResponse { status, body, retry_after } =
        response.map_err(|problem| Failure::new(format!("webhook {webhook}: {problem}")))?;
    ctx.info(if body.is_empty() { format!("answered {status}") } else { format!("answered {status}: {body}") });
    let refused = match status {
        200..=299 => return Ok(None),
        300..=399 => format!("webhook {webhook} answered {status}; redirects are not followed"),
        _ => format!("webhook {webhook} answered {status}"),
    };
    Err(match retry_after {
        Some(after) => Failure::retry_after(after.min(RETRY_AFTER_MAX), refused),
        None => Failure::new(refused),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_match_those_of_other_implementations() {
        let webhook = Webhook::new("ops", "http://localhost/", "0123456789abcdef");
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let expected = "e4f8e2ecae2295b2ddb2f0b5584c8275e226c0ebe9b3b819e70156bb67122e3e";
        assert_eq!(webhook.signature(1_700_000_000, "{}"), format!("t=1700000000,v1={expected}"));
    }

    #[test]
    fn invalid_settings_are_refused_and_name_the_field() {
        let refused = |url: &str, secret: &str| Webhook::new("ops", url, secret).check().unwrap_err().to_string();
        let secret = "0123456789abcdef";
        assert!(refused("https://ops.example/", "short").starts_with("secret: must have 16 to"));
        for url in
            ["", "ops.example", "/path", "ftp://ops.example/", "https://", "https://ada:pw@ops.example/", "http://a:x/"]
        {
            assert!(refused(url, secret).starts_with("url: "), "{url}");
        }
        assert!(!refused("https://ada:pw@ops.example/", secret).contains("pw"), "a URL may contain a secret");
        for url in ["http://127.0.0.1:8080/x?y=1", "https://[::1]:8443", "HTTPS://ops.example"] {
            assert_eq!(Webhook::new("ops", url, secret).check(), Ok(()), "{url}");
        }
    }
}
