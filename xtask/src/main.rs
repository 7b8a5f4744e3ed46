//! Development tasks: `cargo xtask test | bench | with | chaos | tidy | docs | pictures | package | dist | ci`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod circles;
mod dist;
mod docs;
mod links;
mod package;
mod pictures;
mod tests;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use punctual_servers::{Browser, Care, Fault, PageCheckers, Postgres, Proxy, Redis};

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
    /// Measure Punctual, alternately with peers where their drivers are installed
    Bench(bench::Args),
    /// Run a command with a throw-away PostgreSQL and Redis, named by PUNCTUAL_TEST_POSTGRES_URL and
    /// PUNCTUAL_TEST_REDIS_URL
    With {
        /// Place each behind a network that passes answers in small parts, and a SQL Server that
        /// PUNCTUAL_TEST_SQLSERVER_URL names, too
        #[arg(long)]
        slow_network: bool,
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Fail everything at random under load, for longer than the tests do: processes, disks, servers and networks
    Chaos {
        /// Duration in minutes, per engine
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        /// Seed of an earlier run, which it printed
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Check what neither rustfmt nor clippy does: lengths, names, tables of modules, words, links, generated pages
    Tidy,
    /// Package the crates that are published, and build the documentation of the packages
    Package,
    /// Make packages in dist/: a tarball, a Debian package, an OCI image, checksums and a list of dependencies
    Dist(dist::DistArgs),
    /// Write the generated pages of the documentation
    Docs,
    /// Take the pictures of the documentation: starts the demo, a browser and a terminal
    Pictures,
    /// What continuous integration runs: format, lints, tests, documentation
    Ci,
}

/// Environment variables with the addresses of the servers that were started for the tests.
const POSTGRES_URL: &str = "PUNCTUAL_TEST_POSTGRES_URL";
const REDIS_URL: &str = "PUNCTUAL_TEST_REDIS_URL";
/// The environment variable with the address of a SQL Server, which cannot be started here.
const SQLSERVER_URL: &str = "PUNCTUAL_TEST_SQLSERVER_URL";

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test => test(),
        Task::Bench(args) => bench::run(&args),
        Task::With { slow_network, command } => with(slow_network, &command),
        Task::Chaos { minutes, seed } => chaos(minutes, seed),
        Task::Tidy => tidy::run(),
        Task::Package => package::run(),
        Task::Dist(args) => dist::run(&args),
        Task::Docs => docs::run(),
        Task::Pictures => pictures::run(),
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
    tidy::run()?;
    dist::check_licences()?;
    // The tests of SQL Server are not run without a server, but they must compile.
    let features = ["--features", "punctual-sql/sqlserver"];
    cargo(
        &[&["clippy", "--workspace", "--all-targets", "--quiet"], &features[..], &["--", "--deny", "warnings"]]
            .concat(),
    )?;
    run(Command::new(env!("CARGO"))
        .args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "--deny warnings"))?;
    test()
}

fn test() -> Result<()> {
    // Installs the browser and the checkers of pages now, so that tests that need them do not wait for each other.
    Browser::find()?;
    PageCheckers::find()?;
    let servers = Servers::start(Care::None)?;
    tests::run_all(&servers)?;
    run(servers.named_to(Command::new(env!("CARGO")).args(["test", "--workspace", "--doc", "--quiet"])))?;
    let sqlserver = sqlserver()?;
    eprintln!("All tests and examples passed. {sqlserver}");
    Ok(())
}

/// Runs the tests with random faults for longer than the suite does.
fn chaos(minutes: u64, seed: Option<u64>) -> Result<()> {
    let servers = Servers::start(Care::Durable)?;
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "--package", "punctual-tests", "--test", "chaos", "--", "--nocapture", "--test-threads", "1"]);
    tests.env("PUNCTUAL_TEST_SECONDS", (minutes * 60).to_string());
    tests.envs(seed.map(|seed| ("PUNCTUAL_TEST_SEED", seed.to_string())));
    run(servers.named_to(&mut tests))
}

/// Runs the suite on a SQL Server whose address is given: none can be installed here. Returns what was done.
fn sqlserver() -> Result<&'static str> {
    if std::env::var_os(SQLSERVER_URL).is_none() {
        return Ok("The suite of SQL Server did not run: PUNCTUAL_TEST_SQLSERVER_URL names no server.");
    }
    let suite = ["test", "--package", "punctual-sql", "--features", "sqlserver", "--test", "sqlserver_conformance"];
    cargo(&suite)?;
    Ok("So did the suite of SQL Server, on the server that PUNCTUAL_TEST_SQLSERVER_URL names.")
}

fn with(slow_network: bool, command: &[String]) -> Result<()> {
    let servers = Servers::start(Care::None)?;
    let (program, args) = command.split_first().context("name a command")?;
    let mut command = Command::new(program);
    servers.named_to(command.args(args));
    // The proxies end when this is dropped.
    let _proxies = if slow_network { slow_networks(&servers, &mut command)? } else { Vec::new() };
    let status = command.status().with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} failed with {status}");
    Ok(())
}

/// Makes a command reach each server through a proxy, so that no answer is complete with its first bytes.
fn slow_networks(servers: &Servers, command: &mut Command) -> Result<Vec<Proxy>> {
    let mut urls = vec![(POSTGRES_URL, servers.postgres.url()), (REDIS_URL, servers.redis.url())];
    urls.extend(std::env::var(SQLSERVER_URL).map(|url| (SQLSERVER_URL, url)));
    let mut proxies = Vec::new();
    for (name, url) in urls {
        let proxy = Proxy::before(&url)?;
        proxy.set(Fault::Throttle { bytes: 700, pause: Duration::ZERO });
        command.env(name, proxy.url_of(&url)?);
        proxies.push(proxy);
    }
    Ok(proxies)
}

/// The servers that tests need; stopped when dropped.
struct Servers {
    postgres: Postgres,
    redis: Redis,
}

impl Servers {
    fn start(care: Care) -> Result<Self> {
        Ok(Self { postgres: Postgres::start(care)?, redis: Redis::start()? })
    }

    /// Sets the addresses of the servers for a command.
    fn named_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env(POSTGRES_URL, self.postgres.url()).env(REDIS_URL, self.redis.url())
    }
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
