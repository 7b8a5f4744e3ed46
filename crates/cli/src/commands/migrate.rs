//! `punctual migrate`: migrates the store's schema.

use anyhow::Result;

use crate::{
    args::Cli,
    config::Config,
    format,
    output::print_json,
    table::{Cell, Table},
};

pub(crate) async fn run(cli: &Cli, config: &Config) -> Result<()> {
    // Connecting migrates the schema, under the store's lock.
    let punctual = config.connect(cli).await?;
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
