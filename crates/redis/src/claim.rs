//! Claims: how jobs are handed out to workers.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use punctual_core::{
    Claim, ClaimRequest, Claimed, JobId, NewJob, Offer, Settlement, Spec, StoreError, StoreResult, Timestamp,
    dispatch::{GRACE, Hint, Lane, Start},
    limits,
};
use redis::RedisResult;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{
    activation::{self, Opened},
    dispatch_lease::DispatchState,
    locks::Vote,
    scripts::{Candidate, Handed, HandedOut, PopRequest, claims_of},
    shared::Shared,
    write_behind::Unrecorded,
};

/// Poll interval of an idle claim that gets no wake-up.
const POLL: Duration = Duration::from_millis(250);
/// How long a claim holds jobs that are neither recorded nor released. After that, no process can be about to record
/// them.
pub(crate) const HOLD: Duration = GRACE.saturating_mul(2);
/// How many rounds a claim makes when hints are wrong.
const ROUNDS_MAX: usize = 20;

/// Claims jobs, and waits for jobs if the request has a wait time.
pub(crate) async fn claim(store: &Arc<Shared>, request: ClaimRequest) -> StoreResult<Claimed> {
    let deadline = Instant::now() + request.wait.min(limits::WAIT_MAX);
    let mut woken = store.claim_wakeups.listen();
    loop {
        let (mut found, mut work) = (store.work.listen(), store.primary.watch_work());
        // Read before the attempt, so that no job whose time comes near during the attempt is missed.
        let now = store.primary.now();
        let claimed = claim_now(store, &request).await?;
        if !claimed.claims.is_empty() || Instant::now() >= deadline {
            return Ok(claimed);
        }
        let due = claimed.next_run_at.map(|next| request.claim_again_at(now, next));
        let due = due.into_iter().chain(claimed.opens_at).min().map_or(POLL, |at| at.since(store.primary.now()));
        let pause = POLL.min(due).min(deadline - Instant::now());
        tokio::select! {
            _ = found.changed() => {}
            () = work.changed() => {}
            () = sleep(pause) => {}
            _ = woken.changed() => return Ok(claimed),
        }
    }
}

/// Makes one attempt, on a task of its own, so that dropping the caller does not cancel it half-done.
async fn claim_now(store: &Arc<Shared>, request: &ClaimRequest) -> StoreResult<Claimed> {
    let (caller, answer) = oneshot::channel();
    let (own, request) = (Arc::clone(store), request.clone());
    let task = async move {
        let claimed = try_claim(&own, &request).await;
        let runtime = Handle::current();
        let back = move |untaken: StoreResult<Claimed>| {
            let claims = untaken.map(|untaken| untaken.claims).unwrap_or_default();
            runtime.spawn(async move { give_back(&own, claims).await });
        };
        // The caller may have been dropped before the claims are sent, or may be dropped after.
        drop(caller.send(Offer::new(claimed, back)));
    };
    tokio::spawn(task);
    answer.await.ok().and_then(Offer::take).ok_or(StoreError::Closed)?
}

/// Gives back claims whose caller was dropped.
async fn give_back(store: &Shared, claims: Vec<Claim>) {
    let release = |claim: &Claim| Settlement::release(claim.attempt_id(), claim.worker);
    let unrecorded = store.write_behind.remove(claims.iter().map(Claim::attempt_id));
    let begun: HashSet<JobId> = unrecorded.iter().map(|one| one.start.hint.job).collect();
    let handed: Vec<(&Hint, &str)> = unrecorded.iter().map(|one| (&one.start.hint, &*one.token)).collect();
    release_all(store, &handed, true).await;
    let recorded: Vec<Settlement> = claims.iter().filter(|claim| !begun.contains(&claim.job.id)).map(release).collect();
    if !recorded.is_empty()
        && let Err(error) = store.primary.settle(recorded).await
    {
        tracing::warn!(%error, "could not release jobs of a dropped claim; their leases will expire");
    }
}

