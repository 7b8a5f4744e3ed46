//! The usage of limits, keys that may start a job, and the turns of keys in fair queues.

use std::collections::BTreeSet;

use punctual_core::{
    Queue, Rate, Timestamp,
    limiter::{KeyState, LimitUsage},
};
use sqlx::{PgConnection, Row};

use super::{
    super::{
        core::Core,
        queues::{self, QueueSnapshot},
        rows, statements as sql,
        value::At,
    },
    Key, QUEUE,
};

/// The usage of a limit, with all recorded starts.
pub(crate) async fn usage_of(store: &Core, queue: &str, key: Option<&str>) -> sqlx::Result<LimitUsage> {
    let mut unit = store.sessions.single().await?;
    let held = match key {
        Some(key) => sqlx::query(*sql::HELD_OF_KEYS).bind([queue]).bind([key]),
        None => sqlx::query(*sql::HELD_OF_QUEUES).bind([queue]),
    };
    let held = held.bind(At(store.clock_now())).fetch_optional(&mut *unit).await?;
    let running = held.map(|row| row.try_get::<i64, _>(1)).transpose()?.unwrap_or(0) as u32;
    let all = Rate { count: 1, period: std::time::Duration::MAX };
    let starts = starts(&mut unit, &[(queue, key.unwrap_or(QUEUE), all)], store.clock_now()).await?;
    unit.done().await?;
    Ok(LimitUsage { running, starts: starts.into_iter().flatten().collect() })
}

/// Removes rows that limits no longer need.
pub(crate) async fn prune(connection: &mut PgConnection, now: Timestamp, limit: usize) -> sqlx::Result<()> {
    let queues = queues::read(connection).await?;
    // The rows of a queue whose settings cannot be read may still be needed.
    let is_unreadable = |queue: &Queue| queue.settings.unreadable.is_some();
    let horizon = |queue: &Queue| {
        if is_unreadable(queue) { Some(Timestamp::MIN) } else { queue.settings.limits.horizon(now) }
    };
    let horizons = queues.iter().filter_map(|queue| Some((queue.name.as_str(), At(horizon(queue)?))));
    let (names, horizons): (Vec<&str>, Vec<At>) = horizons.unzip();
    let fair = queues.iter().filter(|queue| queue.settings.limits.fair || is_unreadable(queue));
    let fair = fair.map(|queue| queue.name.as_str());
    sqlx::query(*sql::PRUNE_LIMITS)
        .bind(limit as i64)
        .bind(names)
        .bind(horizons)
        .bind(fair.collect::<Vec<_>>())
        .bind(At(now))
        .execute(connection)
        .await
        .map(drop)
}

/// Evaluates whether keys may start a job; returns when the first of those that their rates hold back may.
pub(super) async fn evaluate(
    connection: &mut PgConnection,
    known: &QueueSnapshot,
    keys: &BTreeSet<Key<'_>>,
    now: Timestamp,
) -> sqlx::Result<Option<Timestamp>> {
    if keys.is_empty() {
        return Ok(None);
    }
    close(connection, keys).await?;
    let usages = key_usages(connection, known, keys, now).await?;
    let (mut open, mut wakeups) = (Vec::new(), Vec::new());
    for ((queue, key), usage) in keys.iter().zip(usages) {
        match known.limits(queue).key_state(&usage, now) {
            KeyState::Open => open.push((*queue, *key)),
            KeyState::OpensAt(at) => wakeups.push((*queue, at, *key)),
            KeyState::Full => {}
        }
    }
    let mut opens_at = None;
    if !wakeups.is_empty() {
        let rows = sqlx::query(*sql::INSERT_WAKEUPS)
            .bind(wakeups.iter().map(|(queue, ..)| *queue).collect::<Vec<_>>())
            .bind(wakeups.iter().map(|(_, at, _)| At(*at)).collect::<Vec<_>>())
            .bind(wakeups.iter().map(|(.., key)| *key).collect::<Vec<_>>())
            .fetch_all(&mut *connection)
            .await?;
        let times = rows.iter().map(|row| rows::instant(row, 0)).collect::<sqlx::Result<Vec<_>>>()?;
        opens_at = times.into_iter().min();
    }
    if open.is_empty() {
        return Ok(opens_at);
    }
    let own = turns(connection, known, &open).await?;
    let clocks: Vec<Key<'_>> = open.iter().map(|(queue, _)| (*queue, QUEUE)).collect();
    let clocks = turns(connection, known, &clocks).await?;
    sqlx::query(*sql::INSERT_HEADS)
        .bind(open.iter().map(|(queue, _)| *queue).collect::<Vec<_>>())
        .bind(open.iter().map(|(_, key)| *key).collect::<Vec<_>>())
        .bind(own.iter().zip(&clocks).map(|(own, clock)| *own.max(clock) as i64).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(opens_at)
}

/// Removes keys from those that may start a job.
pub(super) async fn close(connection: &mut PgConnection, keys: &BTreeSet<Key<'_>>) -> sqlx::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let (queues, names) = queues_and_keys(keys);
    sqlx::query(*sql::DELETE_HEADS).bind(queues).bind(names).execute(connection).await.map(drop)
}

fn queues_and_keys<'k>(keys: &BTreeSet<Key<'k>>) -> (Vec<&'k str>, Vec<&'k str>) {
    keys.iter().copied().unzip()
}

