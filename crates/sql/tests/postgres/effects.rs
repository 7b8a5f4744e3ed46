//! Holds PostgreSQL's statements to [`punctual_core::effects`]: after each of many random operations, and after every
//! transition of the state machine at least once, the tables contain what core decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{
    AttemptId, AttemptStatus, Change, Changed, Claim, ClaimRequest, Ending, JobError, JobId, NewJob, Outcome, Retry,
    Settled, Settlement, Spec, Status, Timestamp, Verb, WorkerId, change,
    effects::{Effects, Phase},
    flow::{Next, Waiting},
    measure,
    state::TRANSITIONS,
    testing,
};
use punctual_sql::postgres::Options;
use punctual_testkit::{Fixture, Ties, random};

use super::{
    assert_healthy, open, options,
    tables::{Connection, StoredEvent, StoredJob, Tables},
};

/// Number of random operations per seed. `PUNCTUAL_TEST_STEPS` sets it.
fn steps() -> usize {
    std::env::var("PUNCTUAL_TEST_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(120)
}

#[tokio::test]
async fn the_tables_contain_what_core_decides_after_every_transition() {
    let mut seen = BTreeSet::new();
    for seed in random::seeds(1..=3) {
        let clock = Fixture::start();
        let options = options(&clock);
        let fx = open(&options, &clock).await.ties(Ties::Id);
        let mut checker = Checker::new(&options).await;
        let mut run = random::Run::new(&fx, seed);
        for step in 0..steps() {
            let context = format!("seed {seed}, step {step}");
            run.step(&context).await;
            checker.check(&context).await;
        }
        every_transition(&fx, &mut checker).await;
        assert_healthy(&fx).await;
        seen.append(&mut checker.seen);
    }
    let legal: BTreeSet<(Status, Status)> =
        TRANSITIONS.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (*from, *to))).collect();
    assert_eq!(seen, legal, "every transition has occurred");
}

/// Compares the tables with the effects of the transitions since the last comparison.
struct Checker {
    connection: Connection,
    /// The tables as of the last comparison.
    known: Tables,
    /// The counters that follow from all effects.
    totals: BTreeMap<String, i64>,
    /// The slots that executions keep that were taken from their workers since the last comparison.
    slots: BTreeSet<AttemptId>,
    /// The transitions that have occurred.
    seen: BTreeSet<(Status, Status)>,
}

impl Checker {
    async fn new(options: &Options) -> Self {
        Self {
            connection: Connection::open(options).await,
            known: Tables::default(),
            totals: BTreeMap::new(),
            slots: BTreeSet::new(),
            seen: BTreeSet::new(),
        }
    }

    async fn check(&mut self, context: &str) {
        let found = Tables::read(&mut self.connection).await;
        let known = std::mem::take(&mut self.known);
        for before in known.jobs.values().filter(|job| !found.jobs.contains_key(&job.id)) {
            self.count(before, &Effects::removed(before.phase), before.phase.updated_at);
        }
        for (id, after) in &found.jobs {
            let context = format!("{context}, {id}");
            self.follow(&context, &known, (&found, after));
        }
        let expected: BTreeSet<_> = found.jobs.values().flat_map(StoredJob::entries).collect();
        assert_same(context, "entries", &expected, &found.entries);
        let slots = std::mem::take(&mut self.slots);
        assert_same(context, "slots", &slots, &(&found.slots - &known.slots));
        self.check_totals(context, &found);
        check_keys(context, &known, &found);
        self.known = found;
    }

