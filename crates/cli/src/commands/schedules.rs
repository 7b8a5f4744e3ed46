//! `punctual schedules`: schedules of recurring jobs.

use anyhow::Result;
use jiff::tz::TimeZone;
use punctual::{
    Draft, Error, Recurring, Status, Timestamp,
    admin::{Put, ScheduleView},
    core::{Clock, Invalid, SystemClock, limits},
};
use serde_json::json;

use crate::{
    administer::Administer,
    args::{Backfill, Cli, ListSchedules, PutSchedule, Schedules},
    config::Config,
    exit::{self, Refusal, ServerError},
    format::{self, BOLD, DIM, status_style},
    output::{Results, print_json, print_result},
    table::{Cell, Table},
    target, text,
};

/// Number of next runs that `show` prints.
const SHOWN_RUNS: usize = 5;

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Schedules) -> Result<()> {
    if let Schedules::Preview { cron: Some(cron), zone, count, .. } = args {
        let now = SystemClock.now();
        return preview(cli, zone, &runs_of(cron, zone, *count, now)?, now);
    }
    let admin = &*target::administer(cli, config).await?;
    match args {
        Schedules::List(args) => list(cli, admin, args).await,
        Schedules::Show { name } => show(cli, admin, name).await,
        Schedules::Put(args) => put(cli, admin, args).await,
        Schedules::Pause { names } => {
            let mut results = Results::new(cli.json, "schedules");
            let done = pause(admin, names, &mut results).await;
            results.end(done)
        }
        Schedules::Resume { names } => {
            let mut results = Results::new(cli.json, "schedules");
            let done = resume(admin, names, &mut results).await;
            results.end(done)
        }
        Schedules::Trigger { name } => {
            let id = admin.trigger_schedule(name).await?;
            print_result(cli.json, &json!({ "job": id }), &id.to_string())
        }
        Schedules::Backfill(args) => backfill(cli, admin, args).await,
        Schedules::Preview { name, count, .. } => {
            let detail = admin.schedule(name.as_deref().unwrap_or_default(), *count).await?;
            if let Some(problem) = detail.schedule.problem {
                return Err(broken(&detail.schedule.name, &problem));
            }
            preview(cli, &detail.schedule.zone, &detail.upcoming, admin.now())
        }
        Schedules::Delete { names } => {
            let mut results = Results::new(cli.json, "schedules");
            let done = delete(cli, admin, names, &mut results).await;
            results.end(done)
        }
    }
}

/// The error for a stored schedule that cannot be evaluated: the command line is not wrong.
fn broken(name: &str, problem: &str) -> anyhow::Error {
    Refusal(format!("the schedule {name} is broken: {problem}; define it again: punctual schedules put {name} …"))
        .into()
}

/// An error of an action that evaluates a stored schedule.
fn of_stored(name: &str, error: anyhow::Error) -> anyhow::Error {
    let is_invalid = match error.downcast_ref::<ServerError>() {
        Some(error) => error.exit_code == exit::USAGE,
        None => matches!(error.downcast_ref::<Error>(), Some(Error::Invalid(_))),
    };
    let problem = error.to_string();
    let is_stored = ["cron: ", "zone: ", "definition: "].iter().any(|field| problem.starts_with(field));
    if is_invalid && is_stored { broken(name, &problem) } else { error }
}

async fn pause(admin: &dyn Administer, names: &[String], results: &mut Results) -> Result<()> {
    for name in names {
        admin.pause_schedule(name).await?;
        results.add(json!({"name": name, "enabled": false}), &format!("{name} paused"));
    }
    Ok(())
}

async fn resume(admin: &dyn Administer, names: &[String], results: &mut Results) -> Result<()> {
    for name in names {
        admin.resume_schedule(name).await.map_err(|error| of_stored(name, error))?;
        let next = admin.schedule(name, 0).await?.schedule.next_run_at;
        let text = format!("{name} resumed; next run {}", next_in_words(next, admin.now()));
        results.add(json!({"name": name, "enabled": true, "next_run_at": next}), &text);
    }
    Ok(())
}

async fn delete(cli: &Cli, admin: &dyn Administer, names: &[String], results: &mut Results) -> Result<()> {
    for name in names {
        let owner = admin.schedule(name, 0).await.ok().and_then(|detail| detail.schedule.owner);
        admin.delete_schedule(name).await?;
        results.add(json!({"name": name, "deleted": true, "owner": owner}), &format!("{name} deleted"));
        if let Some(owner) = owner.filter(|_| !cli.json) {
            eprintln!("note: {owner} defines it, and creates it again at its next start");
        }
    }
    Ok(())
}

