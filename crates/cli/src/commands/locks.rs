//! `punctual locks`: lists and releases locks.

use anyhow::Result;
use serde_json::json;

use crate::{
    args::Cli,
    commands::print_json,
    config::{Config, actor},
    exit::Usage,
    format::{self, DIM},
    table::{Cell, Table},
};

pub(crate) async fn run(cli: &Cli, config: &Config, free: Option<&str>) -> Result<()> {
    let punctual = config.connect(cli).await?;
    let admin = punctual.admin(actor());
    if let Some(name) = free {
        if !admin.unlock(name).await? {
            return Err(Usage(format!("lock {name} is not held")).into());
        }
        println!("{name} is free");
        return Ok(());
    }
    let locks = admin.locks().await?;
    if cli.json {
        return print_json(&json!({ "locks": locks }));
    }
    if locks.is_empty() {
        anstream::println!("{DIM}no lock is held{DIM:#}");
        return Ok(());
    }
    let now = punctual.store().now();
    let mut table = Table::new(["NAME", "OWNER", "TOKEN", "EXPIRES"]);
    for lock in locks {
        table.row([
            Cell::new(lock.name),
            Cell::new(lock.owner),
            Cell::number(lock.token),
            Cell::right(format::relative(lock.expires_at, now)),
        ]);
    }
    table.print();
    Ok(())
}
