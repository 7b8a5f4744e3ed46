//! `punctual workflows`: jobs that wait for others, as a whole.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::Read,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use punctual::{
    Admin, JobId, Punctual, Status, Timestamp, Workflow, WorkflowId,
    admin::{self, WorkflowDetail, WorkflowView},
    core::{Node, WorkflowStatus},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    args::{Cli, Workflows},
    commands::print_json,
    config::{Config, actor},
    exit::Usage,
    graph::{self, GraphNode},
    human::{self, BOLD, DIM, status_style},
    line::Line,
    table::{Cell, Table},
};

/// How long `--wait` waits.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Jobs that `show` lists; `--json` has all.
const SHOWN_JOBS: usize = 200;

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Workflows) -> Result<()> {
    if let Workflows::Submit { file, wait } = args {
        let workflow = read(file)?;
        return submit(cli, &config.connect(cli).await?, workflow, *wait).await;
    }
    let punctual = config.connect(cli).await?;
    let admin = punctual.admin(actor());
    match args {
        Workflows::Submit { .. } => Ok(()),
        Workflows::List { limit, after } => list(cli, &punctual, &admin, *limit, *after).await,
        Workflows::Show { id, graph, dot, svg } => {
            let detail = admin.workflow(*id).await?;
            let picture = || picture(&detail.nodes);
            if let Some(file) = dot {
                write(file, &graph::dot(&detail.workflow.name, &picture()))?;
            }
            if let Some(file) = svg {
                write(file, &graph::svg(&detail.workflow.name, &picture()))?;
            }
            if dot.is_some() || svg.is_some() {
                return Ok(());
            }
            show(cli, &detail, punctual.store().now(), *graph)
        }
        Workflows::Cancel { ids, reason } => {
            for id in ids {
                let jobs = admin.cancel_workflow(*id, reason.clone()).await?;
                tell(cli, &json!({"workflow": id, "cancelled": jobs}), &format!("{id}: {jobs} jobs cancelled"))?;
            }
            Ok(())
        }
        Workflows::Retry { ids } => {
            for id in ids {
                let done = admin.retry_workflow(*id).await?;
                let words = format!("{id}: {} dead jobs run again, {} are new", done.retried, done.renewed);
                tell(cli, &json!({"workflow": id, "retried": done.retried, "renewed": done.renewed}), &words)?;
            }
            Ok(())
        }
    }
}

fn tell(cli: &Cli, value: &Value, words: &str) -> Result<()> {
    if cli.json {
        return print_json(value);
    }
    println!("{words}");
    Ok(())
}

/// A workflow in the words of users.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkflowFile {
    name: String,
    jobs: BTreeMap<String, Line<Value>>,
    on_success: Option<Line<Value>>,
    on_failure: Option<Line<Value>>,
    on_complete: Option<Line<Value>>,
}

fn read(path: &Path) -> Result<Workflow> {
    let cannot = |error: std::io::Error| Usage(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map_err(cannot)?;
    } else {
        text = std::fs::read_to_string(path).map_err(cannot)?;
    }
    // JSON is YAML too, but its own reader tells better what is wrong with it.
    let parsed: Result<WorkflowFile, String> = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        serde_saphyr::from_str(&text).map_err(|error| first_line(&error.to_string()))
    };
    workflow(parsed.map_err(|error| Usage(format!("{}: {error}; nothing was submitted", path.display())))?)
}

/// What is wrong and where, without the picture of it.
fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn workflow(file: WorkflowFile) -> Result<Workflow> {
    let mut workflow = Workflow::new(file.name);
    workflow.created_by(actor());
    for (node, mut line) in file.jobs {
        let after = std::mem::take(&mut line.after);
        if line.name.is_empty() {
            line.name.clone_from(&node);
        }
        let draft = line.draft().with_context(|| format!("job `{node}`; nothing was submitted"))?;
        workflow.job(node, draft.created_by(actor())).after(after);
    }
    type Add = fn(&mut Workflow, punctual::Draft);
    let callbacks: [(&str, Option<Line<Value>>, Add); 3] = [
        ("on_success", file.on_success, Workflow::on_success),
        ("on_failure", file.on_failure, Workflow::on_failure),
        ("on_complete", file.on_complete, Workflow::on_complete),
    ];
    for (name, line, add) in callbacks {
        if let Some(line) = line {
            let draft = line.draft().with_context(|| format!("{name}; nothing was submitted"))?;
            add(&mut workflow, draft.created_by(actor()));
        }
    }
    Ok(workflow)
}

async fn submit(cli: &Cli, punctual: &Punctual, workflow: Workflow, wait: bool) -> Result<()> {
    let id = punctual.submit(workflow).await?;
    if !wait {
        return tell(cli, &json!({"workflow": id}), &id.to_string());
    }
    if !cli.json {
        println!("{id}");
    }
    punctual.wait_workflow(id, WAIT_MAX).await?;
    let detail = punctual.admin(actor()).workflow(id).await?;
    if cli.json {
        print_json(&detail)?;
    } else if !detail.result.is_empty() {
        println!("{}", serde_json::to_string(&detail.result)?);
    }
    if detail.status != WorkflowStatus::Succeeded {
        anyhow::bail!("{id} is {}; see it with: punctual workflows show {id} --graph", detail.status);
    }
    Ok(())
}

