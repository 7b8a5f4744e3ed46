//! `punctual workflows`: submits, shows, cancels and retries jobs that depend on each other.

use std::{collections::HashMap, io::Read, path::Path, time::Duration};

use anyhow::{Context, Result};
use punctual::{
    JobId, Status, Timestamp,
    admin::{self, WorkflowDetail, WorkflowView},
    core::{Node, WorkflowStatus},
    input::WorkflowInput,
};
use punctual_graph as graph;
use serde_json::{Value, json};
use tracing::Instrument;

use crate::{
    administer::Administer,
    args::{Cli, ListWorkflows, Workflows},
    config::{Config, actor},
    exit::Usage,
    format::{self, BOLD, DIM, status_style},
    output::print_json,
    table::{Cell, Table},
    target, text, traces,
};

/// Maximum wait of `--wait`.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of jobs that `show` lists; `--json` has all.
const SHOWN_JOBS: usize = 200;

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Workflows) -> Result<()> {
    if let Workflows::Submit { file, wait } = args {
        let workflow = read(file)?;
        let admin = target::administer(cli, config).await?;
        return submit(cli, &*admin, workflow, *wait).instrument(traces::span()).await;
    }
    let admin = &*target::administer(cli, config).await?;
    match args {
        Workflows::Submit { .. } => Ok(()),
        Workflows::List(args) => list(cli, admin, args).await,
        Workflows::Show { id, graph, dot, svg } => {
            let detail = admin.workflow(*id).await?;
            let picture = || graph::picture(&detail.nodes, admin::is_callback);
            if let Some(file) = dot {
                write(file, &graph::dot(&detail.workflow.name, &picture()))?;
            }
            if let Some(file) = svg {
                write(file, &graph::svg(&detail.workflow.name, &picture()))?;
            }
            if dot.is_some() || svg.is_some() {
                return Ok(());
            }
            show(cli, &detail, admin.now(), *graph)
        }
        Workflows::Cancel { ids, reason } => {
            for id in ids {
                let jobs = admin.cancel_workflow(*id, reason.clone()).await?;
                print(cli, &json!({"workflow": id, "cancelled": jobs}), &format!("{id}: {jobs} jobs cancelled"))?;
            }
            Ok(())
        }
        Workflows::Retry { ids } => {
            for id in ids {
                let done = admin.retry_workflow(*id).await?;
                let text = format!("{id}: {} dead jobs retried, {} jobs enqueued again", done.retried, done.renewed);
                print(cli, &json!({"workflow": id, "retried": done.retried, "renewed": done.renewed}), &text)?;
            }
            Ok(())
        }
    }
}

fn print(cli: &Cli, value: &Value, text: &str) -> Result<()> {
    if cli.json {
        return print_json(value);
    }
    println!("{text}");
    Ok(())
}

fn read(path: &Path) -> Result<WorkflowInput<Value>> {
    let cannot = |error: std::io::Error| Usage(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map_err(cannot)?;
    } else {
        text = std::fs::read_to_string(path).map_err(cannot)?;
    }
    // JSON is valid YAML, but the JSON parser has better error messages.
    let parsed: Result<WorkflowInput<Value>, String> = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        serde_saphyr::from_str(&text).map_err(|error| first_line(&error.to_string()))
    };
    let input = parsed.map_err(|error| Usage(format!("{}: {error}; nothing was submitted", path.display())))?;
    input.clone().workflow(&actor()).context("nothing was submitted")?;
    Ok(input)
}

/// The error and its position, without the excerpt of the file.
fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

async fn submit(cli: &Cli, admin: &dyn Administer, workflow: WorkflowInput<Value>, wait: bool) -> Result<()> {
    let id = admin.submit(workflow).await?;
    if !wait {
        return print(cli, &json!({"workflow": id}), &id.to_string());
    }
    if !cli.json {
        println!("{id}");
    }
    admin.wait_workflow(id, WAIT_MAX).await?;
    let detail = admin.workflow(id).await?;
    if cli.json {
        print_json(&detail)?;
    } else if !detail.result.is_empty() {
        println!("{}", serde_json::to_string(&detail.result)?);
    }
    if detail.status != WorkflowStatus::Succeeded {
        anyhow::bail!("{id} is {}; inspect it: punctual workflows show {id} --graph", detail.status);
    }
    Ok(())
}

