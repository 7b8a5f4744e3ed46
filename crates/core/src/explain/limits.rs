//! Limits that are reached.

use super::{
    facts::{Facts, Held},
    reason::{Cause, Reason, reason},
    words::{NAMED_MAX_COUNT, s},
};
use crate::{Rate, limiter::LimitUsage, time};

impl Facts {
    /// The limits that are reached: those of the queue, and those of the concurrency key if the job has one.
    pub(super) fn limits(&self) -> Vec<Reason> {
        let (limits, spec) = (&self.queue.limits, &self.job.spec);
        let queue = Limiter {
            name: format!("queue {}", spec.queue),
            passed: &self.passed_queue,
            held: self.held.iter().collect(),
            causes: (Cause::QueueLimit, Cause::QueueRate),
            option: "",
        };
        let mut reasons = self.closed(&queue, limits.concurrency, limits.rate);
        if let Some(key) = &spec.options.concurrency_key {
            let key = Limiter {
                name: format!("key {key}"),
                passed: &self.passed_key,
                held: self.held.iter().filter(|held| held.key.as_ref() == Some(key)).collect(),
                causes: (Cause::KeyLimit, Cause::KeyRate),
                option: "key-",
            };
            reasons.extend(self.closed(&key, limits.key_limit(), limits.key_rate));
        }
        reasons
    }

    /// Why a limiter allows no more starts.
    fn closed(&self, limiter: &Limiter<'_>, limit: Option<u32>, rate: Option<Rate>) -> Vec<Reason> {
        let Limiter { name, passed, held, causes, option } = limiter;
        let raise = |what: &str| format!("punctual queues limit {} --{option}{what}", self.job.spec.queue);
        let mut reasons = Vec::new();
        if let Some(limit) = limit.filter(|limit| passed.running >= *limit) {
            let by = named(held, passed.running);
            let text = format!("The {name} is at its limit of {limit} concurrent job{}{by}.", s(limit as usize));
            let advice = format!("Wait for one to end, or raise the limit: {}", raise("concurrency N"));
            reasons.push(reason(causes.0, text, advice));
        }
        let opens_at = rate.map(|rate| (rate, rate.opens_at(&passed.starts, self.now)));
        if let Some((rate, opens_at)) = opens_at.filter(|(_, at)| *at > self.now) {
            let wait = time::in_words(opens_at.since(self.now));
            let text = format!("The {name} is at its rate limit of {rate}; the next job may start in {wait}.");
            reasons.push(reason(causes.1, text, format!("Raise the rate: {}", raise("rate N/TIME"))));
        }
        reasons
    }
}

/// A limiter that applies to the job.
struct Limiter<'a> {
    name: String,
    passed: &'a LimitUsage,
    /// The known jobs that occupy its slots.
    held: Vec<&'a Held>,
    /// The causes to report for its concurrency limit and for its rate.
    causes: (Cause, Cause),
    /// Prefix of the command-line options that change it.
    option: &'static str,
}

/// Names the first of `all` jobs that occupy slots, as far as they are known.
fn named(known: &[&Held], all: u32) -> String {
    let named: Vec<String> = known.iter().take(NAMED_MAX_COUNT).map(|held| held_by(held)).collect();
    let more = (all as usize).saturating_sub(named.len());
    match (named.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", named.join(", ")),
        (false, more) => format!(": {} and {more} more", named.join(", ")),
    }
}

fn held_by(Held { job, worker, is_cancelled, .. }: &Held) -> String {
    let by = worker.map_or_else(|| job.to_string(), |worker| format!("{job} on {worker}"));
    if *is_cancelled { format!("{by} (cancelled; its handler has not ended)") } else { by }
}
