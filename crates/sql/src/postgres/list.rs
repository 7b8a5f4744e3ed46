//! Job lists. Each is read from an index in its order, with a bound on the number of rows that one page scans.

use std::collections::HashSet;

use punctual_core::{Filter, Job, JobId, JobPage, Order, Page, Status, StoreError, Timestamp, filter::Attributes};
use sqlx::{Row, postgres::PgRow};

use super::{
    core::Core,
    read, rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};
use crate::{
    labels::label_of,
    list::{self, Found, Key, SourceScan},
};

/// Number of rows fetched first, and by each further fetch: most pages are full after the first.
const CHUNKS: (usize, usize) = (200, 5_000);

pub(crate) async fn list(store: &Core, filter: &Filter, page: &Page) -> Result<JobPage, StoreError> {
    let error = |error| store.sessions.error(error);
    let listed = if filter.order() == Order::Newest {
        newest(store, filter, page, list::begin_id(page)?).await
    } else {
        timed(store, filter, page, list::begin(page)?).await
    };
    listed.map_err(error)
}

/// The source of a list: its statement, and the statement's parameters besides the position.
enum ListSource<'a> {
    Newest,
    Lanes(Vec<i32>),
    Label(&'static str, &'a str),
    /// By the number in [`sql::ENDS`].
    Ended(i16),
    Deleted,
    Due,
    Running,
    Waiting,
    Lane(i32),
}

/// A position in a source: a time and an id.
type Position = (Timestamp, JobId);

impl ListSource<'_> {
    /// Up to `count` rows after `from`; `bound` is the other end of the list.
    async fn fetch(&self, store: &Core, from: Position, bound: Timestamp, count: usize) -> sqlx::Result<Vec<PgRow>> {
        let text = match self {
            Self::Newest => *sql::LIST_NEWEST,
            Self::Lanes(_) => *sql::LIST_LANES,
            Self::Label(..) => *sql::LIST_LABEL,
            Self::Ended(_) => *sql::LIST_ENDED,
            Self::Deleted => *sql::LIST_DELETED,
            Self::Due => *sql::LIST_DUE,
            Self::Running => *sql::LIST_RUNNING,
            Self::Waiting => *sql::LIST_WAITING,
            Self::Lane(_) => *sql::LIST_LANE,
        };
        let query = sqlx::query(text).bind(At(from.0)).bind(uuid(from.1)).bind(At(bound)).bind(count as i64);
        let query = match self {
            Self::Lanes(numbers) => query.bind(numbers),
            Self::Label(kind, value) => query.bind(*kind).bind(*value),
            Self::Lane(number) => query.bind(*number),
            Self::Ended(end) => query.bind(*end),
            Self::Newest | Self::Deleted | Self::Due | Self::Running | Self::Waiting => query,
        };
        let mut unit = store.sessions.single().await?;
        let rows = query.fetch_all(&mut *unit).await?;
        unit.done().await?;
        Ok(rows)
    }
}

// Newest first: one source, keyed by id.

async fn newest(store: &Core, filter: &Filter, page: &Page, after: Option<JobId>) -> sqlx::Result<JobPage> {
    let until = filter.until.unwrap_or(Timestamp::MAX);
    // `until` itself is excluded: the list starts before the lowest id of that instant.
    let first = (until, JobId::from_bits(0));
    let from = after.map_or(first, |id| first.min((id.timestamp(), id)));
    let since = filter.since.unwrap_or(Timestamp::MIN);
    let source = match label_of(filter) {
        Some((kind, value)) => ListSource::Label(kind, value),
        None if filter.name.is_some() => ListSource::Lanes(lanes(store, filter).await?),
        None => ListSource::Newest,
    };
    let found = Scan { store, filter, from, bound: since, limit: page.limit }.run(&source).await?;
    let ids: Vec<JobId> = found.fitting.into_iter().map(|(_, id)| id).collect();
    let next = found.stopped.map(|(_, id)| id.to_string());
    Ok(JobPage { jobs: load(store, &ids).await?, next })
}

/// The lanes of the filter's queue and name.
async fn lanes(store: &Core, filter: &Filter) -> sqlx::Result<Vec<i32>> {
    let mut unit = store.sessions.single().await?;
    store.lanes.refresh(&mut unit).await?;
    unit.done().await?;
    Ok(store.lanes.of(filter.queue.as_ref(), filter.name.as_ref()))
}

/// The attributes of a job that its source provides.
struct Candidate {
    position: Position,
    /// The job's queue and name, if the source has them.
    lane: Option<(String, String)>,
    /// The job's status, if the source has it.
    status: Option<Status>,
}

impl Candidate {
    fn read(store: &Core, row: &PgRow) -> sqlx::Result<Self> {
        let lane = row.try_get::<Option<i32>, _>(2)?.and_then(|number| store.lanes.lane(number));
        let status = row.try_get::<Option<&str>, _>(3)?.and_then(|word| word.parse().ok());
        let position = (rows::instant(row, 0)?, job_id(row.try_get::<Uuid, _>(1)?));
        Ok(Self { position, lane: lane.map(|(queue, name, ..)| (queue, name)), status })
    }

    /// Whether the job is selected, if its attributes decide that without reading the job.
    fn fits(&self, filter: &Filter) -> Option<bool> {
        let (queue, name) = self.lane.as_ref().map(|(queue, name)| (queue.as_str(), name.as_str())).unzip();
        let is_selected = |selected: &Option<String>, found: Option<&str>| match (selected, found) {
            (None, _) => Some(true),
            (Some(_), None) => None,
            (Some(selected), Some(found)) => Some(selected == found),
        };
        let status = self.status.map(|status| filter.selects_status(status));
        let labels = label_of(filter).is_none().then_some(true);
        let (queue, name) = (is_selected(&filter.queue, queue), is_selected(&filter.name, name));
        let all = [status, queue, name, labels];
        if all.contains(&Some(false)) {
            Some(false)
        } else {
            all.into_iter().all(|found| found.is_some()).then_some(true)
        }
    }
}