async fn try_claim(store: &Arc<Shared>, request: &ClaimRequest) -> StoreResult<Claimed> {
    let state = store.dispatch_lease.fresh_state().await?;
    let own = ClaimRequest { wait: Duration::ZERO, ..request.clone() };
    // Redis never hands out suspects.
    if !state.is_open() || request.suspects {
        // Limited jobs; the other jobs as soon as Redis can no longer be handing them out.
        let claimed = store.primary.claim(own).await?;
        store.write_behind.claimed(&claimed.claims);
        return Ok(claimed);
    }
    let lanes = store.primary.lanes(request);
    let (open, opens_in) = open_queues(store, &state, &lanes.plain).await?;
    store.primary.promote_due().await?;
    store.reconciler.dispatch_due(&store.dispatch_lease, request.ahead).await?;
    let mut claimed = Claimed::default();
    for _ in 0..ROUNDS_MAX {
        let rest = ClaimRequest { limit: request.limit - claimed.claims.len(), ..own.clone() };
        let round = claim_round(store, rest, &state, Served { open: &open, limited: lanes.limited }).await;
        // After an error, the claims of earlier rounds must not be lost.
        let (more, wrong) = if claimed.claims.is_empty() { round? } else { round.unwrap_or_default() };
        claimed.claims.extend(more.claims);
        (claimed.opens_at, claimed.next_run_at) = (more.opens_at, more.next_run_at);
        if wrong == 0 || claimed.claims.len() == request.limit {
            break;
        }
    }
    if claimed.claims.len() < request.limit {
        claimed.next_run_at = store.primary.promote_due().await.unwrap_or(claimed.next_run_at);
        let opens_at = opens_in.map(|wait| store.primary.now().after(wait));
        claimed.opens_at = claimed.opens_at.into_iter().chain(opens_at).min();
    }
    Ok(claimed)
}

/// What a claim serves.
struct Served<'a> {
    /// Open queues, for jobs without limits.
    open: &'a [OpenQueue],
    /// Whether it also serves jobs with limits.
    limited: bool,
}

/// A round of a claim.
struct Round {
    /// The token that Redis stores with the jobs that it hands out.
    token: Arc<str>,
    /// When the jobs were requested from Redis.
    since: Instant,
}

/// Makes one round of a claim; returns how many hints were wrong. There may be more jobs behind the wrong hints.
async fn claim_round(
    store: &Arc<Shared>,
    request: ClaimRequest,
    state: &DispatchState,
    Served { open, limited }: Served<'_>,
) -> StoreResult<(Claimed, usize)> {
    let number = store.claims.fetch_add(1, Ordering::Relaxed);
    let token: Arc<str> = format!("{}{number:x}", claims_of(request.worker)).into();
    // Read before Redis hands out the jobs: if this process is suspended meanwhile, that does not extend the hold time.
    let since = Instant::now();
    // The caller may have waited long since it read the state. If Redis may no longer hand out jobs, the primary store
    // may soon do so itself.
    let is_open = state.is_open();
    let HandedOut { jobs, next_run_at } = if limited {
        hand_out_checked(store, &request, open, &token).await?
    } else {
        hand_out(store, &request, open, &token).await?
    };
    let (fresh, mut unchecked) = if limited { (Vec::new(), jobs) } else { parted(jobs) };
    let mut fresh = locked(store, fresh, &mut unchecked, &token).await;
    if !is_open || since.elapsed() >= GRACE / 2 {
        unchecked.extend(fresh.drain(..).map(|(job, _)| job));
    }
    let (mut claimed, mut wrong) = (Claimed::default(), 0);
    if !unchecked.is_empty() || limited {
        let rest = ClaimRequest { limit: request.limit - fresh.len(), ..request.clone() };
        match take(store, rest, &unchecked, &token).await {
            Ok(taken) => (claimed, wrong) = taken,
            Err(error) => {
                let back: Vec<(&Hint, &str)> = fresh.iter().map(|(one, _)| (&one.hint, &*token)).collect();
                release_all(store, &back, true).await;
                return Err(error);
            }
        }
    }
    claimed.next_run_at = claimed.next_run_at.into_iter().chain(next_run_at).min();
    claimed.claims.extend(begin(store, &request, fresh, &Round { token, since }));
    if !limited {
        let now = store.primary.now();
        claimed.claims.sort_by_cached_key(|Claim { job, .. }| {
            let ahead = job.run_at > now;
            (ahead, if ahead { 0 } else { request.rank(&job.spec.queue, job.spec.priority) }, job.run_at, job.id)
        });
    }
    Ok((claimed, wrong))
}

/// Splits jobs into those with a cached document and those that must be checked with the primary store.
fn parted(jobs: Vec<Handed>) -> (Vec<(Handed, Document)>, Vec<Handed>) {
    let (mut fresh, mut unchecked) = (Vec::new(), Vec::new());
    for job in jobs {
        match job.document.as_deref().and_then(Document::read) {
            Some(document) => fresh.push((job, document)),
            None => unchecked.push(job),
        }
    }
    (fresh, unchecked)
}

