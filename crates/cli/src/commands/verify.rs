//! `punctual verify`: verifies that a database keeps the guarantees.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use punctual::Status;
use punctual_bench::StoreFactory;
use punctual_verify::{Guarantee, Report, Settings};
use serde_json::json;

use crate::{
    args::{Cli, Verify},
    commands::work::stop_signal,
    config::Config,
    exit,
    format::{self, BOLD, DIM, status_style},
    output::{print_json, progress_bar},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Verify) -> Result<ExitCode> {
    if args.worker {
        punctual_verify::work(cli.store.as_deref().unwrap_or_default()).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = Settings {
        suite: !args.skip_suite,
        chaos: Duration::from_secs(args.seconds),
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..)),
        program: std::env::current_exe().context("cannot find this program's own file")?,
    };
    let stop = stop_signal()?;
    let stores = StoreFactory::new(&config.store_url(cli), "verify").await?;
    let bar = progress_bar(cli.json);
    let on_progress = |what: &str, done: u64, of: u64| {
        bar.set_message(what.to_owned());
        bar.set_length(of);
        bar.set_position(done);
    };
    let verified = tokio::select! {
        verified = punctual_verify::verify(&stores, &settings, &on_progress) => Some(verified),
        () = stop => None,
    };
    bar.finish_and_clear();
    stores.clear().await?;
    let Some(verified) = verified else { bail!("interrupted; everything that was created is dropped") };
    let report = verified.with_context(|| format!("cannot verify (--seed {})", settings.seed))?;
    if cli.json {
        let mut fields = serde_json::to_value(&report)?;
        fields["ok"] = json!(report.ok());
        print_json(&fields)?;
    } else {
        show(&report);
    }
    Ok(if report.ok() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn show(report: &Report) {
    anstream::println!("{BOLD}{} {}{BOLD:#}", report.engine, report.version);
    for check in &report.checks {
        line(check.ok, &format!("{:<12} {}", check.check, check.message));
    }
    for setting in &report.settings {
        let warning = setting.warning.map_or_else(String::new, |warning| format!("  {warning}"));
        line(setting.warning.is_none(), &format!("{} = {}{warning}", setting.name, setting.value));
    }
    anstream::println!("\n{BOLD}Conformance{BOLD:#}");
    let failed = report.failed_behaviours.len();
    if report.behaviours == 0 {
        println!("skipped");
    } else {
        line(failed == 0, &format!("{} of {} behaviours", report.behaviours - failed, report.behaviours));
    }
    for failure in &report.failed_behaviours {
        anstream::println!("  {}\n  {DIM}{}{DIM:#}", failure.behaviour, failure.message);
    }
    let (jobs, seconds, seed) = (format::number(report.jobs as u64), report.chaos_seconds, report.seed);
    anstream::println!("\n{BOLD}Chaos{BOLD:#}  {jobs} jobs, {seconds} s, --seed {seed}");
    for fault in &report.faults {
        anstream::println!("  {:>6} × {}", format::number(fault.count), fault.fault);
    }
    anstream::println!("\n{BOLD}Guarantees{BOLD:#}");
    report.guarantees.iter().for_each(show_guarantee);
    let result =
        if report.ok() { "All guarantees held." } else { "Guarantees were violated; do not rely on this server." };
    println!("\n{result}");
}

fn show_guarantee(guarantee: &Guarantee) {
    let violated =
        if guarantee.held() { String::new() } else { format!(" Violated {} ×.", format::number(guarantee.violated)) };
    line(guarantee.held(), &format!("{:>8} × {}{violated}", format::number(guarantee.exercised), guarantee.guarantee));
    for violation in &guarantee.violations {
        anstream::println!("             {DIM}{violation}{DIM:#}");
    }
}

fn line(ok: bool, text: &str) {
    let style = status_style(if ok { Status::Succeeded } else { Status::Dead });
    anstream::println!("{style}{}{style:#} {text}", if ok { "✓" } else { "✗" });
}
