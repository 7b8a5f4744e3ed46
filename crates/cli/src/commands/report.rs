//! `punctual report`: reports on many jobs.

use anyhow::Result;
use serde_json::json;

use crate::{
    administer::{Administer, Bounds},
    args::{Cli, Period, Report},
    commands::jobs::print_jobs,
    config::Config,
    format::{self, DIM},
    output::print_json,
    table::{Cell, Table},
    target,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Report) -> Result<()> {
    let admin = &*target::administer(cli, config).await?;
    match args {
        Report::Failures(period) => failures(cli, admin, bounds(admin, period)).await,
        Report::Stuck { longer_than } => {
            let stuck = admin.stuck(longer_than.0).await?;
            if cli.json {
                return print_json(&json!({ "jobs": stuck }));
            }
            if stuck.is_empty() {
                return nothing("no long-running jobs");
            }
            print_jobs(&stuck, admin.now());
            Ok(())
        }
        Report::Pending => pending(cli, admin).await,
        Report::Success(period) => success(cli, admin, bounds(admin, period)).await,
        Report::Durations(period) => durations(cli, admin, bounds(admin, period)).await,
    }
}

fn bounds(admin: &dyn Administer, period: &Period) -> Bounds {
    let now = admin.now();
    (period.since.from(now), period.until.from(now))
}

fn nothing(what: &str) -> Result<()> {
    anstream::println!("{DIM}{what}{DIM:#}");
    Ok(())
}

async fn failures(cli: &Cli, admin: &dyn Administer, bounds: Bounds) -> Result<()> {
    let report = admin.failures(bounds).await?;
    if cli.json {
        let by_name: Vec<_> =
            report.by_name.iter().map(|(name, count)| json!({"name": name, "count": count})).collect();
        return print_json(&json!({"by_name": by_name, "latest": report.latest}));
    }
    if report.by_name.is_empty() {
        return nothing("no dead jobs in that period, or all were retried");
    }
    let mut table = Table::new(["NAME", "DEAD"]);
    for (name, count) in report.by_name {
        table.row([Cell::new(name), Cell::number(count)]);
    }
    table.print();
    println!();
    print_jobs(&report.latest, admin.now());
    Ok(())
}

async fn pending(cli: &Cli, admin: &dyn Administer) -> Result<()> {
    let rows = admin.pending().await?;
    if cli.json {
        return print_json(&json!({ "pending": rows }));
    }
    if rows.is_empty() {
        return nothing("no pending jobs");
    }
    let mut table = Table::new(["USER", "NAME", "JOBS"]);
    for row in rows {
        table.row([Cell::new(row.user_id.unwrap_or_else(|| "–".into())), Cell::new(row.name), Cell::number(row.count)]);
    }
    table.print();
    Ok(())
}

async fn success(cli: &Cli, admin: &dyn Administer, bounds: Bounds) -> Result<()> {
    let rows = admin.success_rates(bounds).await?;
    if cli.json {
        return print_json(&json!({ "names": rows }));
    }
    if rows.is_empty() {
        return nothing("no job finished in that period");
    }
    let mut table = Table::new(["NAME", "SUCCEEDED", "DIED", "FAILED ATTEMPTS", "SUCCESS"]);
    for row in rows {
        table.row([
            Cell::new(row.name),
            Cell::number(row.succeeded),
            Cell::number(row.died),
            Cell::number(row.failed_attempts),
            Cell::right(format!("{:.2} %", row.success_percent)),
        ]);
    }
    table.print();
    Ok(())
}

async fn durations(cli: &Cli, admin: &dyn Administer, bounds: Bounds) -> Result<()> {
    let rows = admin.durations(bounds).await?;
    if cli.json {
        return print_json(&json!({ "names": rows }));
    }
    if rows.is_empty() {
        return nothing("no attempt finished in that period");
    }
    let millis = |ms: f64| Cell::right(format::in_words(std::time::Duration::from_secs_f64(ms / 1e3)));
    let mut table = Table::new(["NAME", "ATTEMPTS", "DURATION P50", "P95", "P99", "LATENESS P50", "P95", "P99"]);
    for row in rows {
        let ([a, b, c], [d, e, f]) = (row.took_ms.map(millis), row.late_ms.map(millis));
        table.row([Cell::new(row.name), Cell::number(row.attempts), a, b, c, d, e, f]);
    }
    table.print();
    Ok(())
}
