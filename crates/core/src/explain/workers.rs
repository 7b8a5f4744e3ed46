//! Queues that hand out no jobs, and workers that cannot or do not take them.

use super::{
    facts::Facts,
    reason::{Cause, Reason, reason},
    words::{none_of, s},
};
use crate::{WorkerRecord, time};

impl Facts {
    pub(super) fn paused(&self) -> Option<Reason> {
        let queue = &self.job.spec.queue;
        let resume = format!("Resume it: punctual queues resume {queue}");
        self.queue.paused.then(|| reason(Cause::QueuePaused, format!("The queue {queue} is paused."), resume))
    }

    /// The settings of the queue cannot be read, so none of its jobs start.
    pub(super) fn unreadable(&self) -> Option<Reason> {
        let (queue, unreadable) = (&self.job.spec.queue, self.queue.unreadable.as_ref()?);
        let text = format!(
            "The settings of the queue {queue} cannot be read, so it is unknown which limits it has: {}.",
            unreadable.problem
        );
        let advice = format!(
            "Set its limits again: punctual queues limit {queue}; or, if it has none: punctual queues resume {queue}"
        );
        unreadable.may_limit.then(|| reason(Cause::QueueUnreadable, text, advice))
    }

    /// No live worker can run the job.
    pub(super) fn no_worker(&self) -> Option<Reason> {
        let (queue, name) = (&self.job.spec.queue, &self.job.spec.name);
        if self.workers.is_empty() {
            let start = format!("Start one: punctual work --queues {queue}");
            return Some(reason(Cause::NoWorker, "No live workers.".to_owned(), start));
        }
        let of_queue: Vec<&WorkerRecord> = self.workers.iter().filter(|worker| worker.serves(queue)).collect();
        if of_queue.is_empty() {
            let text = format!("{} serves the queue {queue}.", none_of(self.workers.len(), "live worker"));
            return Some(reason(
                Cause::NoWorkerForQueue,
                text,
                format!("Start one that does: punctual work --queues {queue}"),
            ));
        }
        if !of_queue.iter().any(|worker| worker.handles(name)) {
            let none = none_of(of_queue.len(), &format!("live worker of the queue {queue}"));
            let text = format!("{none} has a handler for {name}.");
            return Some(reason(Cause::NoWorkerForName, text, handler_advice(name)));
        }
        None
    }

    /// The job may have crashed its worker, and now runs where a crash affects no other job.
    pub(super) fn suspected(&self) -> Reason {
        let (crashes, max) = (self.job.crash_count, self.job.spec.max_crashes());
        let due = time::in_words(self.now.since(self.job.run_at));
        let text = format!(
            "It has been due for {due}. It was running at {crashes} crash{} of its workers (of {max} at most), so it runs apart from other jobs, and waits for a \
             place: a process that a supervisor keeps for such jobs, or a worker without a supervisor that runs no other one.",
            if crashes == 1 { "" } else { "es" }
        );
        let advice = format!("Show how its workers ended: punctual jobs show {}", self.job.id);
        reason(Cause::Suspect, text, advice)
    }

    /// Nothing prevents the job from starting but the load of the workers.
    pub(super) fn busy(&self) -> Reason {
        let (queue, name) = (&self.job.spec.queue, &self.job.spec.name);
        let could = self.workers.iter().filter(|worker| worker.runs(queue, name));
        let could: Vec<&WorkerRecord> = could.collect();
        let due = time::in_words(self.now.since(self.job.run_at));
        if could.iter().all(|worker| worker.heartbeat.running >= worker.heartbeat.concurrency) {
            let text = format!(
                "It has been due for {due}. All {} worker{} that could run it {} busy, with {} jobs.",
                could.len(),
                s(could.len()),
                if could.len() == 1 { "is" } else { "are" },
                could.iter().map(|worker| worker.heartbeat.running).sum::<u32>()
            );
            let fair = if self.queue.limits.fair { " Keys of this queue take turns." } else { "" };
            let advice =
                "Start more workers, let them run more at once (--concurrency), or give the job a higher priority";
            return reason(Cause::WorkersBusy, text + fair, advice);
        }
        let text = format!(
            "It has been due for {due}, a worker has room for it, and nothing is in its way: it is about to start."
        );
        reason(Cause::AboutToStart, text, "")
    }
}

/// What to do about jobs that no worker has a handler for.
///
/// ```
/// use punctual_core::explain::handler_advice;
/// assert!(handler_advice("mail").contains("[handlers.mail]"));
/// assert!(handler_advice("send mail").contains(r#"[handlers."send mail"]"#));
/// ```
pub fn handler_advice(job: &str) -> String {
    let is_bare = job.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    // Other keys of TOML are in quotes, with the escapes of JSON.
    let key = if is_bare { job.to_owned() } else { serde_json::Value::from(job).to_string() };
    format!(
        "Start a worker whose program registers a handler for {job}, or declare [handlers.{key}] in punctual.toml \
         and restart its workers"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobId, Json, NewJob, QueueSettings, Spec, Timestamp, explain::explain, limiter::LimitUsage};

    #[test]
    fn a_job_whose_queue_has_unknown_limits_does_not_start() {
        let now = Timestamp::from_micros(1);
        let causes = |may_limit| {
            let facts = Facts {
                job: NewJob::new(JobId::from_bits(1), Spec::new("send", Json::null())).into_job(now),
                now,
                parents: Vec::new(),
                queue: QueueSettings::from_stored("{", false, may_limit),
                workers: Vec::new(),
                passed_queue: LimitUsage::default(),
                passed_key: LimitUsage::default(),
                held: Vec::new(),
                last_event: None,
                clock_step: None,
            };
            explain(&facts).reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(true), [Cause::QueueUnreadable, Cause::NoWorker]);
        assert_eq!(causes(false), [Cause::NoWorker]);
    }
}
