//! Atomic operations in Redis. Each script documents its arguments and results at its head.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use punctual_core::{
    JobId, Timestamp, WorkerId,
    dispatch::{Hint, Lane},
};
use redis::{RedisError, RedisResult, Script, Value};

use crate::{
    keys::{Namespace, QueueKeys, documents_suffix, lane_of, lane_suffix},
    server::Server,
};

macro_rules! scripts {
    ($($name:ident $file:literal)*) => {
        $(pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(include_str!("scripts/common.lua"), include_str!(concat!("scripts/", $file, ".lua"))))
        });)*
    };
}

scripts! {
    OWN "own"
    CLAIM "claim"
    PUSH "push"
    PUT "put"
    RELEASE "release"
    REAP "reap"
    OPEN "open"
    PAUSE "pause"
    CLOSE "close"
    FORGET "forget"
    COUNT "count"
    LOCK "lock"
    UNLOCK "unlock"
}

/// How long documents are cached, in seconds.
const CACHE_S: u32 = 3_600;
/// For new jobs of a lane of about this length, nothing is cached: workers read them from the primary store.
const CACHE_MAX_JOBS: usize = 100_000;
/// Documents of the same hour are cached under one key.
const HOUR_MICROS: i64 = 3_600_000_000;
/// Maximum number of jobs per call: Lua limits the number of arguments of a command.
pub(crate) const CALL_MAX_JOBS: usize = 1_000;

/// One queue in Redis, in one epoch.
pub(crate) struct Queue<'a> {
    pub(crate) server: &'a Server,
    pub(crate) namespace: &'a Namespace,
    pub(crate) name: &'a str,
    pub(crate) epoch: u64,
}

/// A request for jobs of one queue.
pub(crate) struct PopRequest<'a> {
    /// With their ranks, lowest ranks first.
    pub(crate) lanes: &'a [(Arc<Lane>, u32)],
    pub(crate) now: Timestamp,
    /// Jobs that are due by then may be handed out ahead of their time.
    pub(crate) until: Timestamp,
    pub(crate) limit: usize,
    pub(crate) hold_ms: u64,
    pub(crate) token: &'a str,
}

/// A job that was handed out.
pub(crate) struct Handed {
    pub(crate) hint: Hint,
    pub(crate) rank: u32,
    /// Whether the job is handed out ahead of its time.
    pub(crate) ahead: bool,
    /// Its cached document, if any.
    pub(crate) document: Option<Vec<u8>>,
}

/// The jobs that were handed out, and when the next one is due.
#[derive(Default)]
pub(crate) struct HandedOut {
    pub(crate) jobs: Vec<Handed>,
    pub(crate) next_run_at: Option<Timestamp>,
}

/// A job that would be handed out. Ordered like the jobs that are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    ahead: bool,
    rank: u32,
    run_at: i64,
    job: JobId,
}

/// Why jobs are sent to Redis that it may already have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushReason {
    /// The jobs have changed.
    Changed,
    /// Another process may have sent them already; claimed jobs are skipped.
    Again,
    /// Like `Again`, and all jobs are queued.
    Queued,
}

impl PushReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Again => "again",
            Self::Queued => "queued",
        }
    }
}

/// A new job for Redis, with its document if it may start at once.
pub(crate) struct News {
    pub(crate) hint: Hint,
    pub(crate) document: Option<Vec<u8>>,
}

