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
mod local;
mod output;
mod recurring;
mod remote;
mod secret;
mod table;
mod target;
mod text;
mod top;
mod traces;

use std::{
    io::IsTerminal,
    panic,
    process::{self, ExitCode},
};

use clap::Parser;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    args::{Cli, Command},
    traces::Traces,
};

fn main() -> ExitCode {
    end_with_the_reader();
    let cli = Cli::parse();
    let traces = start_log(&cli.command);
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

/// Log lines go to standard error; `PUNCTUAL_LOG=debug` shows more of them, `PUNCTUAL_LOG_FORMAT=json` formats them for
/// programs. Traces are exported as the environment specifies.
fn start_log(command: &Command) -> Traces {
    let usual = if matches!(command, Command::Serve(_)) { "warn" } else { "error" };
    // The messages of the SQL Server driver are part of errors already.
    let usual = || EnvFilter::new(format!("{usual},tiberius=off"));
    let filter = EnvFilter::try_from_env("PUNCTUAL_LOG").unwrap_or_else(|_| usual());
    let log = fmt::layer().with_writer(format::LogWriter::new);
    let log: Box<dyn Layer<Registry> + Send + Sync> =
        if std::env::var("PUNCTUAL_LOG_FORMAT").is_ok_and(|format| format == "json") {
            log.json().flatten_event(true).boxed()
        } else if std::io::stderr().is_terminal() {
            log.with_target(false).with_timer(format::TimeOfDay).boxed()
        } else {
            log.with_ansi(false).boxed()
        };
    let (log, traces) = (tracing_subscriber::registry().with(log.with_filter(filter)), Traces::start(command));
    match traces.layer() {
        Some(layer) => log.with(layer).init(),
        None => log.init(),
    }
    traces
}