    /// Derives the phase of a job from the one before and from its new events, with the effects of each transition.
    fn follow(&mut self, context: &str, known: &Tables, (found, after): (&Tables, &StoredJob)) {
        let events = &found.events[&after.id];
        let numbers: Vec<usize> = events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=after.events).collect::<Vec<_>>(), "{context}: its events");
        let before = known.jobs.get(&after.id);
        let mut events = &events[before.map_or(0, |before| before.events)..];
        let mut phase = match before {
            Some(before) => {
                // Its unique key may have extended its retention.
                let kept = Phase { keep_for: after.phase.keep_for, ..before.phase };
                self.count(after, &Effects::kept(before.phase, kept), after.phase.updated_at);
                kept
            }
            None => {
                let first = &events[0];
                let phase = first_phase(after, first);
                assert_eq!(phase.status, first.status, "{context}: its first status");
                self.count(after, &Effects::stored(phase), first.at);
                events = &events[1..];
                phase
            }
        };
        while let Some(event) = events.first() {
            let (next, effects) = transition(phase, events, (found, after));
            let mut status = phase.status;
            for (event, expected) in events.iter().zip(effects.events) {
                assert_eq!(event.status, *expected, "{context}: after {status}");
                if status != event.status {
                    assert!(status.may_become(event.status), "{context}: {status} to {}", event.status);
                    self.seen.insert((status, event.status));
                }
                status = event.status;
            }
            assert_eq!(status, next.status, "{context}: all events of a transition are stored");
            let lease = known.leases.get(&after.id).filter(|lease| effects.keeps_slot && lease.is_limited_at(event.at));
            self.slots.extend(lease.and(event.run).map(|run| AttemptId { job: after.id, run }));
            self.count(after, &effects, event.at);
            (phase, events) = (next, &events[effects.events.len()..]);
        }
        assert_eq!(phase, after.phase, "{context}: its phase");
    }

    /// Adds the effects of a transition to the counters.
    fn count(&mut self, job: &StoredJob, effects: &Effects, at: Timestamp) {
        let mut add = |counter: String, n: i64| *self.totals.entry(counter).or_default() += n;
        let Spec { queue, name, user_id, .. } = &job.spec;
        for (status, n) in [(effects.from, -1), (effects.to, 1)] {
            status.into_iter().for_each(|status| add(format!("count|{queue}|{name}|{status}"), n));
        }
        if let Some(user) = user_id {
            add(format!("pending|{user}|{name}"), effects.pending);
        }
        if let Some(workflow) = &job.workflow {
            let ends = effects.ends;
            for (end, n) in [("succeeded", ends.succeeded), ("dead", ends.dead), ("cancelled", ends.cancelled)] {
                add(format!("ends|{workflow}|{end}"), n.into());
            }
        }
        for (measure, since) in effects.measures.into_iter().flatten() {
            add(format!("measure|{queue}|{name}|{measure}|{}", measure::bucket(at.since(since))), 1);
        }
    }

    fn check_totals(&self, context: &str, found: &Tables) {
        // Retention removes old workflows with their counters.
        let is_gone = |counter: &str| counter.starts_with("ends|") && !found.totals.contains_key(counter);
        let compared = |totals: &BTreeMap<String, i64>| -> BTreeSet<(String, i64)> {
            let totals = totals.iter().map(|(counter, n)| (counter.clone(), *n));
            totals.filter(|(counter, n)| *n != 0 && !is_gone(counter)).collect()
        };
        assert_same(context, "counters", &compared(&self.totals), &compared(&found.totals));
    }
}

fn assert_same<T: Ord + Clone + std::fmt::Debug>(
    context: &str,
    what: &str,
    expected: &BTreeSet<T>,
    found: &BTreeSet<T>,
) {
    let (missing, unexpected) = (expected - found, found - expected);
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "{context}: {what}: missing {missing:?}, unexpected {unexpected:?}"
    );
}

/// A key is held by a job that may hold it, and released only with it.
fn check_keys(context: &str, known: &Tables, found: &Tables) {
    let may_hold = |id: &JobId| found.jobs.get(id).filter(|job| job.index_entries().key);
    for (key, (id, expires_at)) in &found.keys {
        let job = may_hold(id).unwrap_or_else(|| panic!("{context}: {id} holds {key:?}"));
        assert_eq!(job.key().as_ref(), Some(key), "{context}: the key of {id}");
        assert_eq!(*expires_at, job.spec.unique().expires_at(job.created_at), "{context}: the key of {id}");
    }
    for (key, (id, _)) in &known.keys {
        assert!(may_hold(id).is_none() || found.keys.contains_key(key), "{context}: {key:?} of {id} was released");
    }
    for job in found.jobs.values().filter(|job| !known.jobs.contains_key(&job.id) && job.index_entries().key) {
        assert!(job.key().is_none_or(|key| found.keys.contains_key(&key)), "{context}: {} took no key", job.id);
    }
}

/// The first phase of a job that was stored with this event.
fn first_phase(job: &StoredJob, first: &StoredEvent) -> Phase {
    // The fixture's jobs start at the time in their ids.
    let new = NewJob { delay: Some(Duration::ZERO), ..NewJob::new(job.id, job.spec.clone()) };
    let waits = Next::Wait(Waiting { on: 1, any_failed: false });
    Phase::new(&new, if first.status == Status::Waiting { &waits } else { &Next::Start }, first.at)
}

/// What core decides for the transition that begins with the first of these events.
fn transition(before: Phase, events: &[StoredEvent], (found, after): (&Tables, &StoredJob)) -> (Phase, Effects) {
    let StoredEvent { at, status, run, .. } = events[0];
    let next = match (before.status, status) {
        // A worker's settlement never cancels.
        (Status::Processing, to) if to != Status::Cancelled => {
            let attempt = AttemptId { job: after.id, run: run.unwrap_or_default() };
            let settlement = Settlement {
                attempt_status: found.attempts.get(&attempt).copied().unwrap_or(AttemptStatus::Running),
                ending: ending(events, after.phase.run_at),
                ..Settlement::release(attempt, WorkerId::from_bits(0))
            };
            return (before.settled(settlement.ending, at), Effects::settled(before, &settlement, at));
        }
        // An update by another enqueue.
        (from, to) if from == to => Phase { run_at: after.phase.run_at, updated_at: at, ..before },
        (_, Status::Processing) => before.claimed(at),
        (_, Status::Cancelled | Status::Deleted) => acted(before, status, at),
        (_, Status::Queued) if events[0].has_actor => acted(before, status, at),
        (Status::Waiting, _) => before.after_parents(at),
        _ => before.promoted(at),
    };
    (next, Effects::changed(before, next))
}

