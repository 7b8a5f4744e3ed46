//! Runs Punctual and its peers alternately, in several rounds, and prints medians, ranges and ratios.
//!
//! The machine's speed drifts, so only figures of the same round are compared. On a shared machine, other guests take
//! processor time: a run that lost more than [`STOLEN_MAX_SHARE`] is repeated, for Punctual and the peers alike.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use punctual_servers::{Care, Postgres, Redis};
use serde_json::Value;

use crate::{cargo, root};

/// Arguments of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The engine; the servers that it needs are started for the run
    #[arg(long, value_enum, default_value_t = Engine::Sqlite)]
    engine: Engine,
    /// A folder with drivers of peers: `run.sh PEER` prints one line `peer=NAME field=value …`
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Jobs per run of Punctual
    #[arg(long, default_value_t = 100_000)]
    jobs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    Sqlite,
    Postgres,
    /// PostgreSQL with Redis in front
    Redis,
}

/// A peer: its name, the name of its driver, and the setting of its run.
type Peer = (&'static str, &'static str, &'static str);

impl Engine {
    const fn peers(self) -> &'static [Peer] {
        match self {
            Self::Sqlite => &[
                ("huey (no fsync)", "huey", "FSYNC=0"),
                ("River (SQLite)", "river-sqlite", "SYNC=FULL"),
                ("GigQ, 2,000 queued", "gigq", "N=2000"),
                ("GigQ, 10,000 queued", "gigq", "N=10000"),
            ],
            Self::Postgres => &[
                ("Graphile Worker", "graphile-worker", "PROCS=2"),
                ("River", "river", "CONC=2000"),
                ("awa", "awa", "CLAIMERS=2"),
            ],
            Self::Redis => &[("BullMQ", "bullmq", "CONC=300")],
        }
    }
}

/// A peer that takes longer than this is skipped for the round.
const PEER_MAX_SECONDS: u64 = 300;

/// The share of the processors' time that other guests may take during a run.
const STOLEN_MAX_SHARE: f64 = 0.03;
/// Maximum number of tries of a run; then the least disturbed one counts.
const TRIES_MAX_COUNT: usize = 6;

/// Figures by program and field, one value per round.
type Figures = BTreeMap<(String, String), Vec<f64>>;
/// The figures of one run, by field.
type Run = Vec<(String, f64)>;

/// The scenarios of Punctual, with the arguments of each run.
const SCENARIOS: [(&str, &[&str]); 5] =
    [("lifecycle", &[]), ("single", &[]), ("pickup", &[]), ("ontime", &[]), ("steady", &["--seconds", "20"])];

pub(crate) fn run(args: &Args) -> Result<()> {
    cargo(&["build", "--profile", "dist", "--quiet"])?;
    let server = (args.engine != Engine::Sqlite).then(|| Postgres::start(Care::Durable)).transpose()?;
    let dispatch = (args.engine == Engine::Redis).then(Redis::start).transpose()?;
    let mut store = server.as_ref().map(Postgres::url);
    if let (Some(store), Some(dispatch)) = (&mut store, &dispatch) {
        store.push_str(&format!("?dispatch={}", dispatch.url()));
    }
    let ours = |scenario: &str, settings: &[&str], jobs| ours(store.as_deref(), scenario, settings, jobs);
    let mut figures = Figures::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        for (name, peer, setting) in args.engine.peers() {
            if let Some(folder) = &args.peers {
                // Punctual runs next to its peer, so that the machine's speed is the same for both; with the same
                // number of jobs, since some peers slow down with that number.
                let jobs = setting.strip_prefix("N=").and_then(|jobs| jobs.parse().ok()).unwrap_or(args.jobs);
                let lifecycle = undisturbed("lifecycle", || ours("lifecycle", &[], jobs))?;
                note(&mut figures, &format!("Punctual beside {name}"), lifecycle);
                match undisturbed(name, || theirs(folder, name, peer, setting)) {
                    Ok(run) => note(&mut figures, name, run),
                    // Punctual's figure is removed, too, so that the rounds of both stay aligned.
                    Err(error) => {
                        eprintln!("  {name}: {error:#}");
                        forget_last(&mut figures, &format!("Punctual beside {name}"));
                    }
                }
            }
        }
        for (scenario, settings) in SCENARIOS {
            note(&mut figures, "Punctual", undisturbed(scenario, || ours(scenario, settings, args.jobs))?);
        }
    }
    print(&figures);
    Ok(())
}

fn note(figures: &mut Figures, who: &str, run: Run) {
    for (field, value) in run {
        figures.entry((who.into(), field)).or_default().push(value);
    }
}

