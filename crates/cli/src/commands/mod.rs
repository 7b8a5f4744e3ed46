//! One file per command.

mod backup;
mod backups;
mod bench;
mod bootstrap;
mod cleanup;
mod config;
mod context;
mod demo;
mod doctor;
mod enqueue;
mod file_defaults;
mod health;
mod http;
mod jobs;
mod local_workers;
mod locks;
mod man;
mod migrate;
mod move_store;
pub(crate) mod queues;
mod report;
mod restore;
mod schedules;
mod serve;
pub(crate) mod show;
mod stats;
mod tokens;
mod up;
mod verify;
mod work;
mod workers;
mod workflows;

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;
use tracing::Instrument;

use crate::{
    args::{Cli, Command, WorkersCommand},
    config::Config,
    output::{print_document, print_json},
    target, top, traces,
};

/// Runs the command.
pub(crate) async fn run(cli: Cli) -> Result<ExitCode> {
    if let Command::Config(command) = &cli.command {
        return config::run(&cli, command);
    }
    let config = Config::read(&cli)?;
    if let Some(reason) = cli.command.of_store() {
        target::require_store(&cli, &config, reason)?;
    }
    match &cli.command {
        Command::Up(args) => up::run(&cli, &config, args).await?,
        Command::Serve(args) => serve::run(&cli, &config, args).await?,
        Command::Work(args) => work::run(&cli, &config, args).await?,
        Command::Enqueue(args) => enqueue::run(&cli, &config, args).instrument(traces::span()).await?,
        Command::Jobs(args) => jobs::run(&cli, &config, args).await?,
        Command::Schedules(args) => schedules::run(&cli, &config, args).await?,
        Command::Workflows(args) => workflows::run(&cli, &config, args).await?,
        Command::Queues(args) => queues::run(&cli, &config, args).await?,
        Command::Workers(WorkersCommand::List) => workers::run(&cli, &config).await?,
        Command::Locks(args) => locks::run(&cli, &config, args).await?,
        Command::Tokens(args) => tokens::run(&cli, &config, args).await?,
        Command::Context(args) => context::run(&cli, args)?,
        Command::Top(args) => top::run(&cli, &config, args).await?,
        Command::Stats => stats::run(&cli, &config).await?,
        Command::Report(args) => report::run(&cli, &config, args).await?,
        Command::Cleanup => cleanup::run(&cli, &config).await?,
        Command::Migrate(args) => migrate::run(&cli, &config, args).await?,
        Command::Move(args) => move_store::run(&cli, args).await?,
        Command::Backup(args) => backup::run(&cli, &config, args).await?,
        Command::Restore(args) => restore::run(&cli, &config, args).await?,
        // Above, since it reports what is wrong with the configuration.
        Command::Config(_) => {}
        Command::Doctor => return doctor::run(&cli, &config).await,
        Command::Health(args) => health::run(&cli, args).await?,
        Command::Bench(args) => bench::run(&cli, &config, args).await?,
        Command::Verify(args) => return verify::run(&cli, &config, args).await,
        Command::Completions { shell } => completions(&cli, *shell)?,
        Command::Man { folder } => man::run(folder)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn completions(cli: &Cli, shell: Shell) -> Result<()> {
    // Into memory: the generator panics if a write fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "punctual", &mut script);
    let script = String::from_utf8(script)?;
    if cli.json { print_json(&json!({"shell": shell.to_string(), "script": script})) } else { print_document(&script) }
}