async fn list(cli: &Cli, admin: &dyn Administer, args: &ListSchedules) -> Result<()> {
    let page = admin.schedules(args.after.clone(), args.limit).await?;
    if cli.json {
        return print_json(&page);
    }
    if page.schedules.is_empty() {
        anstream::println!("{DIM}no schedules; add one with: punctual schedules put NAME \"0 2 * * *\" JOB{DIM:#}");
        return Ok(());
    }
    let now = admin.now();
    let mut table = Table::new(["NAME", "STATE", "CRON", "DESCRIPTION", "ZONE", "JOB", "LAST RUN", "NEXT RUN", "AT"])
        .optional(&["AT", "LAST RUN", "DESCRIPTION", "ZONE", "JOB"]);
    for schedule in page.schedules {
        table.row([
            Cell::new(schedule.name.clone()),
            state(&schedule),
            Cell::new(schedule.cron.clone()),
            Cell::new(when(&schedule)),
            Cell::new(schedule.zone.clone()),
            Cell::new(schedule.job.clone()),
            Cell::right(schedule.last_run_at.map(|at| format::relative(at, now)).unwrap_or_default()),
            Cell::right(schedule.next_run_at.map(|at| format::relative(at, now)).unwrap_or_default()),
            Cell::new(schedule.next_run_at.map(minute).unwrap_or_default()),
        ]);
    }
    table.print();
    if let Some(next) = page.next {
        anstream::println!("{DIM}more: punctual schedules list --after {next}{DIM:#}");
    }
    Ok(())
}

/// The state of a schedule: a dot and a word, in the colour of the most similar job status.
fn state(schedule: &ScheduleView) -> Cell {
    let (text, like) = match schedule {
        ScheduleView { problem: Some(_), .. } => ("broken", Status::Dead),
        ScheduleView { enabled: false, .. } => ("paused", Status::Cancelled),
        ScheduleView { next_run_at: None, .. } => ("ended", Status::Succeeded),
        _ => ("on", Status::Scheduled),
    };
    Cell::new(format!("● {text}")).style(status_style(like))
}

fn when(schedule: &ScheduleView) -> String {
    schedule.cron_description.trim_end_matches('.').to_owned()
}

/// A run in the user's time zone; with seconds if they are not zero.
fn minute(at: Timestamp) -> String {
    let whole = at.as_micros() % 60_000_000 == 0;
    format::local(at, if whole { "%a %Y-%m-%d %H:%M %Z" } else { "%a %Y-%m-%d %H:%M:%S %Z" })
}

fn next_in_words(next: Option<Timestamp>, now: Timestamp) -> String {
    next.map_or_else(|| "none".to_owned(), |at| format!("{}, {}", format::relative(at, now), minute(at)))
}

async fn show(cli: &Cli, admin: &dyn Administer, name: &str) -> Result<()> {
    let detail = admin.schedule(name, SHOWN_RUNS).await?;
    if cli.json {
        return print_json(&detail);
    }
    let (now, schedule) = (admin.now(), &detail.schedule);
    anstream::println!("{BOLD}{}{BOLD:#}  {}", schedule.name, schedule.id);
    anstream::println!("{}\n", sentence(schedule, now));
    let rows = [
        ("cron", Some(format!("{} in {}", schedule.cron, schedule.zone))),
        ("job", Some(format!("{}, queue {}, priority {}", schedule.job, schedule.queue, schedule.priority))),
        ("misfire", Some(schedule.misfire.to_string())),
        ("overlap", Some(schedule.overlap.to_string())),
        (
            "jitter",
            (schedule.jitter_ms > 0).then(|| format::in_words(std::time::Duration::from_millis(schedule.jitter_ms))),
        ),
        ("start", schedule.starts_at.map(format::exact)),
        ("end", schedule.ends_at.map(format::exact)),
        ("last run", schedule.last_run_at.map(format::exact)),
        ("description", schedule.description.clone()),
        ("owner", schedule.owner.clone()),
        ("changed", Some(format!("{} by {}", format::exact(schedule.updated_at), schedule.updated_by))),
        ("payload", Some(schedule.payload_preview.to_string())),
    ];
    text::print_facts(rows.into_iter().filter_map(|(name, value)| Some((name, value?))));
    if !detail.upcoming.is_empty() {
        anstream::println!("\n{BOLD}Next runs{BOLD:#}");
        runs(&schedule.zone, &detail.upcoming, now);
    }
    if !detail.jobs.is_empty() {
        anstream::println!("\n{BOLD}Last jobs{BOLD:#}");
        let mut table = Table::new(["ID", "STATUS", "OCCURRENCE", "FINISHED"]);
        for job in &detail.jobs {
            table.row([
                Cell::new(job.id.to_string()),
                Cell::status(job.status),
                Cell::new(job.occurrence.as_ref().map(|one| minute(one.at)).unwrap_or_default()),
                Cell::right(job.finished_at.map(|at| format::relative(at, now)).unwrap_or_default()),
            ]);
        }
        table.print();
    }
    anstream::println!("\n{BOLD}Events{BOLD:#}");
    let mut table = Table::new(["TIME", "ACTOR", "ACTION"]);
    for event in &detail.events {
        table.row([
            Cell::new(format::exact(event.at)),
            Cell::new(event.actor.clone()),
            Cell::new(event.action.clone()),
        ]);
    }
    table.print();
    Ok(())
}

