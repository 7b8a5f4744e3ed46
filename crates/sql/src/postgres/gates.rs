//! Which queued jobs may start, where limits are set. What is decided, [`gate`] says.
//!
//! Jobs with a concurrency key stand in lanes of their own. Whatever happens to one of them marks its key; a claim looks at the marked keys
//! first and keeps in `punctual_heads` which of them have something to start. So a claim costs what it takes and what has changed, and not what
//! waits. Claims of one queue's gates come one after the other: each must see what the others let through.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    ClaimRequest, JobId, Limits, Rate, Timestamp,
    gate::{self, Line, Order, Passed, QueueGate},
};
use sqlx::{PgConnection, Row};

use super::{
    Core,
    claim::{self, Look, Taken},
    lanes::Served,
    queues::Known,
    rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// So many marked keys of each queue are looked at by one claim.
const LOOK_MAX_KEYS: i64 = 2_000;
/// Under this key, `punctual_starts` and `punctual_turns` know the queue itself.
const QUEUE: &str = "";
/// Under this key, which nobody can have, `punctual_turns` knows the jobs without one.
const KEYLESS: &str = " ";

/// A queue and a key.
type Gate = (String, String);

/// A lane whose jobs pass a gate, with its queue.
type Gated = (String, Served);

/// Takes the first jobs that the worker serves and their gates let through; nothing if something was said of queues that is not known
/// here.
pub(crate) async fn try_take(
    store: &Core,
    request: &ClaimRequest,
    look: &Look<'_>,
    known: &Known,
    (plain, gated): (&[Served], &[Gated]),
) -> sqlx::Result<Option<Taken>> {
    let work = work(store, look, gated).await?;
    let mut opens_at = work.opens_at;
    let mut first = None;
    if !work.queues.is_empty() {
        let lanes: Vec<&Gated> = gated.iter().filter(|(queue, _)| work.queues.contains(queue)).collect();
        let claim = GatedClaim { store, request, look, known, plain, lanes };
        match claim.take(&work.queues).await? {
            None => return Ok(None),
            Some((taken, opens)) => {
                opens_at = opens_at.into_iter().chain(opens).min();
                first = Some(taken);
            }
        }
    }
    let room = request.limit - first.as_ref().map_or(0, |taken| taken.holds.len());
    if first.is_some() && room == 0 {
        return Ok(first.map(|taken| Taken { opens_at, ..taken }));
    }
    // What others took meanwhile leaves room for more of what passes no gate.
    let rest = ClaimRequest { limit: room, ..request.clone() };
    let taken = claim::try_take(store, &rest, look, known, plain).await?;
    let held = first.map(|taken| taken.holds).unwrap_or_default();
    Ok(match taken {
        Some(more) => Some(Taken { holds: held.into_iter().chain(more.holds).collect(), opens_at, ..more }),
        // What is held already must not be lost; the next claim looks again.
        None if !held.is_empty() => Some(Taken { holds: held, next_run_at: None, opens_at }),
        None => None,
    })
}

/// The queues whose gates may let something through, and when a rate of a key does next.
struct Work {
    queues: BTreeSet<String>,
    opens_at: Option<Timestamp>,
}

async fn work(store: &Core, look: &Look<'_>, gated: &[Gated]) -> sqlx::Result<Work> {
    let queues: Vec<&String> = gated.iter().map(|(queue, _)| queue).collect::<BTreeSet<_>>().into_iter().collect();
    let (keyed, limited): (Vec<&Gated>, Vec<&Gated>) = gated.iter().partition(|(_, lane)| lane.keyed);
    let (times, ids) = bounds(look, limited.iter().map(|(_, lane)| lane));
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::GATES_WORK)
        .bind(store.sessions.clock())
        .bind(&queues)
        .bind(keyed.iter().map(|(_, lane)| lane.number).collect::<Vec<_>>())
        .bind(limited.iter().map(|(_, lane)| lane.number).collect::<Vec<_>>())
        .bind(times)
        .bind(ids)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let (now, mut work) = (store.clock_now(), Work { queues: BTreeSet::new(), opens_at: None });
    let lanes: Vec<&Gated> = keyed.into_iter().chain(limited).collect();
    for row in &rows {
        let number = row.try_get::<i64, _>(1)? as usize - 1;
        match (row.try_get::<i32, _>(0)?, rows::optional_instant(row, 2)?) {
            (0, Some(at)) if at > now => work.opens_at = work.opens_at.into_iter().chain([at]).min(),
            (0, _) => drop(work.queues.insert(queues[number].clone())),
            _ => drop(work.queues.insert(lanes[number].0.clone())),
        }
    }
    Ok(work)
}