async fn list(cli: &Cli, admin: &dyn Administer, args: &ListWorkflows) -> Result<()> {
    let page = admin.workflows(args.after, args.limit).await?;
    if cli.json {
        return print_json(&page);
    }
    if page.workflows.is_empty() {
        anstream::println!("{DIM}no workflows; submit one with: punctual workflows submit FILE{DIM:#}");
        return Ok(());
    }
    let now = admin.now();
    let mut table = Table::new(["ID", "NAME", "STATUS", "DONE", "JOBS", "DEAD", "CANCELLED", "SUBMITTED", "BY"]);
    for view in &page.workflows {
        let workflow = &view.workflow;
        table.row([
            Cell::new(workflow.id.to_string()),
            Cell::new(workflow.name.clone()),
            Cell::new(format!("● {}", view.status)).style(status_style(view.status.job_status())),
            Cell::right(format!("{:.0} %", view.progress)),
            Cell::number(u64::from(workflow.ends.total)),
            Cell::number(u64::from(workflow.ends.dead)),
            Cell::number(u64::from(workflow.ends.cancelled)),
            Cell::right(format::relative(workflow.created_at, now)),
            Cell::new(workflow.created_by.clone().unwrap_or_default()),
        ]);
    }
    table.print();
    if let Some(next) = page.next {
        anstream::println!("{DIM}more: punctual workflows list --after {next}{DIM:#}");
    }
    Ok(())
}

fn show(cli: &Cli, detail: &WorkflowDetail, now: Timestamp, graph: bool) -> Result<()> {
    if cli.json {
        return print_json(detail);
    }
    let (workflow, style) = (&detail.workflow, status_style(detail.status.job_status()));
    anstream::println!("{BOLD}{}{BOLD:#}  {}", workflow.name, workflow.id);
    anstream::println!("{style}● {}{style:#}\n", sentence(detail, now));
    let mut rows = vec![("submitted", format::exact(workflow.created_at))];
    rows.extend(workflow.created_by.clone().map(|creator| ("by", creator)));
    if !detail.result.is_empty() {
        rows.push(("result", serde_json::to_string(&detail.result)?));
    }
    text::print_facts(rows);
    println!();
    if graph {
        let paint = |text: &str, status: Status| {
            let style = status_style(status);
            format!("{style}{text}{style:#}")
        };
        anstream::println!("{}", graph::text(&graph::picture(&detail.nodes, admin::is_callback), &paint));
    } else {
        jobs(&detail.nodes);
    }
    Ok(())
}

/// The status of the workflow, in one sentence.
fn sentence(view: &WorkflowView, now: Timestamp) -> String {
    let (id, ends) = (view.workflow.id, view.workflow.ends);
    let when = format::relative(view.workflow.updated_at, now);
    match view.status {
        WorkflowStatus::Running => {
            format!("Running, {} of {} jobs have ended", ends.total - ends.unfinished(), ends.total)
        }
        WorkflowStatus::Succeeded => format!("Succeeded {when}, {} jobs", ends.total),
        WorkflowStatus::Failed => format!(
            "Failed {when}: {} dead, {} cancelled of {}; retry them: punctual workflows retry {id}",
            ends.dead, ends.cancelled, ends.total
        ),
        WorkflowStatus::Cancelled => format!(
            "Cancelled {when}: {} of {} jobs; retry them: punctual workflows retry {id}",
            ends.cancelled, ends.total
        ),
    }
}

fn jobs(nodes: &[Node]) {
    let names: HashMap<JobId, &str> = nodes.iter().map(|node| (node.id, node.node.as_str())).collect();
    let name = |id: &JobId| names.get(id).map_or_else(|| id.to_string(), |name| (*name).to_owned());
    let mut table = Table::new(["NODE", "STATUS", "JOB", "ID", "AFTER"]);
    for node in nodes.iter().take(SHOWN_JOBS) {
        let mut after: Vec<String> = node.parents.iter().take(5).map(name).collect();
        if node.parents.len() > after.len() {
            after.push(format!("and {} more", node.parents.len() - after.len()));
        }
        table.row([
            Cell::new(node.node.clone()),
            Cell::status(node.status),
            Cell::new(node.name.clone()),
            Cell::new(node.id.to_string()),
            Cell::new(after.join(", ")),
        ]);
    }
    table.print();
    if nodes.len() > SHOWN_JOBS {
        anstream::println!("{DIM}and {} more; --json has all{DIM:#}", nodes.len() - SHOWN_JOBS);
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    if file == Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(file, text).map_err(|error| Usage(format!("cannot write {}: {error}", file.display())))?;
    eprintln!("wrote {}", file.display());
    Ok(())
}
