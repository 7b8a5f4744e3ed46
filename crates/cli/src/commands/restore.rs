//! `punctual restore`: creates or replaces a SQLite store from a backup.

use anyhow::Result;
use punctual::sqlite::{BackupFiles, restore};
use serde_json::json;

use super::backups::{check_is_file, page_bar, store_file, summary};
use crate::{
    args::{Cli, Restore},
    config::Config,
    format,
    output::print_json,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Restore) -> Result<()> {
    check_is_file(&args.file)?;
    let to = store_file(&config.store_url(cli), "restore")?;
    let (bar, on_progress) = page_bar(cli.json, "restore");
    let done = restore(BackupFiles { from: args.file.clone(), to: to.clone(), replace: args.force }, on_progress).await;
    bar.finish_and_clear();
    let contents = done?;
    if cli.json {
        return print_json(&json!({"store": to.display().to_string(), "contents": contents}));
    }
    println!("{}: {}", to.display(), summary(&contents));
    if contents.running > 0 {
        println!(
            "jobs that were running at the time of the backup: {}; they run again once their leases have expired",
            format::number(contents.running)
        );
    }
    Ok(())
}
