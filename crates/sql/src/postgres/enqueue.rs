//! Jobs come in.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use punctual_core::{Enqueued, JobId, NewJob, StoreError};
use sqlx::{PgConnection, Row};

use super::{
    Core,
    days::Day,
    error, old_days, rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// How many days ahead a job's day gets partitions of its own as soon as a job is scheduled for it. What is further away
/// waits in `…_rest` until its day comes near.
const HORIZON_DAYS: i64 = 30;

/// Stores jobs with their events, and puts each where claims will find it.
pub(crate) async fn enqueue(store: &Core, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
    let error = |error| store.sessions.error(error);
    prepare(store, jobs).await?;
    let keyed = jobs.iter().any(|job| job.spec.unique_key.is_some()) || any_old(store, jobs);
    // The id of an occurrence follows from its time, so somebody else may have made the same.
    let derived = jobs.iter().any(|job| job.spec.extras.occurrence.is_some());
    let mut ids = if derived { Ids::Unknown } else { Ids::New };
    let enqueued = loop {
        let unit = if keyed { store.sessions.several().await } else { store.sessions.single().await };
        let mut unit = unit.map_err(error)?;
        match enqueue_in(store, &mut unit, jobs, ids).await {
            Err(refused) if ids == Ids::New && error::known_already(&refused) => ids = Ids::Unknown,
            enqueued => {
                let enqueued = enqueued.map_err(error)?;
                unit.done().await.map_err(error)?;
                break enqueued;
            }
        }
    };
    announce(store, jobs);
    Ok(enqueued)
}

/// Jobs have been stored: claims are to look for them.
pub(crate) fn announce(store: &Core, jobs: &[NewJob]) {
    store.lanes.put_all(jobs);
    store.outlook.scheduled_all(jobs);
    store.hints.tell_work();
}

/// Makes the lanes and days that jobs need, apart from the transaction that brings them: others may need them too, and are
/// not to wait for it.
pub(crate) async fn prepare(store: &Core, jobs: &[NewJob]) -> Result<(), StoreError> {
    let error = |error| store.sessions.error(error);
    let lanes = store.lanes.unknown(jobs);
    if !lanes.is_empty() {
        let mut unit = store.sessions.single().await.map_err(error)?;
        store.lanes.add(&mut unit, lanes).await.map_err(error)?;
        unit.done().await.map_err(error)?;
    }
    let today = Day::of(store.clock_now());
    let days: BTreeSet<Day> = jobs.iter().map(|job| Day::of(job.id.timestamp())).collect();
    let near = |day: &Day| (today..=today.plus(HORIZON_DAYS)).contains(day) && !store.days.has(*day);
    for day in days.into_iter().filter(near) {
        store.days.create(&store.sessions, day).await.map_err(error)?;
    }
    Ok(())
}

/// Whether a job is for a day that may be exchanged for what is left of it.
fn any_old(store: &Core, jobs: &[NewJob]) -> bool {
    let now = store.clock_now();
    jobs.iter().any(|job| old_days::is_old(Day::of(job.id.timestamp()), now))
}

/// What is known of jobs' ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// They are taken to be new; an error says if one is not, and ends the transaction.
    New,
    /// Some may be stored already.
    Unknown,
}

/// The same within a transaction, without making lanes and days.
pub(crate) async fn enqueue_in(
    store: &Core,
    connection: &mut PgConnection,
    jobs: &[NewJob],
    ids: Ids,
) -> sqlx::Result<Vec<Enqueued>> {
    if any_old(store, jobs) {
        old_days::share(connection).await?;
    }
    let holders = take_keys(connection, jobs).await?;
    let wanted: Vec<&NewJob> = jobs.iter().filter(|job| !holders.contains_key(&job.id)).collect();
    let new = insert(store, connection, &wanted, ids).await?;
    let known: Vec<&NewJob> = wanted.iter().copied().filter(|job| !new.contains(&job.id)).collect();
    give_back_keys(connection, &known).await?;
    let mut unseen = new;
    let answer = |job: &NewJob| match holders.get(&job.id) {
        Some(holder) => Enqueued { id: *holder, existing: true },
        // An id that is given twice is new once.
        None => Enqueued { id: job.id, existing: !unseen.remove(&job.id) },
    };
    Ok(jobs.iter().map(answer).collect())
}

/// Takes the unique keys of those that want one; returns who holds it instead, for those that do not get theirs.
async fn take_keys(connection: &mut PgConnection, jobs: &[NewJob]) -> sqlx::Result<HashMap<JobId, JobId>> {
    // The first of a batch that wants a key is the one to get it.
    let mut wanted: BTreeMap<(&str, &str), JobId> = BTreeMap::new();
    let keyed = || jobs.iter().filter_map(|job| Some((job, (job.spec.name.as_str(), job.spec.unique_key.as_deref()?))));
    for (job, key) in keyed() {
        wanted.entry(key).or_insert(job.id);
    }
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let (scopes, keys): (Vec<&str>, Vec<&str>) = wanted.keys().copied().unzip();
    let ids: Vec<Uuid> = wanted.values().map(|id| uuid(*id)).collect();
    let rows = sqlx::query(*sql::KEYS_TAKE).bind(scopes).bind(keys).bind(ids).fetch_all(connection).await?;
    let mut holders: HashMap<(&str, &str), JobId> = HashMap::new();
    for row in &rows {
        holders.insert((row.try_get(0)?, row.try_get(1)?), job_id(row.try_get(2)?));
    }
    let other =
        |(job, key): (&NewJob, _)| holders.get(&key).filter(|holder| **holder != job.id).map(|id| (job.id, *id));
    Ok(keyed().filter_map(other).collect())
}