/// If jobs are locked: returns those whose lock was won. Jobs that another owner has locked are put back; jobs whose
/// lock is unclear are checked with the primary store.
async fn locked(
    store: &Shared,
    jobs: Vec<(Handed, Document)>,
    unchecked: &mut Vec<Handed>,
    token: &str,
) -> Vec<(Handed, Document)> {
    let Some(locks) = store.job_locks.as_ref().filter(|_| !jobs.is_empty()) else { return jobs };
    let keys: Vec<String> = jobs.iter().map(|(job, _)| store.namespace.job_lock(job.hint.job)).collect();
    let votes = locks.take(&keys, token, store.primary.now(), HOLD).await;
    let (mut ours, mut others) = (Vec::with_capacity(jobs.len()), Vec::new());
    for (job, vote) in jobs.into_iter().zip(votes) {
        match vote {
            Vote::Won => ours.push(job),
            Vote::Lost => others.push(job.0),
            Vote::Unclear => unchecked.push(job.0),
        }
    }
    release_all(store, &others.iter().map(|job| (&job.hint, token)).collect::<Vec<_>>(), true).await;
    ours
}

/// Starts the jobs whose documents are cached at once, unrecorded.
fn begin(store: &Shared, request: &ClaimRequest, jobs: Vec<(Handed, Document)>, round: &Round) -> Vec<Claim> {
    let started_at = store.primary.now();
    let mut begun = Vec::with_capacity(jobs.len());
    let claim = |(Handed { hint, .. }, Document { at, spec }): (Handed, Document)| {
        let new = NewJob::new(hint.job, spec);
        let start = Start { hint, worker: request.worker, started_at, lease: request.lease };
        let job = start.job(new, at);
        begun.push(Unrecorded { start, token: Arc::clone(&round.token), since: round.since });
        Claim::new(job, request.worker)
    };
    let claims = jobs.into_iter().map(claim).collect();
    store.write_behind.add(begun);
    claims
}

/// Claims jobs with hints, and limited jobs, in the primary store; returns how many hints were wrong.
async fn take(
    store: &Shared,
    request: ClaimRequest,
    unchecked: &[Handed],
    token: &str,
) -> StoreResult<(Claimed, usize)> {
    let hints: Vec<Hint> = unchecked.iter().map(|job| job.hint.clone()).collect();
    let due = unchecked.iter().filter(|job| !job.ahead).map(|job| job.hint.clone()).collect();
    let ahead = if unchecked.iter().any(|job| job.ahead) { request.ahead } else { Duration::ZERO };
    let taken = store.primary.take(ClaimRequest { ahead, ..request }, due).await;
    let ours: HashSet<JobId> = taken.iter().flat_map(|claimed| &claimed.claims).map(|claim| claim.job.id).collect();
    let (got, missed): (Vec<Hint>, Vec<Hint>) = hints.into_iter().partition(|hint| ours.contains(&hint.job));
    // Jobs that were not wanted now, or are claimed elsewhere, are put back; the hints of the others were wrong.
    let are_queued = if missed.is_empty() { Ok(Vec::new()) } else { store.primary.check_hints(missed.clone()).await };
    let are_queued = are_queued.unwrap_or_else(|_| vec![true; missed.len()]);
    let (back, wrong): (Vec<_>, Vec<_>) = missed.iter().zip(are_queued).partition(|(_, is_queued)| *is_queued);
    let (with_token, wrong_count) = (|hint| (hint, token), wrong.len());
    let done: Vec<_> = got.iter().chain(wrong.into_iter().map(|(hint, _)| hint)).map(with_token).collect();
    release_all(store, &done, false).await;
    release_all(store, &back.into_iter().map(|(hint, _)| with_token(hint)).collect::<Vec<_>>(), true).await;
    let taken = taken?;
    store.write_behind.claimed(&taken.claims);
    Ok((taken, wrong_count))
}

/// Releases jobs in Redis, or puts them back into their lanes.
async fn release_all(store: &Shared, jobs: &[(&Hint, &str)], put_back: bool) {
    let mut queues: BTreeMap<&str, Vec<(JobId, &str)>> = BTreeMap::new();
    for (hint, token) in jobs {
        queues.entry(&hint.lane.queue).or_default().push((hint.job, token));
    }
    for (name, jobs) in queues {
        if let Err(error) = store.queue(name, 0).release(&jobs, put_back).await {
            tracing::debug!(%error, "cannot release jobs in Redis; they will be put back later");
        }
    }
}

/// An open queue: its name, its epoch, and those of its lanes that the worker serves.
type OpenQueue = (String, u64, Vec<(Arc<Lane>, u32)>);

/// Opens the queues of some lanes in Redis; returns when the first queue that is still closed opens.
async fn open_queues(
    store: &Arc<Shared>,
    state: &DispatchState,
    lanes: &[(Arc<Lane>, u32)],
) -> StoreResult<(Vec<OpenQueue>, Option<Duration>)> {
    let mut queues: BTreeMap<&str, Vec<(Arc<Lane>, u32)>> = BTreeMap::new();
    for (lane, rank) in lanes {
        queues.entry(&lane.queue).or_default().push((Arc::clone(lane), *rank));
    }
    let (mut open, mut opens_in) = (Vec::new(), None::<Duration>);
    for (name, mut lanes) in queues {
        match activation::open(store, state, name).await? {
            Opened::Now(epoch) => {
                lanes.sort_by_key(|(_, rank)| *rank);
                open.push((name.to_owned(), epoch, lanes));
            }
            Opened::In(wait) => opens_in = Some(opens_in.unwrap_or(wait).min(wait)),
        }
    }
    Ok((open, opens_in))
}