fn sentence(schedule: &ScheduleView, now: Timestamp) -> String {
    match (&schedule.problem, schedule.enabled, schedule.next_run_at) {
        (Some(problem), ..) => format!("Broken: {problem}"),
        (None, false, _) => format!("Paused; resume it: punctual schedules resume {}", schedule.name),
        (None, true, None) => "Ended: no more runs".to_owned(),
        (None, true, next) => format!("{}; next run {}", when(schedule), next_in_words(next, now)),
    }
}

async fn put(cli: &Cli, admin: &dyn Administer, args: &PutSchedule) -> Result<()> {
    let PutSchedule { name, schedule } = args;
    let put = admin.put_schedule(name, schedule.clone().input()).await?;
    let view = admin.schedule(name, 0).await?.schedule;
    if cli.json {
        return print_json(&json!({ "put": put, "schedule": view }));
    }
    let done = match put {
        Put::Added => "added",
        Put::Changed => "changed",
        Put::Unchanged => "unchanged",
    };
    println!("{name} {done}: {}; next run {}", when(&view), next_in_words(view.next_run_at, admin.now()));
    Ok(())
}

async fn backfill(cli: &Cli, admin: &dyn Administer, args: &Backfill) -> Result<()> {
    let (name, now) = (&args.name, admin.now());
    let bounds = (args.since.from(now), args.until.from(now));
    if args.dry_run {
        let runs = admin.preview_backfill(name, bounds).await.map_err(|error| of_stored(name, error))?;
        if cli.json {
            return print_json(&json!({ "occurrences": runs }));
        }
        runs.iter().for_each(|at| println!("{}", minute(*at)));
        return Ok(());
    }
    let filled = admin.backfill_schedule(name, bounds).await.map_err(|error| of_stored(name, error))?;
    if cli.json {
        return print_json(&filled);
    }
    filled.enqueued.iter().for_each(|id| println!("{id}"));
    eprintln!("{} enqueued, {} already existed", filled.enqueued.len(), filled.existing);
    Ok(())
}

/// The next runs of a cron expression without a schedule.
fn runs_of(cron: &str, zone: &str, count: usize, now: Timestamp) -> Result<Vec<Timestamp>> {
    let spec = Recurring::new("preview", cron, Draft::new("preview", &())).zone(zone).check(now)?;
    let runs = spec.timing()?.upcoming(now, count.min(limits::PAGE_MAX_SCHEDULES));
    runs.map_err(|problem| Invalid::new("cron", problem).into())
}

fn preview(cli: &Cli, zone: &str, upcoming: &[Timestamp], now: Timestamp) -> Result<()> {
    if cli.json {
        return print_json(&json!({ "zone": zone, "upcoming": upcoming }));
    }
    runs(zone, upcoming, now);
    Ok(())
}

/// Prints runs in the schedule's time zone and, if it differs, in the user's.
fn runs(zone: &str, upcoming: &[Timestamp], now: Timestamp) {
    let zone = TimeZone::get(zone).unwrap_or_else(|_| TimeZone::system());
    for at in upcoming {
        let format = "%a %Y-%m-%d %H:%M:%S %Z";
        let (there, here) = (format::in_zone(*at, &zone, format), format::local(*at, format));
        let relative = format::relative(*at, now);
        if there == here {
            anstream::println!("{here}  {DIM}{relative}{DIM:#}");
        } else {
            anstream::println!("{there}  {DIM}{here}, {relative}{DIM:#}");
        }
    }
}