/// The places before which nothing is expected in lanes.
fn bounds<'a>(look: &Look<'_>, lanes: impl Iterator<Item = &'a Served>) -> (Vec<At>, Vec<Uuid>) {
    lanes
        .map(|lane| look.lane_bound(lane.bound))
        .map(|bound| (At(bound.run_at), Uuid::from_u128(bound.job.map_or(0, JobId::to_bits))))
        .unzip()
}

/// A claim that minds gates.
struct GatedClaim<'a> {
    store: &'a Core,
    request: &'a ClaimRequest,
    look: &'a Look<'a>,
    known: &'a Known,
    plain: &'a [Served],
    lanes: Vec<&'a Gated>,
}

/// A queued job's place.
#[derive(Debug, Clone, Copy)]
struct Place {
    lane: i32,
    run_at: Timestamp,
    id: JobId,
}

/// What a claim chooses from. What passes no gate stands in a queue without a name.
struct Choice {
    names: Vec<String>,
    queues: Vec<QueueGate>,
    /// How far the queues had come before.
    clocks: Vec<u64>,
    /// The key of each line.
    keys: Vec<Option<String>>,
    lines: Vec<Line<Place>>,
}

impl Choice {
    fn number(&self, queue: &str) -> usize {
        self.names.partition_point(|name| name.as_str() < queue)
    }
}

