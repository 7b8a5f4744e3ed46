//! What `punctual doctor` looks at in a SQLite file.

use std::collections::BTreeMap;

use punctual_core::Finding;
use rusqlite::Connection;

use super::Options;

/// Looks for damage and bad settings.
pub(crate) fn examine(connection: &Connection, options: &Options) -> rusqlite::Result<Vec<Finding>> {
    Ok(vec![
        integrity(connection)?,
        journal(connection)?,
        counters(connection)?,
        places(connection)?,
        stories(connection)?,
        log_size(options),
    ])
}

fn finding(check: &str, ok: bool, message: impl Into<String>) -> Finding {
    Finding { check: check.into(), ok, message: message.into() }
}

fn integrity(connection: &Connection) -> rusqlite::Result<Finding> {
    let said: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    let ok = said == "ok";
    let message = if ok { "the file is sound".to_owned() } else { format!("{said}; restore a backup") };
    Ok(finding("integrity", ok, message))
}

fn journal(connection: &Connection) -> rusqlite::Result<Finding> {
    let mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    let ok = mode == "wal";
    let message = if ok {
        "write-ahead log".to_owned()
    } else {
        format!("{mode} instead of wal: slow; is it on a network drive?")
    };
    Ok(finding("journal", ok, message))
}

/// The counters must equal what they count.
fn counters(connection: &Connection) -> rusqlite::Result<Finding> {
    let read = |sql: &str| -> rusqlite::Result<BTreeMap<(String, String, String), i64>> {
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?)))?;
        rows.collect()
    };
    let kept = read("select queue, name, status, n from punctual_counts where n <> 0")?;
    let true_ones = read("select queue, name, status, count(*) from punctual_jobs_now group by queue, name, status")?;
    let users = |sql: &str| -> rusqlite::Result<BTreeMap<(String, String), i64>> {
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
        rows.collect()
    };
    let pending = users("select user_id, name, n from punctual_pending")?;
    let truly_pending = users(
        "select user_id, name, count(*) from punctual_jobs where user_id is not null and finished_at is null
         group by user_id, name",
    )?;
    let ok = kept == true_ones && pending == truly_pending;
    let message = if ok {
        format!("{} jobs, as counted", true_ones.values().sum::<i64>())
    } else {
        let wrong = true_ones.iter().filter(|(key, count)| kept.get(*key) != Some(count)).count();
        format!("{wrong} of {} counters are wrong; was the file edited by hand?", true_ones.len())
    };
    Ok(finding("counters", ok, message))
}

