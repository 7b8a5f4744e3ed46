//! `punctual backup`: copies a SQLite store to a file while processes use it.

use anyhow::Result;
use punctual::sqlite::{BackupFiles, backup};
use serde_json::json;

use super::backups::{check_is_file, page_bar, store_file, summary};
use crate::{
    args::{Backup, Cli},
    config::Config,
    output::print_json,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Backup) -> Result<()> {
    check_is_file(&args.file)?;
    let from = store_file(&config.store_url(cli), "backup")?;
    let (bar, on_progress) = page_bar(cli.json, "backup");
    let done = backup(BackupFiles { from, to: args.file.clone(), replace: args.force }, on_progress).await;
    bar.finish_and_clear();
    let contents = done?;
    if cli.json {
        return print_json(&json!({"file": args.file.display().to_string(), "contents": contents}));
    }
    println!("{}: {}", args.file.display(), summary(&contents));
    Ok(())
}