async fn list(cli: &Cli, punctual: &Punctual, admin: &Admin, limit: usize, before: Option<WorkflowId>) -> Result<()> {
    let page = admin.workflows(before, limit).await?;
    if cli.json {
        return print_json(&page);
    }
    if page.workflows.is_empty() {
        anstream::println!("{DIM}no workflows; submit one with: punctual workflows submit FILE{DIM:#}");
        return Ok(());
    }
    let now = punctual.store().now();
    let mut table = Table::new(["ID", "NAME", "STATUS", "DONE", "JOBS", "DEAD", "CANCELLED", "SUBMITTED", "BY"]);
    for view in &page.workflows {
        let workflow = &view.workflow;
        table.row([
            Cell::new(workflow.id.to_string()),
            Cell::new(workflow.name.clone()),
            Cell::new(format!("● {}", view.status)).style(status_style(like(view.status))),
            Cell::right(format!("{:.0} %", view.progress)),
            Cell::number(u64::from(workflow.ends.total)),
            Cell::number(u64::from(workflow.ends.dead)),
            Cell::number(u64::from(workflow.ends.cancelled)),
            Cell::right(human::relative(workflow.created_at, now)),
            Cell::new(workflow.created_by.clone().unwrap_or_default()),
        ]);
    }
    table.print();
    if let Some(next) = page.next {
        anstream::println!("{DIM}more: punctual workflows list --after {next}{DIM:#}");
    }
    Ok(())
}

/// The job's state that a workflow's is most like.
const fn like(status: WorkflowStatus) -> Status {
    match status {
        WorkflowStatus::Running => Status::Processing,
        WorkflowStatus::Succeeded => Status::Succeeded,
        WorkflowStatus::Failed => Status::Dead,
        WorkflowStatus::Cancelled => Status::Cancelled,
    }
}

fn show(cli: &Cli, detail: &WorkflowDetail, now: Timestamp, graph: bool) -> Result<()> {
    if cli.json {
        return print_json(detail);
    }
    let (workflow, style) = (&detail.workflow, status_style(like(detail.status)));
    anstream::println!("{BOLD}{}{BOLD:#}  {}", workflow.name, workflow.id);
    anstream::println!("{style}● {}{style:#}\n", sentence(detail, now));
    let mut rows = vec![("submitted", human::exact(workflow.created_at))];
    rows.extend(workflow.created_by.clone().map(|creator| ("by", creator)));
    if !detail.result.is_empty() {
        rows.push(("result", serde_json::to_string(&detail.result)?));
    }
    human::facts(rows);
    println!();
    if graph {
        let paint = |text: &str, status: &str| {
            let style = status.parse().map(status_style).unwrap_or_default();
            format!("{style}{text}{style:#}")
        };
        anstream::println!("{}", graph::text(&picture(&detail.nodes), &paint));
    } else {
        jobs(&detail.nodes);
    }
    Ok(())
}

/// How the workflow stands, in one sentence.
fn sentence(view: &WorkflowView, now: Timestamp) -> String {
    let (id, ends) = (view.workflow.id, view.workflow.ends);
    let when = human::relative(view.workflow.updated_at, now);
    match view.status {
        WorkflowStatus::Running => {
            format!("Running, {} of {} jobs have ended", ends.total - ends.unfinished(), ends.total)
        }
        WorkflowStatus::Succeeded => format!("Succeeded {when}, {} jobs", ends.total),
        WorkflowStatus::Failed => format!(
            "Failed {when}: {} dead, {} cancelled of {}; run them again with: punctual workflows retry {id}",
            ends.dead, ends.cancelled, ends.total
        ),
        WorkflowStatus::Cancelled => format!(
            "Cancelled {when}: {} of {} jobs; run them with: punctual workflows retry {id}",
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

/// The jobs as they are drawn. A callback waits for all of them; that it comes after the last ones says as much.
fn picture(nodes: &[Node]) -> Vec<GraphNode> {
    let places: HashMap<JobId, usize> = nodes.iter().enumerate().map(|(place, node)| (node.id, place)).collect();
    let members = nodes.iter().filter(|node| !admin::is_callback(node));
    let waited_for: HashSet<JobId> = members.flat_map(|node| node.parents.iter().copied()).collect();
    let drawn = |node: &Node| {
        let shown = |parent: &&JobId| !admin::is_callback(node) || !waited_for.contains(parent);
        GraphNode {
            node: node.node.clone(),
            job: node.name.clone(),
            status: node.status.as_str(),
            parents: node.parents.iter().filter(shown).filter_map(|parent| places.get(parent)).copied().collect(),
        }
    };
    nodes.iter().map(drawn).collect()
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
