//! `punctual stats`: job counts.

use anyhow::Result;
use punctual::Status;

use crate::{
    args::Cli,
    config::Config,
    format::{self, DIM},
    output::print_json,
    table::{Cell, Table},
    target,
};

/// The status columns of the table by queue.
const SHOWN: [Status; 6] =
    [Status::Scheduled, Status::Queued, Status::Processing, Status::Retrying, Status::Succeeded, Status::Dead];

pub(crate) async fn run(cli: &Cli, config: &Config) -> Result<()> {
    let overview = target::administer(cli, config).await?.overview().await?;
    if cli.json {
        return print_json(&overview);
    }
    let mut table = Table::new(["STATUS", "JOBS"]);
    for (status, count) in &overview.jobs {
        table.row([Cell::status(*status), Cell::number(*count)]);
    }
    table.print();
    if !overview.queues.is_empty() {
        println!();
        let mut table = Table::new(["QUEUE", "SCHEDULED", "QUEUED", "PROCESSING", "RETRYING", "SUCCEEDED", "DEAD"]);
        for (queue, counts) in &overview.queues {
            let [a, b, c, d, e, f] = SHOWN.map(|status| Cell::number(counts.get(&status).copied().unwrap_or(0)));
            table.row([Cell::new(queue.clone()), a, b, c, d, e, f]);
        }
        table.print();
    }
    let workers = if overview.workers == 1 { "worker" } else { "workers" };
    anstream::println!("\n{DIM}{} live {workers}{DIM:#}", format::number(overview.workers));
    Ok(())
}
