//! The workflows pages, with the graph of a workflow.

use std::collections::HashMap;

use maud::{Markup, PreEscaped, html};
use punctual_client::admin::{WorkflowDetail, WorkflowView, is_callback};
use punctual_core::{JobId, WorkflowId, WorkflowStatus};
use serde::Deserialize;

use super::{
    Answer,
    components::{self, ConfirmedAction},
    layout::Page,
    page_context::PageContext,
};
use crate::{api::OfWorkflow, problem::Problem};

const PAGE_WORKFLOWS: usize = 50;
/// Maximum number of jobs that are drawn and listed; the API returns all.
const DRAWN_MAX_JOBS: usize = 500;

/// The query parameters of the page.
#[derive(Deserialize)]
pub(super) struct WorkflowsQuery {
    after: Option<WorkflowId>,
}

fn state(status: WorkflowStatus) -> Markup {
    html! { span class={ "state s-" (status.job_status()) } { i {} (status) } }
}

pub(super) async fn list(context: PageContext, WorkflowsQuery { after }: WorkflowsQuery) -> Answer {
    let first = after.map(|_| "/workflows");
    let list = context.admin().workflows(after, PAGE_WORKFLOWS).await?;
    let next = list.next.map(|next| format!("/workflows?after={next}"));
    let content = html! {
        section #workflows data-live {
            @if list.workflows.is_empty() {
                (components::empty("There are no workflows yet.", "A workflow is a set of jobs that depend on each other. Submit one from your program, or with this command:", "punctual workflows submit FILE.json"))
            } @else {
                section.scroll tabindex="0" aria-label="List of workflows" { table.rows {
                    thead { tr { th scope="col" { "State" } th scope="col" { "Workflow" } th scope="col" { "Progress" } th.num scope="col" { "Jobs" } th.num.wide scope="col" { "Dead" } th.num scope="col" { "Submitted" } th.wide scope="col" { "By" } th scope="col" { "Id" } } }
                    tbody { @for view in &list.workflows { (row(&context, view)) } }
                } }
                (components::pages(first, next.as_deref()))
            }
        }
    };
    Ok(context.html(Page::new("Workflows", "/workflows"), &content))
}

fn row(context: &PageContext, view: &WorkflowView) -> Markup {
    let workflow = &view.workflow;
    html! {
        tr {
            td { (state(view.status)) }
            td.main { a href={ "/workflows/" (workflow.id) } { (components::name(&workflow.name)) } }
            td { (components::progress(view.progress, &format!("{:.0} % finished", view.progress))) }
            td.num { (workflow.ends.total - workflow.ends.unfinished()) span.muted { " / " (workflow.ends.total) } }
            td.num.wide { @if workflow.ends.dead == 0 { span.zero { "0" } } @else { span.s-dead { (workflow.ends.dead) } } }
            td.num { (components::when(workflow.created_at, context.now)) }
            td.wide { (components::name(workflow.created_by.as_deref().unwrap_or_default())) }
            td { (components::id(workflow.id)) }
        }
    }
}

pub(super) async fn show(context: PageContext, OfWorkflow { id }: OfWorkflow) -> Answer {
    let detail = context.admin().workflow(id).await?;
    let content = html! {
        section.history #history data-live {
            p.sentence { (state(detail.view.status)) span { (sentence(&detail.view)) } }
            p { (components::progress(detail.view.progress, "progress")) }
        }
        @if context.may_change() { div.actions #actions data-live { (actions(&context, &detail)) } }
        section #graph data-live { (graph(&detail)) }
        section #nodes data-live { h2 { "Jobs" } (nodes(&detail)) }
        @if !detail.result.is_empty() {
            section { h2 { "Result" } (components::document("Result", &serde_json::to_value(&detail.result).unwrap_or_default())) }
        }
    };
    let name = detail.view.workflow.name.clone();
    let mut page = Page::new(&name, "/workflows");
    page.heading = Some(html! { h1 { (components::name(&name)) } (components::id(id)) });
    Ok(context.html(page, &content))
}

