//! One file per command.

mod bench;
mod cleanup;
mod context;
mod demo;
mod doctor;
mod enqueue;
mod http;
mod jobs;
mod local_workers;
mod locks;
mod migrate;
mod move_store;
pub(crate) mod queues;
mod report;
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
use tracing::Instrument;

use crate::{
    args::{Cli, Command, WorkersCommand},
    config::Config,
    target, top, traces,
};

/// Runs the command.
pub(crate) async fn run(cli: Cli) -> Result<ExitCode> {
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
        Command::Migrate => migrate::run(&cli, &config).await?,
        Command::Move(args) => move_store::run(&cli, args).await?,
        Command::Doctor => return doctor::run(&cli, &config).await,
        Command::Bench(args) => bench::run(&cli, &config, args).await?,
        Command::Verify(args) => return verify::run(&cli, &config, args).await,
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "punctual", &mut std::io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}