async fn give_back_keys(connection: &mut PgConnection, known: &[&NewJob]) -> sqlx::Result<()> {
    let keyed: Vec<(&NewJob, &String)> =
        known.iter().filter_map(|job| Some((*job, job.spec.unique_key.as_ref()?))).collect();
    if keyed.is_empty() {
        return Ok(());
    }
    sqlx::query(*sql::KEYS_GIVE_BACK)
        .bind(keyed.iter().map(|(job, _)| job.spec.name.as_str()).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(job, _)| uuid(job.id)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Stores jobs; returns the ids that were not known.
async fn insert(
    store: &Core,
    connection: &mut PgConnection,
    jobs: &[&NewJob],
    ids: Ids,
) -> sqlx::Result<HashSet<JobId>> {
    if jobs.is_empty() {
        return Ok(HashSet::new());
    }
    let extras = |job: &&NewJob| {
        let extras = &job.spec.extras;
        if *extras == Default::default() { Ok(None) } else { rows::text(extras).map(Some) }
    };
    let extras = jobs.iter().map(extras).collect::<sqlx::Result<Vec<_>>>()?;
    let (first, alike) = (jobs[0], jobs.windows(2).all(|pair| are_alike(pair[0], pair[1])));
    let with_part = !jobs.iter().all(|job| is_plain(job));
    macro_rules! column {
        ($job:ident, $value:expr) => {
            jobs.iter().map(|$job| $value).collect::<Vec<_>>()
        };
    }
    let forms = if ids == Ids::New { &sql::ENQUEUE } else { &sql::ENQUEUE_UNKNOWN };
    let mut query = sqlx::query_scalar(forms.of(alike, with_part))
        .bind(store.sessions.clock())
        .bind(column!(job, uuid(job.id)))
        .bind(column!(job, At(job.id.timestamp())))
        .bind(column!(job, job.spec.payload.as_str()))
        .bind(some_of(extras))
        .bind(some_of(column!(job, job.spec.unique_key.as_deref())));
    // The first one's value for all, or a value for each.
    macro_rules! bind {
        ($job:ident, $value:expr) => {
            query = if alike {
                let $job = first;
                query.bind($value)
            } else {
                query.bind(column!($job, $value))
            };
        };
    }
    bind!(job, job.delay.map(|delay| delay.as_micros() as i64));
    bind!(job, job.spec.name.as_str());
    bind!(job, job.spec.queue.as_str());
    bind!(job, i16::from(job.spec.priority));
    bind!(job, job.spec.max_attempts as i32);
    bind!(job, job.spec.timeout.as_millis() as i64);
    bind!(job, job.spec.user_id.as_deref());
    bind!(job, job.spec.correlation_id.as_deref());
    bind!(job, job.spec.workflow_id.map(|id| Uuid::from_u128(id.to_bits())));
    bind!(job, job.spec.keep_for.map(|keep| keep.as_millis() as i64));
    bind!(job, job.spec.ephemeral);
    let lanes = store.lanes.numbers(jobs.iter().copied());
    query = if alike { query.bind(lanes[0]) } else { query.bind(lanes) };
    let new: Vec<Uuid> = query.fetch_all(connection).await?;
    Ok(match ids {
        Ids::New => jobs.iter().map(|job| job.id).collect(),
        Ids::Unknown => new.into_iter().map(job_id).collect(),
    })
}

/// Whether two jobs differ only in what is always an array: id, time, payload, extras and unique key.
fn are_alike(one: &NewJob, other: &NewJob) -> bool {
    let (a, b) = (&one.spec, &other.spec);
    one.delay == other.delay
        && (&a.name, &a.queue, a.priority, a.max_attempts) == (&b.name, &b.queue, b.priority, b.max_attempts)
        && (a.timeout, &a.user_id, &a.correlation_id) == (b.timeout, &b.user_id, &b.correlation_id)
        && (a.workflow_id, a.keep_for, a.ephemeral) == (b.workflow_id, b.keep_for, b.ephemeral)
}

/// Whether a job needs none of what few jobs need.
fn is_plain(job: &NewJob) -> bool {
    let spec = &job.spec;
    let of_schedule = spec.extras.occurrence.is_some();
    let labelled =
        spec.user_id.is_some() || spec.correlation_id.is_some() || !spec.extras.tags.is_empty() || of_schedule;
    job.delay.is_none() && !spec.ephemeral && !labelled
}

/// A column, or nothing if none of its rows has a value.
pub(crate) fn some_of<T>(column: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
    column.iter().any(Option::is_some).then_some(column)
}