fn forget_last(figures: &mut Figures, who: &str) {
    figures.iter_mut().filter(|((of, _), _)| of == who).for_each(|(_, values)| values.truncate(values.len() - 1));
    figures.retain(|_, values| !values.is_empty());
}

/// Repeats a run until it was undisturbed.
fn undisturbed(what: &str, mut run: impl FnMut() -> Result<Run>) -> Result<Run> {
    let mut best: Option<(f64, Run)> = None;
    for _ in 0..TRIES_MAX_COUNT {
        let (start, stolen) = (Instant::now(), stolen());
        let figures = run()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let share = (self::stolen() - stolen).as_secs_f64() / (start.elapsed() * processors).as_secs_f64();
        if best.as_ref().is_none_or(|(least, _)| share < *least) {
            best = Some((share, figures));
        }
        if share <= STOLEN_MAX_SHARE {
            break;
        }
        eprintln!("  {what}: other guests took {:.0} % of the processors, once more", share * 100.0);
    }
    let (share, mut figures) = best.context("never tried")?;
    figures.push(("stolen_percent".into(), share * 100.0));
    Ok(figures)
}

/// Steal time of all processors since the machine started.
fn stolen() -> Duration {
    let books = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let hundredths = books.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    Duration::from_millis(10 * hundredths.unwrap_or_default())
}

fn ours(store: Option<&str>, scenario: &str, settings: &[&str], jobs: usize) -> Result<Run> {
    let program = root().join("target/dist/punctual");
    let mut command = Command::new(program);
    command.args(["bench", scenario, "--json"]).args(settings);
    command.env_remove("PUNCTUAL_STORE").envs(store.map(|store| ("PUNCTUAL_STORE", store)));
    if scenario == "lifecycle" {
        command.args(["--jobs", &jobs.to_string()]);
    }
    let output = command.output().context("cannot start our benchmark")?;
    ensure!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
    let fields: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout)?;
    let wanted =
        |field: &str| ["per_s", "ms_", "peak_memory", "early", "_cpu_us"].iter().any(|part| field.contains(part));
    let figures = fields.into_iter().filter(|(field, _)| wanted(field));
    Ok(figures.filter_map(|(field, value)| Some((format!("{scenario}.{field}"), value.as_f64()?))).collect())
}

fn theirs(folder: &Path, name: &str, peer: &str, setting: &str) -> Result<Run> {
    let mut command = Command::new("timeout");
    command.arg(PEER_MAX_SECONDS.to_string()).arg(folder.join("run.sh")).arg(peer);
    command.envs(setting.split_once('='));
    let output = command.output().with_context(|| format!("cannot start the driver of {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // The first line with figures: some peers print several cases.
    let line = text.lines().find(|line| line.contains('='));
    let line = line.with_context(|| format!("printed no figures within {PEER_MAX_SECONDS} s ({})", output.status))?;
    let wanted = |field: &str| ["enqueue", "drain", "lifecycle", "lat_p50_ms", "lat_p99_ms"].contains(&field);
    let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    Ok(pairs
        .filter(|(field, _)| wanted(field))
        .filter_map(|(field, value)| Some((field.into(), value.parse().ok()?)))
        .collect())
}

/// Figures of the peers, each with the figure of Punctual to compare it with.
const COMPARED: [(&str, &str); 3] = [
    ("enqueue", "lifecycle.enqueue_per_s"),
    ("drain", "lifecycle.drain_per_s"),
    ("lifecycle", "lifecycle.lifecycle_per_s"),
];

fn print(figures: &Figures) {
    println!("| who | figure | median | range | Punctual to it, by round |\n|---|---|---|---|---|");
    for ((who, field), values) in figures {
        let [median, low, high] = spread(values).map(readable);
        let ours = COMPARED.iter().find(|(theirs, _)| theirs == field);
        let ours = ours.and_then(|(_, ours)| figures.get(&(format!("Punctual beside {who}"), (*ours).to_owned())));
        let by_round = |ours: &Vec<f64>| -> Vec<String> {
            ours.iter().zip(values).map(|(ours, theirs)| format!("{:.2}", ours / theirs)).collect()
        };
        let ratios = ours.map(|ours| by_round(ours).join(", ")).unwrap_or_default();
        println!("| {who} | {field} | {median} | {low}–{high} | {ratios} |");
    }
}

/// Formats a number with as many digits as a reader needs.
fn readable(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The median, the minimum and the maximum.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    [at(sorted.len() / 2), at(0), at(sorted.len().saturating_sub(1))]
}
