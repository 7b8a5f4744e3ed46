//! Chooses the queued jobs that may start.

use std::collections::{BTreeMap, VecDeque};

use punctual_core::{
    AttemptId, ClaimRequest, Job, Limits, Rate, Status, Timestamp, WorkerId,
    limiter::{self, LimitUsage, Line, OccupiedSlot, Order, QueueLimiter},
};

use super::state::{LimitKey, Limiters, Slot, State};

impl Limiters {
    /// The limits of a queue have changed: starts that are counted at a later time than now are counted at now.
    pub(super) fn limits_changed(&mut self, queue: &str, now: Timestamp) {
        for (_, starts) in self.starts.iter_mut().filter(|((of, _), _)| of == queue) {
            starts.iter_mut().for_each(|(at, _)| *at = now.min(*at));
        }
    }

    /// Records a start, and removes starts that no longer count, even if the period of the rate is extended later.
    fn started(&mut self, key: &LimitKey, rate: Option<Rate>, now: Timestamp) {
        if let Some(rate) = rate {
            let starts = self.starts.entry(key.clone()).or_default();
            starts.retain(|(at, _)| *at > rate.horizon(now));
            starts.push((rate.moment(now), 1));
        }
    }
}

impl State {
    /// A running job is cancelled: its execution keeps its slot until its handler has ended, or its lease ends.
    pub(super) fn occupy_slot(&mut self, now: Timestamp, job: &Job) {
        if let (Some(worker), Some(until)) = (job.worker_id, job.lease_until.filter(|until| *until > now)) {
            let (queue, key) = (job.spec.queue.clone(), job.spec.options.concurrency_key.clone());
            self.slots.push(Slot { queue, key, attempt: AttemptId { job: job.id, run: job.run }, worker, until });
        }
    }

    pub(super) fn release_slots(&mut self, worker: WorkerId, attempts: &[AttemptId]) {
        self.slots.retain(|slot| slot.worker != worker || !attempts.contains(&slot.attempt));
    }

    pub(super) fn occupied_slots(&self, now: Timestamp, queue: &str) -> Vec<OccupiedSlot> {
        let of_queue = self.slots.iter().filter(|slot| slot.queue == queue && slot.until > now);
        let occupied = |slot: &Slot| {
            let Slot { attempt, worker, until, .. } = *slot;
            OccupiedSlot { attempt, worker, key: slot.key.clone(), until }
        };
        let mut occupied: Vec<_> = of_queue.map(occupied).collect();
        occupied.sort_by_key(|slot| slot.attempt);
        occupied
    }

    /// Removes data that limits no longer need.
    pub(super) fn prune_limits(&mut self, now: Timestamp) {
        let limits: BTreeMap<String, Limits> =
            self.queues.iter().map(|(name, queue)| (name.clone(), queue.settings.limits.clone())).collect();
        let horizon = |queue: &String| limits.get(queue).and_then(|limits| limits.horizon(now));
        for ((queue, _), starts) in &mut self.limits.starts {
            starts.retain(|(at, _)| horizon(queue).is_some_and(|horizon| *at > horizon));
        }
        self.slots.retain(|slot| slot.until > now);
        self.limits.turns.retain(|(queue, _), _| limits.get(queue).is_some_and(|limits| limits.fair));
        self.limits.clocks.retain(|queue, _| limits.get(queue).is_some_and(|limits| limits.fair));
    }

    fn limits(&self, queue: &str) -> Limits {
        self.queues.get(queue).map(|queue| queue.settings.limits.clone()).unwrap_or_default()
    }

    /// Whether a job is limited.
    pub(super) fn is_limited(&self, job: &Job) -> bool {
        job.spec.options.concurrency_key.is_some() || self.limits(&job.spec.queue).guard_all()
    }

    pub(super) fn passed(&self, (queue, key): &LimitKey, now: Timestamp) -> LimitUsage {
        let of_it = |job: &Job| job.spec.queue == *queue && (key.is_none() || job.spec.options.concurrency_key == *key);
        let running = self.jobs.iter().filter(|record| record.job.status == Status::Processing && of_it(&record.job));
        let starts = self.limits.starts.get(&(queue.clone(), key.clone())).cloned().unwrap_or_default();
        let occupied = self.occupied_slots(now, queue).into_iter().filter(|slot| key.is_none() || slot.key == *key);
        LimitUsage { running: (running.count() + occupied.count()) as u32, starts }
    }

