//! Reasons that the status of a job states: what it waits for, who runs it, how it ended.

use super::{
    facts::Facts,
    reason::{Cause, Reason, reason},
    words::{first_line, s, some},
};
use crate::{
    OnParentFailure, Relative, Status,
    death::{Death, reason_of_death},
    time,
};

impl Facts {
    /// Reported for statuses that depend on a time: a requested start time, the time of a retry, the end of a lease.
    pub(super) fn clock_stepped(&self) -> Option<Reason> {
        let goes_by_time = matches!(self.job.status, Status::Scheduled | Status::Retrying | Status::Processing);
        let step = self.clock_step.filter(|step| goes_by_time && step.is_recent(self.now))?;
        let text = format!(
            "Note that {step}. Leases and retries were shifted by the same amount; requested run times were not."
        );
        Some(reason(Cause::ClockStepped, text, "Check the machine's time synchronisation"))
    }

    pub(super) fn waits(&self) -> Reason {
        let keeps_waiting = self.job.spec.options.on_parent_failure == OnParentFailure::Wait;
        let failed = |parent: &&Relative| matches!(parent.status, Status::Dead | Status::Cancelled);
        let in_the_way: Vec<&Relative> = self
            .parents
            .iter()
            .filter(|parent| !parent.status.is_finished() || (keeps_waiting && failed(parent)))
            .collect();
        let item = |parent: &&Relative| {
            let node = parent.node.as_ref().map(|node| format!("{node} ")).unwrap_or_default();
            format!("{node}{} ({})", parent.id, parent.status)
        };
        let text = format!(
            "It waits for {} of its {} parent{}: {}.",
            self.job.waiting_on,
            self.parents.len(),
            s(self.parents.len()),
            some(in_the_way.iter().map(item))
        );
        match in_the_way.iter().find(|parent| failed(parent)) {
            Some(parent) if parent.status == Status::Cancelled => reason(
                Cause::WaitsForFailedParent,
                format!("{text} {} was cancelled; by its on_parent_failure policy this job keeps waiting.", parent.id),
                format!(
                    "Start it all the same: punctual jobs run {0}; or cancel it: punctual jobs cancel {0}",
                    self.job.id
                ),
            ),
            Some(parent) => reason(
                Cause::WaitsForFailedParent,
                format!("{text} {} has failed; by its on_parent_failure policy this job keeps waiting.", parent.id),
                format!(
                    "Retry it: punctual jobs retry {0}; or start this one without it: punctual jobs run {1}",
                    parent.id, self.job.id
                ),
            ),
            None => {
                let first =
                    in_the_way.first().map(|parent| format!("Explain the first: punctual jobs explain {}", parent.id));
                reason(Cause::WaitsForParents, text, first.unwrap_or_default())
            }
        }
    }

    pub(super) fn not_due(&self) -> Reason {
        let at = self.job.run_at;
        let text = if at > self.now {
            format!("It is not due before {at}, in {}.", time::in_words(at.since(self.now)))
        } else {
            format!("It was due {} ago and is about to be queued.", time::in_words(self.now.since(at)))
        };
        reason(Cause::NotDue, text, format!("Start it now: punctual jobs run {}", self.job.id))
    }

    pub(super) fn backs_off(&self) -> Reason {
        let job = &self.job;
        let why = job.error.as_ref().map(|fault| format!(": {}", first_line(&fault.message))).unwrap_or_default();
        let text = format!(
            "Attempt {} of {} failed{why}. It is tried again at {}, in {}.",
            job.attempt,
            job.spec.max_attempts,
            job.run_at,
            time::in_words(job.run_at.since(self.now))
        );
        reason(Cause::BackingOff, text, format!("Retry it now: punctual jobs retry {}", job.id))
    }

    pub(super) fn runs(&self) -> Reason {
        let job = &self.job;
        let worker = job.worker_id.map(|worker| worker.to_string()).unwrap_or_default();
        let lease_until = job.lease_until.unwrap_or(self.now);
        let since = time::in_words(self.now.since(job.started_at.unwrap_or(self.now)));
        if lease_until <= self.now {
            let text = format!(
                "It was started {since} ago by {worker}, whose lease expired {} ago. A live worker returns it to the queue.",
                time::in_words(self.now.since(lease_until))
            );
            return reason(Cause::WorkerLost, text, "If there is no live worker, start one: punctual work");
        }
        let text =
            format!("It is running, attempt {} of {}, for {since}, on {worker}.", job.attempt, job.spec.max_attempts);
        reason(Cause::Running, text, "")
    }

    pub(super) fn ended(&self) -> Reason {
        let job = &self.job;
        let ago = time::in_words(self.now.since(job.finished_at.unwrap_or(job.updated_at)));
        let event = self.last_event.as_ref();
        let by = event.and_then(|event| event.actor.as_ref()).map(|actor| format!(" by {actor}")).unwrap_or_default();
        let why = event.and_then(|event| event.detail.as_ref()).map(|why| format!(": {why}")).unwrap_or_default();
        let again = format!("Run it again: punctual jobs run {}", job.id);
        match job.status {
            Status::Dead => {
                let fault =
                    job.error.as_ref().map(|fault| format!(": {}", first_line(&fault.message))).unwrap_or_default();
                let text = format!("It has been dead for {ago}, {}{fault}", reason_of_death(&Death::of(job)));
                reason(Cause::Dead, text, format!("Retry it: punctual jobs retry {}", job.id))
            }
            Status::Cancelled => reason(Cause::Cancelled, format!("It was cancelled {ago} ago{by}{why}"), again),
            Status::Deleted => reason(Cause::Deleted, format!("It was deleted {ago} ago{by}{why}"), ""),
            _ => reason(Cause::Succeeded, format!("It succeeded {ago} ago."), again),
        }
    }
}
