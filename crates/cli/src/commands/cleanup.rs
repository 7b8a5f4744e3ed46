//! `punctual cleanup`: runs retention now.

use anyhow::Result;
use punctual::admin::CleanupDone;

use crate::{args::Cli, config::Config, format, output::print_json, target};

pub(crate) async fn run(cli: &Cli, config: &Config) -> Result<()> {
    let admin = target::administer(cli, config).await?;
    let bar = if cli.json { indicatif::ProgressBar::hidden() } else { indicatif::ProgressBar::new_spinner() };
    let mut on_step = |done: CleanupDone| {
        bar.set_message(format!("{} deleted, {} purged, {} trimmed", done.deleted, done.purged, done.trimmed));
        bar.tick();
    };
    let done = admin.cleanup(config.retention(), &mut on_step).await?;
    bar.finish_and_clear();
    if cli.json {
        return print_json(&done);
    }
    let number = |count: usize| format::number(count as u64);
    println!(
        "{} finished jobs deleted, {} deleted jobs purged, {} old attempts and log lines removed",
        number(done.deleted),
        number(done.purged),
        number(done.trimmed)
    );
    Ok(())
}