    /// Chooses the jobs to start, in order; also returns when a rate limit next allows jobs that it delays now.
    pub(super) fn apply_limits(&mut self, now: Timestamp, request: &ClaimRequest) -> (Vec<usize>, Option<Timestamp>) {
        let mut waiting: BTreeMap<LimitKey, Vec<(Order, usize)>> = BTreeMap::new();
        for (index, record) in self.jobs.iter().enumerate() {
            let job = &record.job;
            if job.status == Status::Queued && self.serves(request, job) {
                let rank = request.rank(&job.spec.queue, job.spec.priority);
                let order = Order { rank, run_at: job.run_at, tie: self.rank(index) };
                let key = (job.spec.queue.clone(), job.spec.options.concurrency_key.clone());
                waiting.entry(key).or_default().push((order, index));
            }
        }
        let mut names: Vec<String> = waiting.keys().map(|(queue, _)| queue.clone()).collect();
        names.dedup();
        let queue_limiter = |name: &String| QueueLimiter {
            free: self.limits(name).free(&self.passed(&(name.clone(), None), now), now),
            clock: self.limits.clocks.get(name).copied().unwrap_or(0),
        };
        let mut queues: Vec<QueueLimiter> = names.iter().map(queue_limiter).collect();
        let keys: Vec<LimitKey> = waiting.keys().cloned().collect();
        let line = |(key, mut jobs): (LimitKey, Vec<(Order, usize)>)| {
            jobs.sort();
            let (limits, queue) = (self.limits(&key.0), names.partition_point(|name| *name < key.0));
            Line {
                queue,
                free: if key.1.is_some() { limits.key_free(&self.passed(&key, now), now) } else { u32::MAX },
                turn: self.limits.turns.get(&key).copied().unwrap_or(0).max(queues[queue].clock),
                step: limits.step(key.1.as_deref()),
                jobs: VecDeque::from(jobs),
            }
        };
        let mut lines: Vec<Line<usize>> = waiting.into_iter().map(line).collect();
        let chosen = limiter::choose(&mut queues, &mut lines, request.limit);
        for (number, _) in &chosen {
            let (key, limits) = (&keys[*number], self.limits(&keys[*number].0));
            self.limits.started(&(key.0.clone(), None), limits.rate, now);
            if key.1.is_some() {
                self.limits.started(key, limits.key_rate, now);
            }
            self.limits.turns.insert(key.clone(), lines[*number].turn);
        }
        self.limits.clocks.extend(names.into_iter().zip(queues.iter().map(|queue| queue.clock)));
        let left = lines.iter().zip(&keys).filter(|(line, _)| !line.jobs.is_empty()).map(|(_, key)| key);
        let opens_at = left.filter_map(|key| self.opens_at(key, now)).chain(self.slot_ends(now, request)).min();
        (chosen.into_iter().map(|(_, index)| index).collect(), opens_at)
    }

    /// The ends of the leases of executions that occupy slots of queues which the worker serves.
    fn slot_ends(&self, now: Timestamp, request: &ClaimRequest) -> impl Iterator<Item = Timestamp> {
        let serves = |slot: &&Slot| request.queues.is_empty() || request.queues.contains(&slot.queue);
        self.slots.iter().filter(serves).map(|slot| slot.until).filter(move |until| *until > now)
    }

    fn opens_at(&self, key: &LimitKey, now: Timestamp) -> Option<Timestamp> {
        let (limits, queue) = (self.limits(&key.0), (key.0.clone(), None));
        let rates = [(limits.rate, &queue), (limits.key_rate.filter(|_| key.1.is_some()), key)];
        let opens = rates.iter().filter_map(|(rate, key)| {
            let starts = self.limits.starts.get(*key).map_or(&[][..], Vec::as_slice);
            rate.map(|rate| rate.opens_at(starts, now)).filter(|at| *at > now)
        });
        opens.max()
    }
}
