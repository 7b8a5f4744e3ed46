//! Runs Punctual and its peers alternately, several rounds, and prints medians, ranges and ratios.
//!
//! The machine's speed drifts, so only figures of the same rounds are compared.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{cargo, root};

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder with drivers of peers: `run.sh PEER` prints one line `peer=NAME field=value …`
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Jobs of each run of ours
    #[arg(long, default_value_t = 100_000)]
    jobs: usize,
}

/// Peers on SQLite, with the settings of each run.
const PEERS: [(&str, &str, &str); 3] = [
    ("huey (no fsync)", "huey", "FSYNC=0"),
    ("River (SQLite)", "river-sqlite", "SYNC=FULL"),
    ("GigQ", "gigq", "N=2000"),
];

/// Figures by who and which field, one for each round.
type Figures = BTreeMap<(String, String), Vec<f64>>;

/// Ours, with the arguments of each run.
const SCENARIOS: [(&str, &[&str]); 5] =
    [("lifecycle", &[]), ("single", &[]), ("pickup", &[]), ("ontime", &[]), ("steady", &["--seconds", "20"])];

pub(crate) fn run(args: &Args) -> Result<()> {
    cargo(&["build", "--release", "--quiet"])?;
    let mut figures = Figures::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        for (scenario, settings) in SCENARIOS {
            ours(&mut figures, scenario, settings, args.jobs)?;
        }
        for (name, peer, setting) in PEERS {
            if let Some(folder) = &args.peers {
                theirs(&mut figures, folder, name, peer, setting)?;
            }
        }
    }
    print(&figures);
    Ok(())
}

fn ours(figures: &mut Figures, scenario: &str, settings: &[&str], jobs: usize) -> Result<()> {
    let program = root().join("target/release/punctual");
    let mut command = Command::new(program);
    command.args(["bench", scenario, "--json"]).args(settings);
    if scenario == "lifecycle" {
        command.args(["--jobs", &jobs.to_string()]);
    }
    let output = command.output().context("cannot start our benchmark")?;
    ensure!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
    let fields: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout)?;
    for (field, value) in fields {
        let wanted = ["per_s", "ms_", "peak_memory", "early", "stolen"].iter().any(|part| field.contains(part));
        if let (true, Some(value)) = (wanted, value.as_f64()) {
            figures.entry(("Punctual".into(), format!("{scenario}.{field}"))).or_default().push(value);
        }
    }
    Ok(())
}

fn theirs(figures: &mut Figures, folder: &std::path::Path, name: &str, peer: &str, setting: &str) -> Result<()> {
    let mut command = Command::new(folder.join("run.sh"));
    command.arg(peer);
    command.envs(setting.split_once('='));
    let output = command.output().with_context(|| format!("cannot start the driver of {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // The last line of a peer, or the first of several cases.
    let line = text.lines().find(|line| line.contains('=')).with_context(|| format!("{name} printed no figures"))?;
    for (field, value) in line.split_whitespace().filter_map(|pair| pair.split_once('=')) {
        let wanted = ["enqueue", "drain", "lifecycle", "lat_p50_ms", "lat_p99_ms"].contains(&field);
        if let (true, Ok(value)) = (wanted, value.parse()) {
            figures.entry((name.into(), field.into())).or_default().push(value);
        }
    }
    Ok(())
}

/// Each figure of ours with the peers' figure that it is compared with.
const COMPARED: [(&str, &str); 5] = [
    ("lifecycle.enqueue_per_s", "enqueue"),
    ("lifecycle.drain_per_s", "drain"),
    ("lifecycle.lifecycle_per_s", "lifecycle"),
    ("pickup.ms_p50", "lat_p50_ms"),
    ("pickup.ms_p99", "lat_p99_ms"),
];

fn print(figures: &Figures) {
    println!("| who | figure | median | range | Punctual to it, by round |\n|---|---|---|---|---|");
    for ((who, field), values) in figures {
        let (median, low, high) = spread(values);
        let ours = COMPARED
            .iter()
            .find(|(_, theirs)| theirs == field)
            .and_then(|(ours, _)| figures.get(&("Punctual".into(), (*ours).into())));
        let by_round = |ours: &Vec<f64>| -> Vec<String> {
            ours.iter().zip(values).map(|(ours, theirs)| format!("{:.2}", ours / theirs)).collect()
        };
        let ratios = ours.filter(|_| who != "Punctual").map(|ours| by_round(ours).join(", "));
        println!("| {who} | {field} | {median:.4} | {low:.4}–{high:.4} | {} |", ratios.unwrap_or_default());
    }
}

fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    (at(sorted.len() / 2), at(0), at(sorted.len().saturating_sub(1)))
}