impl Queue<'_> {
    fn keys(&self) -> QueueKeys {
        self.namespace.queue(self.name)
    }

    /// Opens the queue in Redis. All its data there is removed.
    pub(crate) async fn open(&self, paused: bool) -> RedisResult<()> {
        let keys = self.keys();
        let mut call = OPEN.prepare_invoke();
        call.key(keys.state()).key(keys.held()).key(keys.owners());
        call.arg(keys.prefix).arg(self.epoch).arg(u8::from(paused));
        self.server.run(&call).await
    }

    /// The number of hints, and the number of claimed jobs; `None` if the queue is not open in this epoch.
    pub(crate) async fn count(&self) -> RedisResult<Option<(usize, usize)>> {
        let keys = self.keys();
        let mut call = COUNT.prepare_invoke();
        call.key(keys.state()).key(keys.owners()).arg(self.epoch).arg(keys.prefix);
        self.server.run(&call).await
    }

    /// Closes the queue; returns the number of claimed jobs that the primary store may not know yet.
    pub(crate) async fn close(&self) -> RedisResult<usize> {
        let keys = self.keys();
        self.server.run(CLOSE.prepare_invoke().key(keys.state()).key(keys.owners())).await
    }

    /// Pauses or resumes the queue.
    pub(crate) async fn pause(&self, paused: bool) -> RedisResult<()> {
        self.server.run(PAUSE.prepare_invoke().key(self.keys().state()).arg(u8::from(paused))).await
    }

    /// Claims jobs; `None` if the queue is not open in this epoch.
    pub(crate) async fn claim(&self, pop: &PopRequest<'_>) -> RedisResult<Option<HandedOut>> {
        let Some(answer) = self.call_claim(pop, false).await? else { return Ok(None) };
        let mut values = answer.into_iter();
        let next: String = read(values.next())?;
        let mut handed = HandedOut {
            jobs: Vec::with_capacity(pop.limit),
            next_run_at: next.parse().ok().map(Timestamp::from_micros),
        };
        while let Some(lane) = values.next() {
            let lane: i64 = read(Some(lane))?;
            let ahead = lane < 0;
            let (lane, rank) = pop.lanes.get(lane.unsigned_abs() as usize - 1).ok_or_else(strange)?;
            let (job, run_at) = (job(values.next())?, read(values.next())?);
            let hint = Hint { lane: Arc::clone(lane), run_at: Timestamp::from_micros(run_at), job };
            handed.jobs.push(Handed { hint, rank: *rank, ahead, document: read(values.next())? });
        }
        Ok(Some(handed))
    }

    /// The jobs that a claim would get; `None` if the queue is not open in this epoch.
    pub(crate) async fn peek(&self, pop: &PopRequest<'_>) -> RedisResult<Option<Vec<Candidate>>> {
        let Some(answer) = self.call_claim(pop, true).await? else { return Ok(None) };
        let mut values = answer.into_iter().skip(1);
        let mut found = Vec::new();
        while let Some(ahead) = values.next() {
            found.push(Candidate {
                ahead: read::<u8>(Some(ahead))? == 1,
                rank: read(values.next())?,
                run_at: read(values.next())?,
                job: job(values.next())?,
            });
        }
        Ok(Some(found))
    }

    async fn call_claim(&self, pop: &PopRequest<'_>, only_peek: bool) -> RedisResult<Option<Vec<Value>>> {
        let keys = self.keys();
        let mut call = CLAIM.prepare_invoke();
        call.key(keys.state()).key(keys.held()).key(keys.owners());
        call.arg(self.epoch).arg(pop.now.as_micros()).arg(pop.until.as_micros()).arg(pop.limit).arg(pop.hold_ms);
        call.arg(pop.token).arg(&keys.prefix).arg(u8::from(only_peek));
        for (lane, rank) in pop.lanes {
            call.arg(*rank).arg(lane_suffix(lane));
        }
        self.server.run(&call).await
    }

    /// Adds jobs that were just stored, which are new until `new_until`; false if the queue is not open in this epoch.
    pub(crate) async fn push(&self, news: &[News], new_until: u64) -> RedisResult<bool> {
        let keys = self.keys();
        let lanes: Vec<&[News]> = news.chunk_by(|one, other| one.hint.lane == other.hint.lane).collect();
        let mut documents: BTreeMap<i64, Vec<(JobId, &[u8])>> = BTreeMap::new();
        for News { hint, document } in news {
            if let Some(document) = document {
                let hour = hint.run_at.as_micros().div_euclid(HOUR_MICROS);
                documents.entry(hour).or_default().push((hint.job, document));
            }
        }
        let queued = news.iter().filter(|news| news.document.is_some()).map(|news| news.hint.run_at.as_micros());
        let mut call = PUSH.prepare_invoke();
        call.key(keys.state()).arg(self.epoch).arg(new_until).arg(CACHE_S);
        call.arg(self.namespace.channel()).arg(self.name).arg(lanes.len()).arg(queued.max().unwrap_or(0));
        call.arg(&keys.prefix).arg(CACHE_MAX_JOBS);
        for of_lane in lanes {
            let lane = &of_lane[0].hint.lane;
            call.arg(lane_suffix(lane)).arg(of_lane.len());
            for News { hint, .. } in of_lane {
                call.arg(hint.run_at.as_micros()).arg(hint.job.to_string());
            }
        }
        for (hour, documents) in documents {
            let suffix = documents_suffix(self.epoch, hour);
            call.key(format!("{}{suffix}", keys.prefix)).arg(suffix).arg(documents.len());
            for (job, document) in documents {
                call.arg(job.to_string()).arg(document);
            }
        }
        self.server.run(&call).await
    }

    /// Adds jobs of one lane again, or late; returns how many were new, or `None` if the queue is not open in this
    /// epoch.
    pub(crate) async fn put(&self, hints: &[Hint], what: PushReason) -> RedisResult<Option<usize>> {
        let Some(first) = hints.first() else { return Ok(Some(0)) };
        let keys = self.keys();
        let mut call = PUT.prepare_invoke();
        call.key(keys.state()).key(keys.owners());
        call.arg(self.epoch).arg(lane_suffix(&first.lane)).arg(what.as_str());
        call.arg(self.namespace.channel()).arg(self.name).arg(&keys.prefix);
        for hint in hints {
            call.arg(hint.run_at.as_micros()).arg(hint.job.to_string());
        }
        self.server.run(&call).await
    }

    /// Releases claimed jobs, each with the token of its claim; optionally puts them back into their lanes.
    pub(crate) async fn release(&self, jobs: &[(JobId, &str)], put_back: bool) -> RedisResult<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let keys = self.keys();
        let mut claims: BTreeMap<&str, Vec<JobId>> = BTreeMap::new();
        for (job, token) in jobs {
            claims.entry(token).or_default().push(*job);
        }
        let mut call = RELEASE.prepare_invoke();
        call.key(keys.owners()).arg(&keys.prefix).arg(u8::from(put_back));
        for (token, jobs) in claims {
            call.arg(token).arg(jobs.len());
            for job in jobs {
                call.arg(job.to_string());
            }
        }
        self.server.run(&call).await
    }

    /// The jobs that a worker's claims hold, each with the token of its claim.
    pub(crate) async fn in_hands_of(&self, worker: WorkerId) -> RedisResult<Vec<(Hint, String)>> {
        let owners: HashMap<String, String> = self.server.call(redis::cmd("HGETALL").arg(self.keys().owners())).await?;
        let claims = claims_of(worker);
        let held = owners.into_iter().filter(|(_, owner)| owner.starts_with(&claims));
        held.map(|(job, owner)| self.held(&job, &owner).ok_or_else(strange)).collect()
    }

    /// Parses the entry of a claimed job: the token of the claim, the start time, and the suffix of the lane.
    fn held(&self, job: &str, owner: &str) -> Option<(Hint, String)> {
        let mut parts = owner.splitn(3, ' ');
        let (token, run_at, suffix) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        let lane = Arc::new(lane_of(self.name, suffix)?);
        Some((Hint { lane, run_at: Timestamp::from_micros(run_at), job: job.parse().ok()? }, token.to_owned()))
    }

    /// Puts back jobs whose claims have expired; returns how many.
    pub(crate) async fn reap(&self) -> RedisResult<usize> {
        self.put_back("").await
    }

    /// Puts back jobs that a dead worker had claimed; returns how many.
    pub(crate) async fn bury(&self, worker: WorkerId) -> RedisResult<usize> {
        self.put_back(&claims_of(worker)).await
    }

    async fn put_back(&self, claims: &str) -> RedisResult<usize> {
        let keys = self.keys();
        let mut call = REAP.prepare_invoke();
        call.key(keys.held()).key(keys.owners()).arg(&keys.prefix);
        call.arg(self.namespace.channel()).arg(self.name).arg(claims);
        self.server.run(&call).await
    }

    /// Removes jobs of one lane that must not be handed out any more.
    pub(crate) async fn forget(&self, hints: &[Hint]) -> RedisResult<()> {
        let Some(first) = hints.first() else { return Ok(()) };
        let keys = self.keys();
        let mut call = FORGET.prepare_invoke();
        call.key(keys.state()).arg(&keys.prefix).arg(self.epoch).arg(lane_suffix(&first.lane));
        for hint in hints {
            call.arg(hint.run_at.as_micros()).arg(hint.job.to_string());
        }
        self.server.run(&call).await
    }
}

