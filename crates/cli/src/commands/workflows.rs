//! `punctual workflows`: submits, shows, cancels and retries jobs that depend on each other.

use std::{collections::HashMap, io::Read, path::Path, time::Duration};

use anyhow::{Context, Result};
use punctual::{
    JobId, Status, Timestamp, WorkflowId,
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
    output::{Results, print_document, print_json, print_result},
    parse_errors,
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
            if dot.is_some() || svg.is_some() {
                return draw(cli, &detail, dot.as_deref(), svg.as_deref());
            }
            show(cli, &detail, admin.now(), *graph)
        }
        Workflows::Cancel { ids, reason } => {
            let mut results = Results::new(cli.json, "workflows");
            let done = cancel(admin, ids, reason.as_ref(), &mut results).await;
            results.end(done)
        }
        Workflows::Retry { ids } => {
            let mut results = Results::new(cli.json, "workflows");
            let done = retry(admin, ids, &mut results).await;
            results.end(done)
        }
    }
}

async fn cancel(
    admin: &dyn Administer,
    ids: &[WorkflowId],
    reason: Option<&String>,
    results: &mut Results,
) -> Result<()> {
    for id in ids {
        let jobs = admin.cancel_workflow(*id, reason.cloned()).await?;
        results.add(json!({"id": id, "cancelled": jobs}), &format!("{id}: {jobs} jobs cancelled"));
    }
    Ok(())
}

async fn retry(admin: &dyn Administer, ids: &[WorkflowId], results: &mut Results) -> Result<()> {
    for id in ids {
        let done = admin.retry_workflow(*id).await?;
        let text = format!("{id}: {} dead jobs retried, {} jobs enqueued again", done.retried, done.renewed);
        results.add(json!({"id": id, "retried": done.retried, "renewed": done.renewed}), &text);
    }
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
    let parsed = parse_errors::from_yaml_or_json::<WorkflowInput<Value>>(&text);
    let input = parsed.map_err(|error| Usage(format!("{}: {error}; nothing was submitted", path.display())))?;
    input.clone().workflow(&actor()).context("nothing was submitted")?;
    Ok(input)
}

async fn submit(cli: &Cli, admin: &dyn Administer, workflow: WorkflowInput<Value>, wait: bool) -> Result<()> {
    let id = admin.submit(workflow).await?;
    if !wait {
        return print_result(cli.json, &json!({"workflow": id}), &id.to_string());
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
    let mut table = Table::new(["ID", "NAME", "STATUS", "DONE", "JOBS", "DEAD", "CANCELLED", "SUBMITTED", "BY"])
        .optional(&["BY", "CANCELLED", "SUBMITTED", "DEAD", "JOBS"]);
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

/// Writes the graph to files, or to standard output.
fn draw(cli: &Cli, detail: &WorkflowDetail, dot: Option<&Path>, svg: Option<&Path>) -> Result<()> {
    let (name, picture) = (&detail.workflow.name, graph::picture(&detail.nodes, admin::is_callback));
    let documents =
        [dot.map(|file| (file, graph::dot(name, &picture))), svg.map(|file| (file, graph::svg(name, &picture)))];
    let mut written = Vec::new();
    for (file, text) in documents.into_iter().flatten() {
        if file == Path::new("-") && cli.json {
            return Err(Usage("--json and the graph would both be on standard output; name a file".into()).into());
        }
        if file == Path::new("-") {
            print_document(&text)?;
            continue;
        }
        let shown = file.display().to_string();
        std::fs::write(file, text).map_err(|error| Usage(format!("cannot write {shown}: {error}")))?;
        if !cli.json {
            eprintln!("wrote {shown}");
        }
        written.push(shown);
    }
    if cli.json { print_json(&json!({ "written": written })) } else { Ok(()) }
}