/// Claims the first jobs of some queues in Redis.
async fn hand_out(
    store: &Arc<Shared>,
    request: &ClaimRequest,
    open: &[OpenQueue],
    token: &str,
) -> StoreResult<HandedOut> {
    let now = store.primary.now();
    let pop = |lanes, limit| PopRequest {
        lanes,
        now,
        until: now.after(request.ahead),
        limit,
        hold_ms: HOLD.as_millis() as u64,
        token,
    };
    let limits = match open {
        [_] => vec![request.limit],
        several => {
            let candidates = several.iter().map(|(name, epoch, lanes)| async move {
                store.queue(name, *epoch).peek(&pop(lanes, request.limit)).await
            });
            shares(join_all(candidates).await, request.limit)
        }
    };
    let mut handed = HandedOut::default();
    let claims = open.iter().zip(limits).map(|((name, epoch, lanes), limit)| async move {
        (name, *epoch, store.queue(name, *epoch).claim(&pop(lanes, limit)).await)
    });
    for (name, epoch, answer) in join_all(claims).await {
        match answer {
            Ok(Some(mut more)) => {
                handed.jobs.append(&mut more.jobs);
                handed.next_run_at = handed.next_run_at.into_iter().chain(more.next_run_at).min();
            }
            Ok(None) => activation::lost(store, name, epoch).await?,
            Err(error) => {
                tracing::warn!(queue = name, %error, "cannot claim in Redis");
                store.dispatch_lease.forget();
            }
        }
    }
    handed.jobs.sort_by_key(|job| (job.ahead, job.rank, job.hint.run_at, job.hint.job));
    Ok(handed)
}

/// Like `hand_out`, without wrong hints: limited jobs are compared with these jobs, so the hints must be right.
async fn hand_out_checked(
    store: &Arc<Shared>,
    request: &ClaimRequest,
    open: &[OpenQueue],
    token: &str,
) -> StoreResult<HandedOut> {
    let mut right = HandedOut::default();
    for _ in 0..ROUNDS_MAX {
        let rest = ClaimRequest { limit: request.limit - right.jobs.len(), ..request.clone() };
        let HandedOut { jobs, next_run_at } = hand_out(store, &rest, open, token).await?;
        right.next_run_at = next_run_at;
        let hints: Vec<Hint> = jobs.iter().map(|job| job.hint.clone()).collect();
        if hints.is_empty() {
            break;
        }
        let are_queued = match store.primary.check_hints(hints).await {
            Ok(are_queued) => are_queued,
            Err(error) => {
                let back: Vec<_> = right.jobs.iter().chain(&jobs).map(|job| (&job.hint, token)).collect();
                release_all(store, &back, true).await;
                return Err(error);
            }
        };
        let (queued, wrong): (Vec<_>, Vec<_>) = jobs.into_iter().zip(are_queued).partition(|(_, is_queued)| *is_queued);
        right.jobs.extend(queued.into_iter().map(|(job, _)| job));
        if wrong.is_empty() {
            break;
        }
        release_all(store, &wrong.iter().map(|(job, _)| (&job.hint, token)).collect::<Vec<_>>(), false).await;
    }
    Ok(right)
}

/// The number of jobs per queue among the first `limit` jobs of all queues.
fn shares(candidates: Vec<RedisResult<Option<Vec<Candidate>>>>, limit: usize) -> Vec<usize> {
    let count = candidates.len();
    let mut all: Vec<(Candidate, usize)> = Vec::new();
    for (number, found) in candidates.into_iter().enumerate() {
        all.extend(found.ok().flatten().unwrap_or_default().into_iter().map(|candidate| (candidate, number)));
    }
    all.sort_unstable();
    let mut shares = vec![0; count];
    all.iter().take(limit).for_each(|(_, number)| shares[*number] += 1);
    shares
}

/// The cached document of a job that has just been stored.
pub(crate) struct Document {
    at: Timestamp,
    spec: Spec,
}

impl Document {
    /// Encodes the document for the cache.
    pub(crate) fn write(at: Timestamp, spec: &Spec) -> Option<Vec<u8>> {
        serde_json::to_vec(&(at.as_micros(), spec)).ok()
    }

    fn read(text: &[u8]) -> Option<Self> {
        let (at, spec): (i64, Spec) = serde_json::from_slice(text).ok()?;
        Some(Self { at: Timestamp::from_micros(at), spec })
    }
}
