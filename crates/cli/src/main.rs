//! The `punctual` program. One file per command, in `commands/`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod administer;
mod alerts;
mod args;
mod commands;
mod config;
mod contexts;
mod exit;
mod format;
mod handlers;
#[cfg(target_os = "linux")]
mod init;
mod local;
mod log;
mod output;
mod parse_errors;
mod recurring;
#[cfg(test)]
mod reference;
mod remote;
mod secret;
mod table;
mod target;
mod text;
mod top;
mod traces;

use std::{
    panic,
    process::{self, ExitCode},
};

use clap::Parser;

use crate::args::Cli;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = init::run_as_first_process() {
        return code;
    }
    end_with_the_reader();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::report_usage(&error),
    };
    let traces = log::start(&cli.command);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&anyhow::anyhow!("cannot start the runtime: {error}"), cli.json),
    };
    let json = cli.json;
    let done = runtime.block_on(commands::run(cli));
    // A handler that blocks its thread must not keep the process alive.
    runtime.shutdown_background();
    traces.end();
    match done {
        Ok(code) => code,
        Err(error) => exit::report(&error, json),
    }
}

/// Exits successfully when the reader of the output, such as `head`, has closed the pipe: this is not a failure.
///
/// SIGPIPE stays ignored for everything else, since the program of a handler may close its end of a pipe.
fn end_with_the_reader() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>().map_or("", String::as_str);
        if message.starts_with("failed printing to stdout") && message.contains("Broken pipe") {
            process::exit(0);
        }
        usual(info);
    }));
}