/// The selected jobs among the candidates whose attributes do not decide, found by reading the jobs.
async fn selected(store: &Core, filter: &Filter, candidates: &[Candidate]) -> sqlx::Result<HashSet<JobId>> {
    let unclear = candidates.iter().filter(|candidate| candidate.fits(filter).is_none());
    let ids: Vec<JobId> = unclear.map(|candidate| candidate.position.1).collect();
    let mut fitting = HashSet::new();
    for row in read::rows_of(store, *sql::LIST_DETAILS, &ids).await? {
        if job_fits(filter, &row)? {
            fitting.insert(job_id(row.try_get::<Uuid, _>(0)?));
        }
    }
    Ok(fitting)
}

/// Whether a job is selected, by its row of the statement `LIST_DETAILS`.
fn job_fits(filter: &Filter, row: &PgRow) -> sqlx::Result<bool> {
    let attributes = Attributes {
        queue: row.try_get(2)?,
        name: row.try_get(3)?,
        user_id: row.try_get(4)?,
        correlation_id: row.try_get(5)?,
    };
    if !filter.selects_status(rows::word(row, 1)?) || !filter.selects_attributes(attributes) {
        return Ok(false);
    }
    if !filter.depends_on_options() {
        return Ok(true);
    }
    Ok(filter.selects_options(&rows::document(row, 6)?.unwrap_or_default()))
}

// By time: several sources, keyed by (time, id), merged.

async fn timed(store: &Core, filter: &Filter, page: &Page, after: Option<Key>) -> sqlx::Result<JobPage> {
    let backwards = filter.order() == Order::Finished;
    let wants = |status: Status| filter.statuses.contains(&status);
    let mut sources = Vec::new();
    for status in &filter.statuses {
        match status {
            Status::Succeeded | Status::Dead | Status::Cancelled => {
                sources.extend(sql::ENDS.iter().find(|(end, _)| end == status).map(|(_, end)| ListSource::Ended(*end)));
            }
            Status::Deleted => sources.push(ListSource::Deleted),
            Status::Processing => sources.push(ListSource::Running),
            Status::Queued => sources.extend(lanes(store, filter).await?.into_iter().map(ListSource::Lane)),
            Status::Waiting => sources.push(ListSource::Waiting),
            Status::Scheduled | Status::Retrying | Status::Failed => {}
        }
    }
    if wants(Status::Scheduled) || wants(Status::Retrying) {
        sources.push(ListSource::Due);
    }
    let (since, until) = (filter.since.unwrap_or(Timestamp::MIN), filter.until.unwrap_or(Timestamp::MAX));
    let (first, bound) = if backwards {
        ((until, JobId::from_bits(0)), since)
    } else {
        ((since.before(std::time::Duration::from_micros(1)), JobId::from_bits(u128::MAX)), until)
    };
    let from = match after {
        Some((time, id)) if backwards => first.min((Timestamp::from_micros(-time), JobId::from_bits(-id as u128))),
        Some((time, id)) => first.max((Timestamp::from_micros(time), JobId::from_bits(id as u128))),
        None if !backwards && filter.since.is_none() => (Timestamp::MIN, JobId::from_bits(0)),
        None => first,
    };
    let mut found = Vec::with_capacity(sources.len());
    let scan = Scan { store, filter, from, bound, limit: page.limit };
    for source in sources {
        let scanned = scan.run(&source).await?;
        let fitting = scanned.fitting.into_iter().map(|(position, id)| (key(position, backwards), id)).collect();
        found.push(Found { fitting, stopped: scanned.stopped.map(|position| key(position, backwards)) });
    }
    let (ids, next) = list::merge(found, page.limit);
    Ok(JobPage { jobs: load(store, &ids).await?, next: next.map(list::cursor) })
}

fn key((time, id): Position, backwards: bool) -> Key {
    let (time, id) = (time.as_micros(), id.to_bits() as i128);
    if backwards { (-time, -id) } else { (time, id) }
}

/// The scan for a page: from after a position to the other end of the list.
struct Scan<'a> {
    store: &'a Core,
    filter: &'a Filter,
    from: Position,
    bound: Timestamp,
    limit: usize,
}

impl Scan<'_> {
    /// Scans a source until the page is full, the maximum number of rows is reached, or the source ends.
    async fn run(&self, source: &ListSource<'_>) -> sqlx::Result<Found<Position, JobId>> {
        let Self { store, filter, mut from, bound, limit } = *self;
        let (mut scan, mut chunk) = (SourceScan::new(limit), CHUNKS.0);
        loop {
            let rows = source.fetch(store, from, bound, chunk).await?;
            let candidates = rows.iter().map(|row| Candidate::read(store, row)).collect::<sqlx::Result<Vec<_>>>()?;
            let selected = selected(store, filter, &candidates).await?;
            for candidate in candidates {
                from = candidate.position;
                let fits = candidate.fits(filter).unwrap_or_else(|| selected.contains(&from.1));
                if !scan.add(from, fits.then_some(from.1)) {
                    return Ok(scan.found);
                }
            }
            if rows.len() < chunk {
                return Ok(scan.found);
            }
            chunk = CHUNKS.1;
        }
    }
}

/// Reads jobs in the order of `ids`. Jobs removed between the two statements are left out.
async fn load(store: &Core, ids: &[JobId]) -> sqlx::Result<Vec<Job>> {
    let mut jobs = read::get_many(store, ids).await?;
    Ok(ids.iter().filter_map(|id| jobs.remove(id)).collect())
}
