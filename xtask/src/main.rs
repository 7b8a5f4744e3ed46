//! Punctual's own tasks: `cargo xtask test | bench | ci`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Punctual's own tasks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all tests and all examples
    Test,
    /// Measure Punctual, alternately with peers where their drivers are at hand
    Bench(bench::Args),
    /// What continuous integration runs: format, lints, tests, documentation
    Ci,
}

/// The examples, each of which must run to its end.
const EXAMPLES: [&str; 5] = ["quickstart", "retries", "transactional_enqueue", "graceful_shutdown", "testing"];

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test => test(),
        Task::Bench(args) => bench::run(&args),
        Task::Ci => ci(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    test()?;
    run(Command::new(env!("CARGO"))
        .args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "--deny warnings"))
}

fn test() -> Result<()> {
    cargo(&["test", "--workspace", "--quiet"])?;
    for example in EXAMPLES {
        cargo(&["run", "--quiet", "--package", "examples", "--example", example])?;
    }
    Ok(())
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn cargo(args: &[&str]) -> Result<()> {
    run(Command::new(env!("CARGO")).args(args))
}

fn run(command: &mut Command) -> Result<()> {
    let shown: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    eprintln!("$ cargo {}", shown.join(" "));
    let start = Instant::now();
    let status = command.current_dir(root()).status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo {} failed with {status}", shown.join(" "));
    eprintln!("  done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