impl GatedClaim<'_> {
    /// Takes what the gates of queues let through, together with what passes none; and says when a rate of a queue lets more through.
    async fn take(&self, queues: &BTreeSet<String>) -> sqlx::Result<Option<(Taken, Option<Timestamp>)>> {
        let mut unit = self.store.sessions.several().await?;
        let names: Vec<&String> = queues.iter().collect();
        sqlx::query(*sql::GATES_LOCK).bind(&names).execute(&mut *unit).await?;
        let begin = sqlx::query(*sql::GATES_BEGIN).bind(self.store.sessions.clock()).fetch_one(&mut *unit).await?;
        let now = rows::instant(&begin, 0)?;
        if begin.try_get::<i64, _>(1)? != self.known.revision {
            return Ok(None);
        }
        let mut opens_at = self.look_at_marked(&mut unit, &names, now).await?;
        let mut choice = self.choice(&mut unit, queues, now).await?;
        let chosen = gate::choose(&mut choice.queues, &mut choice.lines, self.request.limit);
        let places: Vec<Place> = chosen.iter().map(|(_, place)| *place).collect();
        let rows = self.take_places(&mut unit, &places).await?;
        self.remember(&mut unit, &choice, &chosen, now).await?;
        let gate = |line: usize| Some((choice.names[choice.lines[line].queue].clone(), choice.keys[line].clone()?));
        let has_more =
            |(queue, _): &Gate, line: usize| choice.lines[line].free > 0 || self.known.limits(queue).key_rate.is_some();
        let (mut open, mut full) = (BTreeSet::new(), BTreeSet::new());
        for (line, gate) in chosen.iter().filter_map(|(line, _)| Some((*line, gate(*line)?))) {
            if has_more(&gate, line) {
                open.insert(gate)
            } else {
                full.insert(gate)
            };
        }
        close(&mut unit, &full).await?;
        opens_at = opens_at.into_iter().chain(look_at(&mut unit, self.known, &open, now).await?).min();
        let left =
            choice.lines.iter().filter(|line| !line.jobs.is_empty()).map(|line| choice.names[line.queue].as_str());
        opens_at = opens_at.into_iter().chain(self.opens_at(&mut unit, left.collect(), now).await?).min();
        unit.done().await?;
        let order: HashMap<JobId, usize> = places.iter().enumerate().map(|(place, one)| (one.id, place)).collect();
        let mut holds = claim::holds(self.store, &rows)?;
        holds.sort_by_key(|hold| order.get(&hold.attempt.job));
        let next_run_at = self.store.outlook.learn(&rows)?;
        Ok(Some((Taken { holds, next_run_at, opens_at: None }, opens_at)))
    }

    async fn look_at_marked(
        &self,
        connection: &mut PgConnection,
        queues: &[&String],
        now: Timestamp,
    ) -> sqlx::Result<Option<Timestamp>> {
        let query = sqlx::query(*sql::GATES_MARKED).bind(self.store.sessions.clock()).bind(queues).bind(LOOK_MAX_KEYS);
        let rows = query.fetch_all(&mut *connection).await?;
        let gates = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
        look_at(connection, self.known, &gates, now).await
    }

    async fn choice(
        &self,
        connection: &mut PgConnection,
        queues: &BTreeSet<String>,
        now: Timestamp,
    ) -> sqlx::Result<Choice> {
        let names: Vec<String> = [String::new()].into_iter().chain(queues.iter().cloned()).collect();
        let limited: Vec<&str> =
            queues.iter().filter(|queue| self.known.limits.contains_key(*queue)).map(String::as_str).collect();
        let mut gates = vec![QueueGate::OPEN; names.len()];
        if !limited.is_empty() {
            let passed = self.passed_queues(connection, &limited, now).await?;
            let turns =
                self.turns(connection, &limited.iter().map(|queue| (*queue, QUEUE)).collect::<Vec<_>>()).await?;
            for ((queue, passed), clock) in limited.iter().zip(passed).zip(turns) {
                let number = names.partition_point(|name| name.as_str() < *queue);
                gates[number] = QueueGate { free: self.known.limits(queue).free(&passed, now), clock };
            }
        }
        let clocks = gates.iter().map(|gate| gate.clock).collect();
        let mut choice = Choice { names, queues: gates, clocks, keys: Vec::new(), lines: Vec::new() };
        self.add_plain(connection, &mut choice).await?;
        self.add_keyed(connection, &mut choice, now).await?;
        Ok(choice)
    }

    /// Lines of jobs without a key, one for each queue that is limited, and one for those that pass no gate.
    async fn add_plain(&self, connection: &mut PgConnection, choice: &mut Choice) -> sqlx::Result<()> {
        let limited = self.lanes.iter().filter(|(_, lane)| !lane.keyed).map(|(queue, lane)| (queue.as_str(), lane));
        let lanes: HashMap<i32, (&str, &Served)> = self
            .plain
            .iter()
            .map(|lane| ("", lane))
            .chain(limited)
            .map(|(queue, lane)| (lane.number, (queue, lane)))
            .collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let (times, ids) = bounds(self.look, lanes.values().map(|(_, lane)| *lane));
        let rows = sqlx::query(*sql::GATES_PLAIN)
            .bind(lanes.keys().copied().collect::<Vec<_>>())
            .bind(times)
            .bind(ids)
            .bind(self.request.limit as i64)
            .fetch_all(&mut *connection)
            .await?;
        let mut waiting: BTreeMap<&str, Vec<(Order, Place)>> = BTreeMap::new();
        for row in &rows {
            let place = Place { lane: row.try_get(0)?, run_at: rows::instant(row, 1)?, id: job_id(row.try_get(2)?) };
            let Some((queue, lane)) = lanes.get(&place.lane) else { continue };
            waiting.entry(queue).or_default().push((order(lane, &place), place));
        }
        let shares: Vec<(&str, &str)> = waiting.keys().map(|queue| (*queue, KEYLESS)).collect();
        let turns = self.turns(connection, &shares).await?;
        for ((name, mut jobs), turn) in waiting.into_iter().zip(turns) {
            jobs.sort_unstable_by_key(|(order, _)| *order);
            let (queue, limits) = (choice.number(name), self.known.limits(name));
            let turn = turn.max(choice.queues[queue].clock);
            choice.keys.push(None);
            choice.lines.push(Line { queue, free: u32::MAX, turn, step: limits.step(None), jobs: jobs.into() });
        }
        Ok(())
    }

    /// Lines of keys that have something to start.
    async fn add_keyed(&self, connection: &mut PgConnection, choice: &mut Choice, now: Timestamp) -> sqlx::Result<()> {
        let lanes: HashMap<i32, &Served> =
            self.lanes.iter().filter(|(_, lane)| lane.keyed).map(|(_, lane)| (lane.number, lane)).collect();
        let query = sqlx::query(*sql::GATES_HEADS).bind(lanes.keys().copied().collect::<Vec<_>>());
        let rows = query.bind(self.request.limit as i64).fetch_all(&mut *connection).await?;
        let mut found: BTreeMap<Gate, (u64, Vec<i32>)> = BTreeMap::new();
        for row in &rows {
            let head = found.entry((row.try_get(1)?, row.try_get(2)?)).or_default();
            head.0 = row.try_get::<i64, _>(3)? as u64;
            head.1.push(row.try_get(0)?);
        }
        let gates: BTreeSet<Gate> = found.keys().cloned().collect();
        let passed = passed_keys(connection, self.known, &gates, now).await?;
        let (mut wanted, first) = (Wanted::default(), choice.lines.len());
        for ((number, ((name, key), (turn, lanes))), passed) in found.into_iter().enumerate().zip(passed) {
            let (queue, limits) = (choice.number(&name), self.known.limits(&name));
            let free = limits.key_free(&passed, now);
            for lane in lanes {
                wanted.add(number, &key, lane, free.min(self.request.limit as u32));
            }
            let (turn, step) = (turn.max(choice.queues[queue].clock), limits.step(Some(&key)));
            choice.keys.push(Some(key));
            choice.lines.push(Line { queue, free, turn, step, jobs: Default::default() });
        }
        for row in &wanted.read(connection).await? {
            let place = Place { lane: row.try_get(1)?, run_at: rows::instant(row, 2)?, id: job_id(row.try_get(3)?) };
            if let Some(lane) = lanes.get(&place.lane) {
                let number = first + row.try_get::<i32, _>(0)? as usize;
                choice.lines[number].jobs.push_back((order(lane, &place), place));
            }
        }
        for line in &mut choice.lines[first..] {
            line.jobs.make_contiguous().sort_unstable_by_key(|(order, _)| *order);
        }
        Ok(())
    }

    async fn take_places(
        &self,
        connection: &mut PgConnection,
        places: &[Place],
    ) -> sqlx::Result<Vec<sqlx::postgres::PgRow>> {
        let limited = self.lanes.iter().filter(|(queue, _)| self.known.guards(queue)).map(|(_, lane)| lane.number);
        sqlx::query(*sql::CLAIM_CHOSEN)
            .bind(self.store.sessions.clock())
            .bind(places.iter().map(|place| place.lane).collect::<Vec<_>>())
            .bind(places.iter().map(|place| At(place.run_at)).collect::<Vec<_>>())
            .bind(places.iter().map(|place| uuid(place.id)).collect::<Vec<_>>())
            .bind(self.request.limit as i64)
            .bind(Uuid::from_u128(self.request.worker.to_bits()))
            .bind(self.request.lease.as_micros() as i64)
            .bind(At(self.look.due_bound(self.store)))
            .bind(self.known.revision)
            .bind(limited.collect::<Vec<_>>())
            .fetch_all(connection)
            .await
    }

    /// Keeps what gates must know of what they let through, besides that it is held.
    async fn remember(
        &self,
        connection: &mut PgConnection,
        choice: &Choice,
        chosen: &[(usize, Place)],
        now: Timestamp,
    ) -> sqlx::Result<()> {
        let (mut starts, mut turns) = (BTreeMap::<(&str, &str), (Rate, i64)>::new(), BTreeMap::new());
        for (number, _) in chosen {
            let (line, key) = (&choice.lines[*number], choice.keys[*number].as_deref());
            let queue = choice.names[line.queue].as_str();
            let Some(limits) = self.known.limits.get(queue) else { continue };
            let rates = [(QUEUE, limits.rate), (key.unwrap_or(QUEUE), limits.key_rate.filter(|_| key.is_some()))];
            for (key, rate) in rates.into_iter().filter_map(|(key, rate)| Some((key, rate?))) {
                starts.entry((queue, key)).or_insert((rate, 0)).1 += 1;
            }
            if limits.fair {
                turns.insert((queue, key.unwrap_or(KEYLESS)), line.turn);
                turns.insert((queue, QUEUE), choice.queues[line.queue].clock);
            }
        }
        if !starts.is_empty() {
            sqlx::query(*sql::GATES_STARTED)
                .bind(starts.keys().map(|(queue, _)| *queue).collect::<Vec<_>>())
                .bind(starts.keys().map(|(_, key)| *key).collect::<Vec<_>>())
                .bind(starts.values().map(|(rate, _)| At(rate.moment(now))).collect::<Vec<_>>())
                .bind(starts.values().map(|(_, count)| *count).collect::<Vec<_>>())
                .bind(starts.values().map(|(rate, _)| At(rate.horizon(now))).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        if !turns.is_empty() {
            sqlx::query(*sql::GATES_TURNED)
                .bind(turns.keys().map(|(queue, _)| *queue).collect::<Vec<_>>())
                .bind(turns.keys().map(|(_, key)| *key).collect::<Vec<_>>())
                .bind(turns.values().map(|turn| *turn as i64).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        for ((queue, _), clock) in turns.iter().filter(|((_, key), _)| *key == QUEUE) {
            if gate::begins_round(choice.clocks[choice.number(queue)], *clock) {
                let forget = sqlx::query(*sql::GATES_FORGET).bind(*queue).bind(*clock as i64);
                forget.execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    /// When a rate lets more through of queues that have more.
    async fn opens_at(
        &self,
        connection: &mut PgConnection,
        queues: BTreeSet<&str>,
        now: Timestamp,
    ) -> sqlx::Result<Option<Timestamp>> {
        let rates = queues.iter().filter_map(|queue| Some((*queue, QUEUE, self.known.limits.get(*queue)?.rate?)));
        let rates: Vec<_> = rates.collect();
        let starts = starts(connection, &rates, now).await?;
        let times = rates.iter().zip(&starts).map(|((.., rate), starts)| rate.opens_at(starts, now));
        Ok(times.filter(|at| *at > now).min())
    }

    async fn passed_queues(
        &self,
        connection: &mut PgConnection,
        queues: &[&str],
        now: Timestamp,
    ) -> sqlx::Result<Vec<Passed>> {
        let rows = sqlx::query(*sql::GATES_HELD_OF_QUEUES).bind(queues).fetch_all(&mut *connection).await?;
        let running: HashMap<String, i64> =
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
        let rates = queues.iter().filter_map(|queue| Some((*queue, QUEUE, self.known.limits.get(*queue)?.rate?)));
        let rates: Vec<_> = rates.collect();
        let lately: HashMap<&str, Vec<_>> =
            rates.iter().map(|(queue, ..)| *queue).zip(starts(connection, &rates, now).await?).collect();
        let passed = |queue: &&str| Passed {
            running: running.get(*queue).copied().unwrap_or(0) as u32,
            starts: lately.get(queue).cloned().unwrap_or_default(),
        };
        Ok(queues.iter().map(passed).collect())
    }

    /// How far keys have come, where they take turns.
    async fn turns(&self, connection: &mut PgConnection, keys: &[(&str, &str)]) -> sqlx::Result<Vec<u64>> {
        turns(connection, self.known, keys).await
    }
}

/// What a gate has let through, all that is known of it.
pub(crate) async fn passed(store: &Core, queue: &str, key: Option<&str>) -> sqlx::Result<Passed> {
    let mut unit = store.sessions.single().await?;
    let held = match key {
        Some(key) => sqlx::query(*sql::GATES_HELD).bind([queue]).bind([key]),
        None => sqlx::query(*sql::GATES_HELD_OF_QUEUES).bind([queue]),
    };
    let held = held.fetch_optional(&mut *unit).await?;
    let running = held.map(|row| row.try_get::<i64, _>(1)).transpose()?.unwrap_or(0) as u32;
    let all = Rate { count: 1, period: std::time::Duration::MAX };
    let starts = starts(&mut unit, &[(queue, key.unwrap_or(QUEUE), all)], store.clock_now()).await?;
    unit.done().await?;
    Ok(Passed { running, starts: starts.into_iter().flatten().collect() })
}

/// A place's order within the claim.
fn order(lane: &Served, place: &Place) -> Order {
    Order { rank: lane.rank as u32, run_at: place.run_at, tie: place.id.to_bits() }
}

/// Jobs that a claim wants to see.
#[derive(Default)]
struct Wanted {
    numbers: Vec<i32>,
    keys: Vec<String>,
    lanes: Vec<i32>,
    counts: Vec<i64>,
}

impl Wanted {
    fn add(&mut self, number: usize, key: &str, lane: i32, count: u32) {
        if count > 0 {
            self.numbers.push(number as i32);
            self.keys.push(key.to_owned());
            self.lanes.push(lane);
            self.counts.push(i64::from(count));
        }
    }

    async fn read(self, connection: &mut PgConnection) -> sqlx::Result<Vec<sqlx::postgres::PgRow>> {
        if self.keys.is_empty() {
            return Ok(Vec::new());
        }
        let query = sqlx::query(*sql::GATES_KEYED).bind(self.numbers).bind(self.keys).bind(self.lanes);
        query.bind(self.counts).fetch_all(connection).await
    }
}

/// Looks whether keys have something to start; says when the first of those may whose rates hold them back.
async fn look_at(
    connection: &mut PgConnection,
    known: &Known,
    gates: &BTreeSet<Gate>,
    now: Timestamp,
) -> sqlx::Result<Option<Timestamp>> {
    if gates.is_empty() {
        return Ok(None);
    }
    close(connection, gates).await?;
    let passed = passed_keys(connection, known, gates, now).await?;
    let (mut open, mut marks) = (Vec::new(), Vec::new());
    for ((queue, key), passed) in gates.iter().zip(passed) {
        let limits: Limits = known.limits(queue);
        if limits.key_free(&passed, now) > 0 {
            open.push((queue.as_str(), key.as_str()));
        } else if let Some(rate) = limits.key_rate {
            // A slot that is freed leaves a mark; time does not.
            marks.push((queue, rate.opens_at(&passed.starts, now), key));
        }
    }
    marks.retain(|(_, at, _)| *at > now);
    let mut opens_at = None;
    if !marks.is_empty() {
        let rows = sqlx::query(*sql::GATES_MARK)
            .bind(marks.iter().map(|(queue, ..)| *queue).collect::<Vec<_>>())
            .bind(marks.iter().map(|(_, at, _)| At(*at)).collect::<Vec<_>>())
            .bind(marks.iter().map(|(.., key)| *key).collect::<Vec<_>>())
            .fetch_all(&mut *connection)
            .await?;
        let times = rows.iter().map(|row| rows::instant(row, 0)).collect::<sqlx::Result<Vec<_>>>()?;
        opens_at = times.into_iter().min();
    }
    if open.is_empty() {
        return Ok(opens_at);
    }
    let own = turns(connection, known, &open).await?;
    let clocks: Vec<(&str, &str)> = open.iter().map(|(queue, _)| (*queue, QUEUE)).collect();
    let clocks = turns(connection, known, &clocks).await?;
    sqlx::query(*sql::GATES_OPEN)
        .bind(open.iter().map(|(queue, _)| *queue).collect::<Vec<_>>())
        .bind(open.iter().map(|(_, key)| *key).collect::<Vec<_>>())
        .bind(own.iter().zip(&clocks).map(|(own, clock)| *own.max(clock) as i64).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(opens_at)
}

/// Keys have nothing to start, as far as known.
async fn close(connection: &mut PgConnection, gates: &BTreeSet<Gate>) -> sqlx::Result<()> {
    if gates.is_empty() {
        return Ok(());
    }
    let (queues, keys) = queues_and_keys(gates);
    sqlx::query(*sql::GATES_CLOSE).bind(queues).bind(keys).execute(connection).await.map(drop)
}

fn queues_and_keys(gates: &BTreeSet<Gate>) -> (Vec<&str>, Vec<&str>) {
    gates.iter().map(|(queue, key)| (queue.as_str(), key.as_str())).unzip()
}

/// What the gates of keys have let through, in their order.
async fn passed_keys(
    connection: &mut PgConnection,
    known: &Known,
    gates: &BTreeSet<Gate>,
    now: Timestamp,
) -> sqlx::Result<Vec<Passed>> {
    let mut passed = vec![Passed::default(); gates.len()];
    if gates.is_empty() {
        return Ok(passed);
    }
    let (queues, keys) = queues_and_keys(gates);
    for row in sqlx::query(*sql::GATES_HELD).bind(queues).bind(keys).fetch_all(&mut *connection).await? {
        passed[row.try_get::<i64, _>(0)? as usize - 1].running = row.try_get::<i64, _>(1)? as u32;
    }
    let rated = gates.iter().enumerate().filter_map(|(number, (queue, key))| {
        Some((number, (queue.as_str(), key.as_str(), known.limits.get(queue)?.key_rate?)))
    });
    let (numbers, rates): (Vec<usize>, Vec<_>) = rated.unzip();
    for (number, starts) in numbers.into_iter().zip(starts(connection, &rates, now).await?) {
        passed[number].starts = starts;
    }
    Ok(passed)
}

/// What gates have started lately, in their order.
async fn starts(
    connection: &mut PgConnection,
    gates: &[(&str, &str, Rate)],
    now: Timestamp,
) -> sqlx::Result<Vec<Vec<(Timestamp, u32)>>> {
    let mut starts = vec![Vec::new(); gates.len()];
    if gates.is_empty() {
        return Ok(starts);
    }
    let rows = sqlx::query(*sql::GATES_STARTS)
        .bind(gates.iter().map(|(queue, ..)| *queue).collect::<Vec<_>>())
        .bind(gates.iter().map(|(_, key, _)| *key).collect::<Vec<_>>())
        .bind(gates.iter().map(|(.., rate)| At(rate.horizon(now))).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    for row in &rows {
        let start = (rows::instant(row, 1)?, row.try_get::<i64, _>(2)? as u32);
        starts[row.try_get::<i64, _>(0)? as usize - 1].push(start);
    }
    Ok(starts)
}

/// How far keys have come, in their order; nowhere if they take no turns.
async fn turns(connection: &mut PgConnection, known: &Known, keys: &[(&str, &str)]) -> sqlx::Result<Vec<u64>> {
    let mut turns = vec![0; keys.len()];
    let fair =
        keys.iter().enumerate().filter(|(_, (queue, _))| known.limits.get(*queue).is_some_and(|limits| limits.fair));
    let (numbers, keys): (Vec<usize>, Vec<&(&str, &str)>) = fair.unzip();
    if keys.is_empty() {
        return Ok(turns);
    }
    let (queues, keys): (Vec<&str>, Vec<&str>) = keys.into_iter().copied().unzip();
    for row in sqlx::query(*sql::GATES_TURNS).bind(queues).bind(keys).fetch_all(connection).await? {
        turns[numbers[row.try_get::<i64, _>(0)? as usize - 1]] = row.try_get::<i64, _>(1)? as u64;
    }
    Ok(turns)
}
