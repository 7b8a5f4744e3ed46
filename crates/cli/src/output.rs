//! What all commands print in the same way: JSON, and the progress of long work.

use anyhow::Result;
use serde::Serialize;

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// A progress bar for long work, with its rate and the remaining time; hidden with `--json` and without a terminal.
pub(crate) fn progress_bar(json: bool) -> indicatif::ProgressBar {
    if json {
        return indicatif::ProgressBar::hidden();
    }
    let style = "{msg} {bar:30} {human_pos}/{human_len} {per_sec} {eta} left";
    let bar = indicatif::ProgressBar::new(0);
    bar.with_style(
        indicatif::ProgressStyle::with_template(style).unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()),
    )
}