/// The ending that wrote these events.
fn ending(events: &[StoredEvent], run_at: Timestamp) -> Ending {
    let after = run_at.since(events[0].at);
    match (events[0].status, events.get(1).map(|event| event.status)) {
        (Status::Succeeded, _) => Ending::Succeed,
        (Status::Queued, _) => Ending::Release,
        (Status::Scheduled, _) => Ending::Snooze { after },
        (Status::Failed, Some(Status::Retrying)) => Ending::Retry { after },
        (Status::Failed, Some(Status::Queued)) => Ending::Requeue,
        (Status::Failed, Some(Status::Dead)) => Ending::Die,
        other => panic!("no ending writes {other:?}"),
    }
}

/// The phase after an operator's action, or after the cancellation by a parent's end.
fn acted(before: Phase, target: Status, at: Timestamp) -> Phase {
    let mut job = testing::job(|job| {
        (job.status, job.run_at, job.updated_at) = (before.status, before.run_at, before.updated_at);
        (job.finished_at, job.spec.keep_for) = (before.finished_at, before.keep_for);
    });
    let verb = match target {
        Status::Cancelled => Verb::Cancel,
        Status::Deleted => Verb::Delete,
        _ if before.status == Status::Dead => Verb::Retry,
        _ => Verb::RunNow,
    };
    assert_eq!(change::apply(verb, &mut job, at), Ok(false), "{verb} of a job that is {}", before.status);
    Phase::of(&job)
}

/// Leads jobs through all transitions, as random operations reach some of them rarely.
async fn every_transition(fx: &Fixture, checker: &mut Checker) {
    checker.check("before the script").await;
    let script = Script { fx };
    let (parent, failing) = (fx.enqueue(queue).await, fx.enqueue(queue).await);
    let (cancelled, deleted) = (fx.enqueue(queue).await, fx.enqueue(queue).await);
    let scheduled = fx.enqueue_in(60, queue).await;
    let children = [(parent, 0), (parent, 600), (failing, 0)]
        .map(|(parent, seconds)| NewJob { parents: vec![parent], ..fx.new_job_in(seconds, queue) });
    fx.enqueue_all(children.into()).await;
    checker.check("stored").await;
    for (job, verb) in [
        (cancelled, Verb::Cancel),
        (cancelled, Verb::Delete),
        (deleted, Verb::Delete),
        (scheduled, Verb::Cancel),
        (failing, Verb::Cancel),
    ] {
        script.change(job, verb).await;
        checker.check("changed").await;
    }
    let succeeded = Outcome::Succeeded { result: None };
    script.run(checker, [(parent, Some(succeeded.clone()))].into()).await;

    let failed = |retry| Some(Outcome::Failed { fault: JobError::new("no"), retry });
    let minute = Duration::from_secs(60);
    let outcomes = [
        Some(succeeded),
        failed(Retry::After(Duration::ZERO)),
        failed(Retry::After(minute)),
        failed(Retry::After(minute)),
        failed(Retry::Never),
        failed(Retry::Never),
        Some(Outcome::Snoozed { after: minute }),
        Some(Outcome::Released),
        // Cancelled while it runs.
        None,
    ];
    let jobs = fx.enqueue_all(outcomes.iter().map(|_| fx.new_job(queue)).collect()).await;
    script.run(checker, jobs.iter().copied().zip(outcomes).collect()).await;
    for (index, verb) in [(0, Verb::Delete), (3, Verb::Cancel), (4, Verb::Delete), (5, Verb::Retry)] {
        script.change(jobs[index], verb).await;
        checker.check("changed").await;
    }
    fx.pass(61);
    // Promotes the snoozed job and the retrying one.
    script.claim().await;
    checker.check("promoted").await;
}

/// The queue of the script, which has no limits.
fn queue(spec: &mut Spec) {
    spec.queue = "script".to_owned();
}

struct Script<'a> {
    fx: &'a Fixture,
}

impl Script<'_> {
    async fn change(&self, job: JobId, verb: Verb) {
        let change = Change { job, verb, actor: "ada".into(), reason: None };
        assert_eq!(self.fx.store.change(vec![change]).await.unwrap(), [Changed::Done], "{verb}");
    }

    async fn claim(&self) -> BTreeMap<JobId, Claim> {
        let request = ClaimRequest { queues: vec!["script".to_owned()], ..self.fx.request(self.fx.worker(), 100) };
        let claims = self.fx.store.claim(request).await.unwrap().claims;
        claims.into_iter().map(|claim| (claim.job.id, claim)).collect()
    }

    /// Claims jobs and ends their executions like this; those without an outcome are cancelled.
    async fn run(&self, checker: &mut Checker, jobs: Vec<(JobId, Option<Outcome>)>) {
        let claims = self.claim().await;
        checker.check("claimed").await;
        for (job, outcome) in jobs {
            match outcome {
                Some(outcome) => assert_eq!(self.fx.settle(&claims[&job], outcome).await, Settled::Done),
                None => self.change(job, Verb::Cancel).await,
            }
            checker.check("ended").await;
        }
    }
}
