//! What all commands print in the same way: JSON, and the progress of long work.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write},
};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use crate::format::per_second;

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a result: a sentence, or with `--json` a value.
pub(crate) fn print_result(json: bool, value: &impl Serialize, text: &str) -> Result<()> {
    if json {
        return print_json(value);
    }
    println!("{text}");
    Ok(())
}

/// Prints a document as it is. A reader that leaves before its end, such as `head`, is no failure.
pub(crate) fn print_document(text: &str) -> Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot write to standard output"),
    }
}

/// The results of a command that acts on several items: a line for each, or with `--json` one document for all.
pub(crate) struct Results {
    json: bool,
    field: &'static str,
    values: Vec<Value>,
}

impl Results {
    /// Results in the field `field` of the document.
    pub(crate) const fn new(json: bool, field: &'static str) -> Self {
        Self { json, field, values: Vec::new() }
    }

    /// Prints the line of a result, or keeps its value for the document.
    pub(crate) fn add(&mut self, value: Value, text: &str) {
        if self.json {
            self.values.push(value);
        } else {
            println!("{text}");
        }
    }

    /// Prints the document, also after an error: it contains what was done before.
    pub(crate) fn end(self, done: Result<()>) -> Result<()> {
        if self.json {
            print_json(&BTreeMap::from([(self.field, self.values)]))?;
        }
        done
    }
}

/// A progress bar for long work, with its rate and the remaining time; hidden with `--json` and without a terminal.
pub(crate) fn progress_bar(json: bool) -> ProgressBar {
    if json {
        return ProgressBar::hidden();
    }
    let style = "{msg} {bar:30} {human_pos}/{human_len} {rate} {eta} left";
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    // The crate's own `per_sec` has four decimals.
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // Writing into memory does not fail.
        let _ = out.write_str(&per_second(state.per_sec()));
    };
    ProgressBar::new(0).with_style(style.with_key("rate", rate))
}