/// The usage of the limits of keys, in their order.
pub(super) async fn key_usages(
    connection: &mut PgConnection,
    known: &QueueSnapshot,
    keys: &BTreeSet<Key<'_>>,
    now: Timestamp,
) -> sqlx::Result<Vec<LimitUsage>> {
    let mut usages = vec![LimitUsage::default(); keys.len()];
    if keys.is_empty() {
        return Ok(usages);
    }
    let (queues, names) = queues_and_keys(keys);
    for row in
        sqlx::query(*sql::HELD_OF_KEYS).bind(queues).bind(names).bind(At(now)).fetch_all(&mut *connection).await?
    {
        usages[row.try_get::<i64, _>(0)? as usize - 1].running = row.try_get::<i64, _>(1)? as u32;
    }
    let rated = keys
        .iter()
        .enumerate()
        .filter_map(|(number, (queue, key))| Some((number, (*queue, *key, known.limits.get(*queue)?.key_rate?))));
    let (numbers, rates): (Vec<usize>, Vec<_>) = rated.unzip();
    for (number, starts) in numbers.into_iter().zip(starts(connection, &rates, now).await?) {
        usages[number].starts = starts;
    }
    Ok(usages)
}

/// Recent starts of limits, in their order.
pub(super) async fn starts(
    connection: &mut PgConnection,
    limits: &[(&str, &str, Rate)],
    now: Timestamp,
) -> sqlx::Result<Vec<Vec<(Timestamp, u32)>>> {
    let mut starts = vec![Vec::new(); limits.len()];
    if limits.is_empty() {
        return Ok(starts);
    }
    let rows = sqlx::query(*sql::STARTS)
        .bind(limits.iter().map(|(queue, ..)| *queue).collect::<Vec<_>>())
        .bind(limits.iter().map(|(_, key, _)| *key).collect::<Vec<_>>())
        .bind(limits.iter().map(|(.., rate)| At(rate.horizon(now))).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    for row in &rows {
        let start = (rows::instant(row, 1)?, row.try_get::<i64, _>(2)? as u32);
        starts[row.try_get::<i64, _>(0)? as usize - 1].push(start);
    }
    Ok(starts)
}

/// The turns of keys, in their order; 0 for keys of queues that are not fair.
pub(super) async fn turns(
    connection: &mut PgConnection,
    known: &QueueSnapshot,
    keys: &[Key<'_>],
) -> sqlx::Result<Vec<u64>> {
    let mut turns = vec![0; keys.len()];
    let fair =
        keys.iter().enumerate().filter(|(_, (queue, _))| known.limits.get(*queue).is_some_and(|limits| limits.fair));
    let (numbers, keys): (Vec<usize>, Vec<&Key<'_>>) = fair.unzip();
    if keys.is_empty() {
        return Ok(turns);
    }
    let (queues, keys): (Vec<&str>, Vec<&str>) = keys.into_iter().copied().unzip();
    for row in sqlx::query(*sql::TURNS).bind(queues).bind(keys).fetch_all(connection).await? {
        turns[numbers[row.try_get::<i64, _>(0)? as usize - 1]] = row.try_get::<i64, _>(1)? as u64;
    }
    Ok(turns)
}
