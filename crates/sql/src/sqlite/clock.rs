//! One clock for all processes of a file, and the correction of clock steps.
//!
//! The store's time is the machine's clock, so that a job for 09:00 starts at 09:00. Leases, locks and retries,
//! however, are durations that are stored as times of that clock. The file stores the offset of the clock from the
//! machine's uptime, which cannot be set. A transaction that finds another offset has detected a step, and moves these
//! times by the size of the step. See docs/adr/0023.

use punctual_core::{Clock, ClockStep, Steady, SystemClock, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

/// Smaller changes of the offset are no steps: the two clocks are read one after the other, and small corrections are
/// made all the time.
const STEP_MIN_MICROS: u64 = 2_000_000;

/// Moves the times that were stored as durations from the time of writing. Start times that were requested and times of
/// past events stay unchanged.
const MOVE: &[&str] = &[
    "update punctual_running set lease_until = lease_until + ?1",
    "update punctual_occupied_slots set lease_until = lease_until + ?1",
    "update punctual_locks set expires_at = expires_at + ?1",
    "update punctual_workers set started_at = started_at + ?1, seen_at = seen_at + ?1",
    // Retries and snoozes: all due jobs whose time differs from the requested one.
    "update or replace punctual_due set run_at = run_at + ?1
     where job in (select d.job from punctual_due d join punctual_jobs j on j.seq = d.job where j.run_at <> j.scheduled_at)",
    "update punctual_jobs set run_at = run_at + ?1
     where run_at <> scheduled_at and seq in (select job from punctual_due)",
    "update or replace punctual_limit_wakeups set at = at + ?1",
    "update or replace punctual_limit_starts set at = at + ?1",
];

/// The machine's clock, and its uptime.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineClock {
    epoch: Option<u128>,
}

impl MachineClock {
    pub(super) fn new() -> Self {
        Self { epoch: epoch() }
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn steady(&self) -> Option<Steady> {
        Some(Steady { epoch: self.epoch?, elapsed: since_start()? })
    }
}

/// Identifies the boot of the machine. A container may have an uptime of its own, which cannot be compared with the
/// machine's, so its time namespace is part of the identifier.
#[cfg(target_os = "linux")]
fn epoch() -> Option<u128> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let digits: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Some(boot ^ digits.parse::<u128>().unwrap_or_default())
}

#[cfg(not(target_os = "linux"))]
fn epoch() -> Option<u128> {
    None
}

/// The uptime including time asleep, as the machine's clock also advances during sleep.
#[cfg(target_os = "linux")]
fn since_start() -> Option<std::time::Duration> {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_BOOTTIME).ok().map(Into::into)
}

#[cfg(not(target_os = "linux"))]
fn since_start() -> Option<std::time::Duration> {
    None
}

/// The offset of the clock from the machine's uptime, in microseconds.
fn offset(now: Timestamp, steady: Steady) -> i64 {
    now.as_micros() - steady.elapsed.as_micros() as i64
}

/// The offset stored in the file, if it is from the same boot.
fn kept(connection: &Connection, steady: Steady) -> rusqlite::Result<Option<i64>> {
    let mut read = connection.prepare_cached("select epoch, offset_micros from punctual_clock")?;
    let kept = read.query_row([], |row| Ok((row.get::<_, [u8; 16]>(0)?, row.get(1)?))).optional()?;
    Ok(kept.filter(|(epoch, _)| *epoch == steady.epoch.to_be_bytes()).map(|(_, offset)| offset))
}

/// The step of the clock since the last transaction, in microseconds, if there was one.
fn step(connection: &Connection, now: Timestamp, steady: Steady) -> rusqlite::Result<Option<i64>> {
    let by = kept(connection, steady)?.map(|kept| offset(now, steady) - kept);
    Ok(by.filter(|by| by.unsigned_abs() > STEP_MIN_MICROS))
}

/// The time of a transaction that has just begun. If the clock has stepped, moves the stored times first.
pub(super) fn now(transaction: &Connection, clock: &dyn Clock) -> rusqlite::Result<Timestamp> {
    let now = clock.now();
    let Some(steady) = clock.steady() else { return Ok(now) };
    if kept(transaction, steady)?.is_none() {
        begin(transaction, now, steady)?;
    } else if let Some(by) = step(transaction, now, steady)? {
        repair(transaction, now, steady, by)?;
    }
    Ok(now)
}

/// Stores the offset without a comparison, because the machine was rebooted, or the file is new or from another
/// machine.
fn begin(transaction: &Connection, now: Timestamp, steady: Steady) -> rusqlite::Result<()> {
    let keep = "insert into punctual_clock (only_one, epoch, offset_micros) values (1, ?1, ?2)
        on conflict (only_one) do update set epoch = excluded.epoch, offset_micros = excluded.offset_micros";
    transaction.execute(keep, params![steady.epoch.to_be_bytes(), offset(now, steady)])?;
    Ok(())
}

fn repair(transaction: &Connection, now: Timestamp, steady: Steady, by: i64) -> rusqlite::Result<()> {
    for statement in MOVE {
        transaction.execute(statement, params![by])?;
    }
    let keep = "update punctual_clock set offset_micros = ?1, stepped_at = ?2, step_micros = ?3";
    transaction.execute(keep, params![offset(now, steady), now.as_micros(), by])?;
    let step = ClockStep { at: now, micros: by };
    tracing::warn!(step_ms = by / 1_000, "{step}; leases, locks and retries were shifted by the same amount");
    Ok(())
}

/// The last step that was corrected, or one that no transaction has detected yet.
pub(super) fn last_step(connection: &Connection, clock: &dyn Clock) -> rusqlite::Result<Option<ClockStep>> {
    let now = clock.now();
    let unnoticed = clock.steady().map(|steady| step(connection, now, steady)).transpose()?.flatten();
    if let Some(micros) = unnoticed {
        return Ok(Some(ClockStep { at: now, micros }));
    }
    let read = "select stepped_at, step_micros from punctual_clock where stepped_at is not null";
    let step = |row: &rusqlite::Row<'_>| Ok(ClockStep { at: Timestamp::from_micros(row.get(0)?), micros: row.get(1)? });
    connection.query_row(read, [], step).optional()
}
