//! `punctual locks`: lists and releases locks.

use anyhow::Result;
use serde_json::json;

use crate::{
    administer::Administer,
    args::{Cli, LocksCommand},
    config::Config,
    exit::NotFound,
    format::{self, DIM},
    output::{print_json, print_result},
    table::{Cell, Table},
    target,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &LocksCommand) -> Result<()> {
    let admin = target::administer(cli, config).await?;
    match args {
        LocksCommand::List => list(cli, &*admin).await,
        LocksCommand::Release { name } => release(cli, &*admin, name).await,
    }
}

async fn release(cli: &Cli, admin: &dyn Administer, name: &str) -> Result<()> {
    if !admin.unlock(name).await? {
        return Err(NotFound(format!("lock {name} is not held; `punctual locks list` lists those that are")).into());
    }
    print_result(cli.json, &json!({"lock": name, "released": true}), &format!("{name} released"))
}

async fn list(cli: &Cli, admin: &dyn Administer) -> Result<()> {
    let locks = admin.locks().await?;
    if cli.json {
        return print_json(&json!({ "locks": locks }));
    }
    if locks.is_empty() {
        anstream::println!("{DIM}no locks are held{DIM:#}");
        return Ok(());
    }
    let now = admin.now();
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