/// Every unfinished job must stand where claims find it.
fn places(connection: &Connection) -> rusqlite::Result<Finding> {
    let misplaced: i64 = connection.query_row(
        "select
            (select count(*) from punctual_jobs_now j where j.status = 'queued' and not exists (select 1 from punctual_ready r
                where r.queue = j.queue and r.name = j.name and r.priority = j.priority and r.run_at = j.run_at and r.job = j.seq
                    and j.extras ->> 'concurrency_key' is null)
                and not exists (select 1 from punctual_keyed k where k.queue = j.queue and k.key = j.extras ->> 'concurrency_key'
                    and k.name = j.name and k.priority = j.priority and k.run_at = j.run_at and k.job = j.seq))
          + (select count(*) from punctual_keyed k left join punctual_jobs j on j.seq = k.job where j.status is not 'queued')
          -- A key that waits must be known to claims: by its first job, by a mark, or because it is held back until one of its jobs ends.
          + (select count(*) from (select distinct queue, key from punctual_keyed) k
                where not exists (select 1 from punctual_heads h where h.queue = k.queue and h.key = k.key)
                    and not exists (select 1 from punctual_marks m where m.queue = k.queue and m.key = k.key)
                    and not exists (select 1 from punctual_running r where r.queue = k.queue and r.gate = k.key))
          + (select count(*) from punctual_heads h where not exists (select 1 from punctual_marks m
                    where m.queue = h.queue and m.key = h.key)
                and not exists (select 1 from punctual_keyed k where k.job = h.job and k.queue = h.queue and k.key = h.key))
          + (select count(*) from punctual_jobs_now j where j.status in ('scheduled', 'retrying') and not exists
                (select 1 from punctual_due d where d.run_at = j.run_at and d.job = j.seq))
          + (select count(*) from punctual_jobs j where j.status = 'waiting' and not exists
                (select 1 from punctual_waiting w where w.run_at = j.run_at and w.job = j.seq))
          + (select count(*) from punctual_waiting w left join punctual_jobs j on j.seq = w.job where j.status is not 'waiting')
          + (select count(*) from punctual_jobs j where j.status = 'waiting' and j.waiting_on <>
                (select count(*) from punctual_dependencies d where d.child = j.seq and d.succeeded is null))
          + (select count(*) from punctual_dependencies d left join punctual_jobs p on p.seq = d.parent
                left join punctual_jobs c on c.seq = d.child
                where p.seq is null or c.seq is null
                    or (d.succeeded is null and c.status = 'waiting' and (p.flow = 0 or p.status in ('succeeded', 'deleted'))))
          + (select count(*) from punctual_nodes n left join punctual_jobs j on j.seq = n.job where j.seq is null)
          + (select count(*) from punctual_ready r left join punctual_jobs j on j.seq = r.job where j.status is not 'queued')
          + (select count(*) from punctual_due d left join punctual_jobs j on j.seq = d.job
                where j.status is null or j.status not in ('scheduled', 'retrying'))
          + (select count(*) from punctual_jobs j where j.status = 'deleted' and not exists
                (select 1 from punctual_deleted d where d.deleted_at = j.updated_at and d.job = j.seq))
          + (select count(*) from punctual_deleted d left join punctual_jobs j on j.seq = d.job where j.status is not 'deleted')
          + (select count(*) from punctual_jobs j where j.status = 'dead' and not exists
                (select 1 from punctual_dead d where d.died_at = j.finished_at and d.job = j.seq and d.name = j.name))
          + (select count(*) from punctual_dead d left join punctual_jobs j on j.seq = d.job where j.status is not 'dead')
          + (select count(*) from punctual_kept k left join punctual_jobs j on j.seq = k.job
                where j.finished_at + j.keep_for_ms * 1000 is not k.expires_at)
          + (select count(*) from punctual_labels l left join punctual_jobs j on j.seq = l.job where j.id is not l.id)
          + (select count(*) from punctual_ephemeral e left join punctual_jobs j on j.seq = e.job where j.ephemeral is not 1)
          + (select count(*) from punctual_keys k left join punctual_jobs j on j.seq = k.job where j.unique_key is not k.key)
          + (select count(*) from punctual_running r where not exists (select 1 from punctual_jobs j where j.seq = r.job))",
        [],
        |row| row.get(0),
    )?;
    let ok = misplaced == 0;
    let message = if ok {
        "every job stands in its place".to_owned()
    } else {
        format!("{misplaced} jobs stand in a wrong place")
    };
    Ok(finding("places", ok, message))
}

/// Every event must be found from its job's last one.
fn stories(connection: &Connection) -> rusqlite::Result<Finding> {
    let broken: i64 = connection.query_row(
        "select
            (select count(*) from punctual_jobs_now j left join punctual_events e on e.seq = j.last_event
                where e.job is not j.seq)
          + (select count(*) from punctual_events e left join punctual_events p on p.seq = e.previous
                where e.previous is not null and p.job is not e.job)
          + abs((select count(*) from punctual_jobs) - (select count(*) from punctual_events where previous is null))",
        [],
        |row| row.get(0),
    )?;
    let ok = broken == 0;
    let message = if ok { "every job has its whole story".to_owned() } else { format!("{broken} stories are broken") };
    Ok(finding("events", ok, message))
}

fn log_size(options: &Options) -> Finding {
    const LOG_MAX_BYTES: u64 = 256 << 20;
    let mut path = options.path.clone().into_os_string();
    path.push("-wal");
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    let ok = bytes <= LOG_MAX_BYTES;
    let hint = if ok { "" } else { "; a long read or a stuck process keeps it from being folded in" };
    finding("log", ok, format!("the write-ahead log has {} MiB{hint}", bytes >> 20))
}
