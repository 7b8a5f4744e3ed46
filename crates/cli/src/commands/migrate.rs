//! `punctual migrate`: migrates the store's schema.

use anyhow::Result;
use punctual::{Punctual, core::Create};

use crate::{
    args::{Cli, Migrate},
    config::Config,
    format,
    output::print_json,
    table::{Cell, Table},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Migrate) -> Result<()> {
    // Connecting migrates the schema, under the store's lock.
    let create = if args.alongside { Create::Anywhere } else { Create::InEmpty };
    let punctual = Punctual::connect_with(&config.store_url(cli), create).await?;
    let schema = punctual.store().schema().await.map_err(punctual::Error::from)?;
    if cli.json {
        return print_json(&schema);
    }
    println!("{} has schema version {}", punctual.store().info().location, schema.version);
    let mut table = Table::new(["VERSION", "NAME", "CHECKSUM", "APPLIED"]);
    for migration in schema.migrations {
        table.row([
            Cell::number(u64::from(migration.version)),
            Cell::new(migration.name),
            Cell::new(migration.checksum),
            Cell::new(format::exact(migration.applied_at)),
        ]);
    }
    table.print();
    Ok(())
}
