//! `punctual move`: moves everything in one store to another.

use std::path::Path;

use anyhow::{Result, bail};
use punctual::{
    Punctual,
    admin::is_live,
    core::{
        Create,
        transfer::{self, Transferred},
    },
};
use serde_json::json;

use crate::{
    args::{Cli, Move},
    exit::{NotFound, Refusal},
    format,
    output::{print_json, progress_bar},
};

pub(crate) async fn run(cli: &Cli, args: &Move) -> Result<()> {
    check_file(&args.from)?;
    let from = Punctual::connect_with(&args.from, Create::Nothing).await?;
    let to = Punctual::connect_with(&args.to, Create::InEmpty).await?;
    check(&from, &to, args).await?;
    let bar = progress_bar(cli.json);
    bar.set_length(jobs_in(&from).await?);
    bar.set_message("move");
    let transferred = transfer::transfer(&**from.store(), &**to.store(), |jobs| bar.set_position(jobs as u64)).await;
    bar.finish_and_clear();
    let done = transferred.map_err(punctual::Error::from)?;
    let differences = transfer::differences(&**from.store(), &**to.store()).await.map_err(punctual::Error::from)?;
    if cli.json {
        print_json(&json!({"moved": done, "differences": differences}))?;
    } else {
        println!("{}", summary(&done));
    }
    if !differences.is_empty() {
        bail!(
            "the stores differ: one of them was changed during the move; stop all clients and move to an empty store again:\n  {}",
            differences.join("\n  ")
        );
    }
    if !cli.json {
        println!("{} is complete; {} is unchanged", to.store().info().location, from.store().info().location);
    }
    Ok(())
}

/// Fails if the source file does not exist: connecting would create it.
fn check_file(url: &str) -> Result<()> {
    let path = url.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
    match path.map(|path| path.split('?').next().unwrap_or(path)) {
        Some(path) if !Path::new(path).exists() => Err(NotFound(format!("--from: file {path} not found")).into()),
        _ => Ok(()),
    }
}

/// Refuses moves that would fail or lose changes.
async fn check(from: &Punctual, to: &Punctual, args: &Move) -> Result<()> {
    let (here, there) = (from.store().info().location, to.store().info().location);
    let refuse = |why: String| Err(Refusal(why).into());
    if here == there {
        return refuse(format!("{here} is both --from and --to"));
    }
    if let Some(worker) = live_worker(from).await?.filter(|_| !args.force) {
        return refuse(format!(
            "{here} has live workers, such as {worker}; stop them, or confirm with --force: changes from now on are not moved"
        ));
    }
    // Jobs are moved before their dependencies, without which no job may end.
    if let Some(worker) = live_worker(to).await? {
        return refuse(format!("{there} has live workers, such as {worker}; stop them until the move is complete"));
    }
    let known = jobs_in(to).await?;
    if known > 0 && !args.resume {
        let known = format::number(known);
        return refuse(format!(
            "{there} has {known} jobs already; expected an empty store; use --resume to continue an interrupted move"
        ));
    }
    Ok(())
}

/// A live worker of the store, as text.
async fn live_worker(punctual: &Punctual) -> Result<Option<String>> {
    let (workers, now) = (punctual.admin("move").workers().await?, punctual.store().now());
    let live = workers.into_iter().find(|worker| is_live(worker, now));
    Ok(live.map(|worker| format!("{} on {}", worker.heartbeat.id, worker.heartbeat.host)))
}

async fn jobs_in(punctual: &Punctual) -> Result<u64> {
    let counts = punctual.store().counts().await.map_err(punctual::Error::from)?;
    Ok(counts.iter().map(|count| count.count).sum())
}

/// The numbers of moved items, as text.
fn summary(done: &Transferred) -> String {
    let Transferred { jobs, dependencies, workflows, schedules, queues, notifications, tokens } = *done;
    let parts = [
        (jobs, "job", "jobs"),
        (dependencies, "dependency", "dependencies"),
        (workflows, "workflow", "workflows"),
        (schedules, "schedule", "schedules"),
        (queues, "queue", "queues"),
        (notifications, "notification", "notifications"),
        (tokens, "token", "tokens"),
    ];
    // The number of jobs is always shown.
    let shown = parts.into_iter().enumerate().filter(|(index, (count, ..))| *index == 0 || *count > 0);
    let part =
        |(_, (count, one, many))| format!("{} {}", format::number(count as u64), if count == 1 { one } else { many });
    format!("moved {}", shown.map(part).collect::<Vec<_>>().join(", "))
}
