//! Runs all test binaries and all examples, a few in parallel: many of them mostly wait.

use std::{
    io::BufRead as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{POSTGRES_URL, Servers, root};

/// Number of binaries that run in parallel.
const LANES: usize = 2;

/// The binaries that take longest start first, so that the run does not wait for them at the end.
const LONGEST: [&str; 11] = [
    "crashes",
    "screens",
    "chaos",
    "schedules",
    "features",
    "punctual_sql",
    "cluster",
    "conformance",
    "postgres_conformance",
    "programs",
    "postgres",
];

/// A test binary, or an example, which must run to completion.
struct Binary {
    package: String,
    name: String,
    program: PathBuf,
    /// The folder in which cargo would run it.
    folder: PathBuf,
    is_test: bool,
}

/// Builds and runs all.
pub(crate) fn run_all(servers: &Servers) -> Result<()> {
    let mut binaries = build()?;
    let rank = |name: &str| LONGEST.iter().position(|long| *long == name).unwrap_or(LONGEST.len());
    binaries.sort_by_key(|binary| std::cmp::Reverse(rank(&binary.name)));
    let (count, start) = (binaries.len(), Instant::now());
    let (waiting, failed) = (Mutex::new(binaries), Mutex::new(Vec::new()));
    let next = || waiting.lock().ok()?.pop();
    let lane = || {
        while let Some(binary) = next() {
            if let Err(error) = run(&binary, servers)
                && let Ok(mut failed) = failed.lock()
            {
                failed.push(format!("{} of {}: {error:#}", binary.name, binary.package));
            }
        }
    };
    thread::scope(|scope| (0..LANES).for_each(|_| drop(scope.spawn(lane))));
    let failed = failed.into_inner().unwrap_or_default();
    ensure!(failed.is_empty(), "{} of {count} test binaries and examples failed:\n{}", failed.len(), failed.join("\n"));
    eprintln!("  {count} test binaries and examples in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn build() -> Result<Vec<Binary>> {
    let args = ["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"];
    eprintln!("$ cargo {}", args.join(" "));
    let start = Instant::now();
    let mut cargo = Command::new(env!("CARGO"));
    let mut building = cargo.args(args).current_dir(root()).stdout(Stdio::piped()).spawn()?;
    let stdout = building.stdout.take().context("cargo has no standard output")?;
    let lines = std::io::BufReader::new(stdout).lines();
    let binaries: Vec<Binary> = lines.map_while(Result::ok).filter_map(|line| binary(&line)).collect();
    let status = building.wait()?;
    ensure!(status.success(), "cargo test --no-run failed with {status}");
    eprintln!("  done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(binaries)
}

/// Parses a line of cargo's output about a test binary or an example.
fn binary(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"] == true;
    let is_example = message["target"]["kind"][0] == "example";
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    (message["reason"] == "compiler-artifact" && (is_test || is_example)).then_some(())?;
    Some(Binary {
        package: folder.file_name()?.to_string_lossy().into_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        program: message["executable"].as_str()?.into(),
        folder,
        is_test,
    })
}

fn run(binary: &Binary, servers: &Servers) -> Result<()> {
    let start = Instant::now();
    // Each test creates a schema of hundreds of tables. In one database for all, the catalogue would become slow.
    let database = format!("{}_{}", binary.package, binary.name);
    let url = servers.postgres.create_database(&database)?;
    let mut command = Command::new(&binary.program);
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    // The message of a failed test must not be hidden by the frames of the runtime.
    command.env("RUST_BACKTRACE", "0");
    if binary.is_test {
        command.arg("--quiet");
    }
    servers.named_to(&mut command).env(POSTGRES_URL, url);
    let Output { status, stdout, stderr } = command.output().context("cannot start it")?;
    servers.postgres.drop_database(&database)?;
    let output = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    let seconds = start.elapsed().as_secs_f64();
    if status.success() {
        let result = output.lines().rfind(|line| line.starts_with("test result: ")).unwrap_or_default();
        let passed = result.trim_start_matches("test result: ok. ").split(';').next().unwrap_or_default();
        let passed = if binary.is_test { passed } else { "ran" };
        eprintln!("  {:<10} {:<28} {passed:>11} {seconds:>6.1} s", binary.package, binary.name);
        return Ok(());
    }
    eprintln!("{} {}\n{output}", binary.package, binary.name);
    anyhow::bail!("{status} after {seconds:.0} s")
}