/// The prefix of the tokens of a worker's claims: the random part of its id.
pub(crate) fn claims_of(worker: WorkerId) -> String {
    format!("{:x}.", worker.to_bits() as u64)
}

fn read<T: redis::FromRedisValue>(value: Option<Value>) -> RedisResult<T> {
    Ok(redis::from_redis_value(value.ok_or_else(strange)?)?)
}

fn job(value: Option<Value>) -> RedisResult<JobId> {
    read::<String>(value)?.parse().map_err(|_| strange())
}

/// The error for data of another program under our keys.
fn strange() -> RedisError {
    (redis::ErrorKind::UnexpectedReturnType, "invalid data under Punctual's keys").into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Enough jobs for several parts.
    const JOBS: i64 = 160_000;
    /// The initial time of the queue's clock.
    const START: i64 = 1_700_000_000_000_000;

    fn lane() -> Arc<Lane> {
        Arc::new(Lane { queue: "long".into(), name: "noop".into(), priority: 5 })
    }

    /// The hint of job `number`. Several jobs have the same time.
    fn hint(lane: &Arc<Lane>, number: i64) -> Hint {
        let run_at = Timestamp::from_micros(START + number / 7);
        Hint { lane: Arc::clone(lane), run_at, job: JobId::from_bits(number as u128) }
    }

    async fn claim(queue: &Queue<'_>, lanes: &[(Arc<Lane>, u32)], limit: usize, token: &str) -> Vec<Hint> {
        let (now, until) = (Timestamp::from_micros(START + JOBS), Timestamp::from_micros(START + 2 * JOBS));
        let pop = PopRequest { lanes, now, until, limit, hold_ms: 60_000, token };
        let handed = queue.claim(&pop).await.unwrap().expect("the queue is open");
        handed.jobs.into_iter().map(|job| job.hint).collect()
    }

    #[tokio::test]
    async fn a_long_lane_is_kept_in_parts_and_goes_out_in_the_order_of_time() {
        let url = std::env::var("PUNCTUAL_TEST_REDIS_URL").expect("`cargo xtask test` names a server");
        let server = Server::new(url.parse().unwrap());
        let namespace = Namespace::of(&format!("parts-{:x}", fastrand::u64(..)));
        let queue = Queue { server: &server, namespace: &namespace, name: "long", epoch: 1 };
        queue.open(false).await.unwrap();
        let (lane, mut expected) = (lane(), BTreeSet::new());
        // The first jobs are added late, after some of the others, as if Redis had been empty.
        let (mut late, mut news) = (Vec::new(), Vec::new());
        for number in 0..JOBS {
            expected.insert((hint(&lane, number).run_at, hint(&lane, number).job));
            match number {
                0..75_000 => late.push(hint(&lane, number)),
                _ => news.push(News { hint: hint(&lane, number), document: Some(b"{}".to_vec()) }),
            }
        }
        let (before, behind) = news.split_at(5_000);
        for part in before.chunks(CALL_MAX_JOBS) {
            assert!(queue.push(part, u64::MAX).await.unwrap());
        }
        for part in late.chunks(CALL_MAX_JOBS) {
            assert_eq!(queue.put(part, PushReason::Queued).await.unwrap(), Some(part.len()));
            assert_eq!(queue.put(part, PushReason::Queued).await.unwrap(), Some(0), "known by now");
        }
        for part in behind.chunks(CALL_MAX_JOBS) {
            assert!(queue.push(part, u64::MAX).await.unwrap());
        }
        assert_eq!(queue.count().await.unwrap(), Some((JOBS as usize, 0)));
        let state: String = {
            let mut command = redis::cmd("HGET");
            server.call(command.arg(namespace.queue("long").state()).arg(lane_suffix(&lane))).await.unwrap()
        };
        assert_eq!(state.split(' ').count(), 3, "kept in parts from {state}");
        // Some jobs are removed, in every part.
        for number in (0..JOBS).step_by(9_999) {
            let gone = hint(&lane, number);
            queue.forget(std::slice::from_ref(&gone)).await.unwrap();
            assert!(expected.remove(&(gone.run_at, gone.job)));
        }
        let (lanes, mut out, mut round) = ([(Arc::clone(&lane), 0)], Vec::new(), 0);
        loop {
            round += 1;
            let token = format!("1.{round:x}");
            let handed = claim(&queue, &lanes, 777, &token).await;
            let jobs: Vec<_> = handed.iter().map(|hint| (hint.job, token.as_str())).collect();
            // Every tenth round the jobs are put back, and handed out again later.
            queue.release(&jobs, round % 10 == 0).await.unwrap();
            if handed.is_empty() {
                break;
            }
            if round % 10 != 0 {
                out.extend(handed.into_iter().map(|hint| (hint.run_at, hint.job)));
            }
        }
        assert!(out.into_iter().eq(expected), "each once, in the order of their time");
        let left: Vec<String> =
            server.call(redis::cmd("KEYS").arg(format!("{}part:*", namespace.queue("long").prefix))).await.unwrap();
        assert_eq!(left, Vec::<String>::new());
        queue.open(false).await.unwrap();
        assert_eq!(queue.count().await.unwrap(), Some((0, 0)));
    }
}
