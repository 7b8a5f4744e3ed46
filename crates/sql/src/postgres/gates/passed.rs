//! What gates have let through, which keys have something to start, and how far those have come that take turns.

use std::collections::BTreeSet;

use punctual_core::{Rate, Timestamp, gate::LimitUsage};
use sqlx::{PgConnection, Row};

use super::{
    super::{
        core::Core,
        queues::{self, Known},
        rows, statements as sql,
        value::At,
    },
    Gate, QUEUE,
};

/// What a gate has let through, all that is known of it.
pub(crate) async fn passed(store: &Core, queue: &str, key: Option<&str>) -> sqlx::Result<LimitUsage> {
    let mut unit = store.sessions.single().await?;
    let held = match key {
        Some(key) => sqlx::query(*sql::GATES_HELD).bind([queue]).bind([key]),
        None => sqlx::query(*sql::GATES_HELD_OF_QUEUES).bind([queue]),
    };
    let held = held.bind(At(store.clock_now())).fetch_optional(&mut *unit).await?;
    let running = held.map(|row| row.try_get::<i64, _>(1)).transpose()?.unwrap_or(0) as u32;
    let all = Rate { count: 1, period: std::time::Duration::MAX };
    let starts = starts(&mut unit, &[(queue, key.unwrap_or(QUEUE), all)], store.clock_now()).await?;
    unit.done().await?;
    Ok(LimitUsage { running, starts: starts.into_iter().flatten().collect() })
}

/// Removes what gates need not remember any more.
pub(crate) async fn trim(connection: &mut PgConnection, now: Timestamp, limit: usize) -> sqlx::Result<()> {
    let queues = queues::read(connection).await?;
    let horizons = queues.iter().filter_map(|queue| Some((queue.name.as_str(), queue.settings.limits.horizon(now)?)));
    let (names, horizons): (Vec<&str>, Vec<At>) = horizons.map(|(name, at)| (name, At(at))).unzip();
    let fair = queues.iter().filter(|queue| queue.settings.limits.fair).map(|queue| queue.name.as_str());
    sqlx::query(*sql::GATES_TRIM)
        .bind(limit as i64)
        .bind(names)
        .bind(horizons)
        .bind(fair.collect::<Vec<_>>())
        .bind(At(now))
        .execute(connection)
        .await
        .map(drop)
}

/// Looks whether keys have something to start; says when the first of those may whose rates hold them back.
pub(super) async fn look_at(
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
        let limits = known.limits(queue);
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
pub(super) async fn close(connection: &mut PgConnection, gates: &BTreeSet<Gate>) -> sqlx::Result<()> {
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
pub(super) async fn passed_keys(
    connection: &mut PgConnection,
    known: &Known,
    gates: &BTreeSet<Gate>,
    now: Timestamp,
) -> sqlx::Result<Vec<LimitUsage>> {
    let mut passed = vec![LimitUsage::default(); gates.len()];
    if gates.is_empty() {
        return Ok(passed);
    }
    let (queues, keys) = queues_and_keys(gates);
    for row in sqlx::query(*sql::GATES_HELD).bind(queues).bind(keys).bind(At(now)).fetch_all(&mut *connection).await? {
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
pub(super) async fn starts(
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
pub(super) async fn turns(
    connection: &mut PgConnection,
    known: &Known,
    keys: &[(&str, &str)],
) -> sqlx::Result<Vec<u64>> {
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
