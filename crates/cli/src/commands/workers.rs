//! `punctual workers list`: lists workers.

use anyhow::Result;
use punctual::admin::is_live;
use serde_json::json;

use crate::{
    args::Cli,
    config::Config,
    format::{self, DIM},
    output::print_json,
    table::{Cell, Table},
    target,
};

pub(crate) async fn run(cli: &Cli, config: &Config) -> Result<()> {
    let admin = target::administer(cli, config).await?;
    let workers = admin.workers().await?;
    if cli.json {
        return print_json(&json!({ "workers": workers }));
    }
    if workers.is_empty() {
        anstream::println!("{DIM}no workers; start one with: punctual work{DIM:#}");
        return Ok(());
    }
    let now = admin.now();
    let mut table = Table::new(["ID", "HOST", "PID", "QUEUES", "RUNNING", "SLOTS", "STARTED", "LAST SEEN"])
        .optional(&["STARTED", "SLOTS", "PID", "QUEUES"]);
    for worker in workers {
        let queues =
            if worker.heartbeat.queues.is_empty() { "all".to_owned() } else { worker.heartbeat.queues.join(",") };
        let seen = format::relative(worker.seen_at, now);
        let seen = if is_live(&worker, now) { seen } else { format!("{seen}, lost") };
        table.row([
            Cell::new(worker.heartbeat.id.to_string()),
            Cell::new(worker.heartbeat.host.clone()),
            Cell::right(worker.heartbeat.pid.to_string()),
            Cell::new(queues),
            Cell::number(u64::from(worker.heartbeat.running)),
            Cell::number(u64::from(worker.heartbeat.concurrency)),
            Cell::right(format::relative(worker.started_at, now)),
            Cell::right(seen),
        ]);
    }
    table.print();
    Ok(())
}