fn sentence(view: &WorkflowView) -> String {
    let ends = view.workflow.ends;
    match view.status {
        WorkflowStatus::Running => {
            format!("Running: {} of {} jobs have finished.", ends.total - ends.unfinished(), ends.total)
        }
        WorkflowStatus::Succeeded => format!("All {} jobs succeeded.", ends.total),
        WorkflowStatus::Failed => {
            format!("Failed: {} dead, {} cancelled of {}.", ends.dead, ends.cancelled, ends.total)
        }
        WorkflowStatus::Cancelled => format!("Cancelled: {} of {} jobs.", ends.cancelled, ends.total),
    }
}

fn actions(context: &PageContext, detail: &WorkflowDetail) -> Markup {
    let (ends, id) = (detail.view.workflow.ends, detail.view.workflow.id);
    let unfinished = components::plural(ends.unfinished().into(), "job", "jobs");
    html! {
        @if ends.dead + ends.cancelled > 0 { (components::button(context, &format!("/workflows/{id}/retry"), "Retry", Some("r"))) }
        @else { (components::disabled("Retry", "no job has failed")) }
        @if ends.unfinished() > 0 { (components::confirm_button(context, &ConfirmedAction { action: &format!("/workflows/{id}/cancel"), label: "Cancel", question: &format!("{unfinished} will be cancelled."), key: Some("c") })) }
        @else { (components::disabled("Cancel", "all jobs have finished")) }
    }
}

fn graph(detail: &WorkflowDetail) -> Markup {
    if detail.nodes.len() > DRAWN_MAX_JOBS {
        return html! { p.muted { "The graph is not drawn: the workflow has " (detail.nodes.len()) " jobs, more than " (DRAWN_MAX_JOBS) "." } };
    }
    let drawn = punctual_graph::picture(&detail.nodes, is_callback);
    let link = |index: usize| detail.nodes.get(index).map_or_else(String::new, |node| format!("/jobs/{}", node.id));
    html! { section.graph tabindex="0" aria-label="Graph" { (PreEscaped(punctual_graph::embedded(&detail.view.workflow.name, &drawn, &link))) } }
}

fn nodes(detail: &WorkflowDetail) -> Markup {
    let names: HashMap<JobId, &str> = detail.nodes.iter().map(|node| (node.id, node.node.as_str())).collect();
    let after = |parents: &[JobId]| {
        let mut nodes: Vec<&str> = parents.iter().take(4).filter_map(|id| names.get(id).copied()).collect();
        if parents.len() > 4 {
            nodes.push("…");
        }
        nodes.join(", ")
    };
    html! {
        section.scroll tabindex="0" aria-label="Jobs of the workflow" { table.rows {
            thead { tr { th scope="col" { "State" } th scope="col" { "Job" } th.wide scope="col" { "Name" } th.wide scope="col" { "After" } th scope="col" { "Id" } } }
            tbody { @for node in detail.nodes.iter().take(DRAWN_MAX_JOBS) {
                tr { td { (components::status(node.status)) } td.main { a href={ "/jobs/" (node.id) } { (components::name(&node.node)) } } td.wide { (components::name(&node.name)) } td.wide.muted { (components::name(&after(&node.parents))) } td { (components::id(node.id)) } }
            } }
        } }
        @if detail.nodes.len() > DRAWN_MAX_JOBS { p.muted { "and " (detail.nodes.len() - DRAWN_MAX_JOBS) " more" } }
    }
}

/// The form of an action on a workflow.
#[derive(Deserialize)]
pub(super) struct WorkflowActionForm {
    id: WorkflowId,
    verb: String,
}

pub(super) async fn act(context: PageContext, WorkflowActionForm { id, verb }: WorkflowActionForm) -> Answer {
    let page = format!("/workflows/{id}");
    match verb.as_str() {
        "cancel" => {
            let count = context.admin().cancel_workflow(id, None).await?;
            Ok(context.done(&page, &format!("Cancelled {}.", components::plural(count, "job", "jobs"))))
        }
        "retry" => {
            let done = context.admin().retry_workflow(id).await?;
            Ok(context.done(&page, &format!("Retried {}, renewed {}.", done.retried, done.renewed)))
        }
        other => Err(Problem::not_found(format!("unknown action `{other}`; expected cancel or retry"))),
    }
}
