//! The schedules pages: last jobs and next runs.

use std::time::Duration;

use maud::{Markup, html};
use punctual_client::admin::ScheduleView;
use punctual_core::time::in_words;
use serde::{Deserialize, Serialize};

use super::{
    Answer,
    components::{self, ConfirmedAction},
    jobs,
    layout::Page,
    page_context::PageContext,
};
use crate::{api::Named, problem::Problem};

const PAGE_SCHEDULES: usize = 100;
/// Number of next runs that are listed.
const UPCOMING_SHOWN: usize = 10;

/// The query parameters of the page.
#[derive(Deserialize)]
pub(super) struct SchedulesQuery {
    after: Option<String>,
}

pub(super) async fn list(context: PageContext, SchedulesQuery { after }: SchedulesQuery) -> Answer {
    let list = context.admin().schedules(after, PAGE_SCHEDULES).await?;
    let content = html! {
        section #schedules data-live {
            @if list.schedules.is_empty() {
                (components::empty("There are no schedules yet.", "A schedule enqueues a job at the times of a cron expression, in a time zone:", "punctual schedules put nightly '0 3 * * *' echo --zone Europe/Paris"))
            } @else {
                div.scroll { table.rows {
                    thead { tr { th { "Schedule" } th { "Times" } th.wide { "Time zone" } th.wide { "Job" } th.num { "Next run" } th.num.wide { "Last run" } @if context.may_change() { th { span.hidden { "Actions" } } } } }
                    tbody { @for schedule in &list.schedules { (row(&context, schedule)) } }
                } }
            }
            nav.pages { @if let Some(next) = &list.next { a rel="next" href=(components::query("/schedules", &[("after", Some(next))])) { "Next page" } } }
        }
    };
    Ok(context.html(Page::new("Schedules", "/schedules"), &content))
}

fn row(context: &PageContext, schedule: &ScheduleView) -> Markup {
    html! {
        tr {
            td.main { a href={ "/schedules/" (components::part(&schedule.name)) } title=[schedule.description.as_deref()] { (schedule.name) } (mark(schedule)) }
            td title=(schedule.cron) { (schedule.cron_description) }
            td.wide { (schedule.zone) }
            td.wide { a.quiet href=(components::query("/jobs", &[("schedule", Some(&schedule.name))])) { (schedule.job) } }
            td.num { (components::when_some(schedule.next_run_at, context.now)) }
            td.num.wide { @match schedule.last_job { Some(job) => a href={ "/jobs/" (job) } { (components::when_some(schedule.last_run_at, context.now)) }, None => (components::when_some(schedule.last_run_at, context.now)) } }
            @if context.may_change() { td.num { (actions(context, schedule)) } }
        }
    }
}

fn mark(schedule: &ScheduleView) -> Markup {
    html! {
        @if schedule.problem.is_some() { span.badge.wrong { "disabled" } }
        @else if !schedule.enabled { span.badge { "paused" } }
    }
}

fn actions(context: &PageContext, schedule: &ScheduleView) -> Markup {
    let to = |verb: &str| format!("/schedules/{}/{verb}", components::part(&schedule.name));
    html! {
        (components::button(context, &to("trigger"), "Trigger", None))
        @if schedule.enabled { (components::button(context, &to("pause"), "Pause", None)) } @else { (components::button(context, &to("resume"), "Resume", None)) }
    }
}

pub(super) async fn show(context: PageContext, Named { name }: Named) -> Answer {
    let detail = context.admin().schedule(&name, UPCOMING_SHOWN).await?;
    let (schedule, now) = (&detail.schedule, context.now);
    let content = html! {
        section.history #history data-live {
            p.sentence { (summary(&context, schedule)) }
            @if let Some(problem) = &schedule.problem { p.wrong { (problem) } }
        }
        div.columns {
            div {
                section #jobs data-live {
                    h2 { "Jobs" a.more href=(components::query("/jobs", &[("schedule", Some(&name))])) { "All" } }
                    @if detail.jobs.is_empty() { p.muted { "No jobs yet." } } @else { (jobs::table(&context, &detail.jobs, jobs::Time::Created, false)) }
                }
                section #events data-live {
                    h2 { "History" }
                    @if detail.events.is_empty() { p.muted { "No changes yet." } }
                    @else { ul.events { @for event in &detail.events { li { (event.action) " " span.muted { "by " (event.actor) } " " (components::when(event.at, now)) } } } }
                }
            }
            div {
                section #upcoming data-live {
                    h2 { "Next runs" }
                    @if !schedule.enabled { p.muted { "None: the schedule is paused." } }
                    @else { ol.upcoming { @for at in &detail.upcoming { li { (components::when_exact(*at)) span.muted { (components::when(*at, now)) } } } } }
                }
                section { h2 { "Details" } (facts(&context, schedule)) }
                section { h2 { "Payload" } (components::document(&schedule.payload_preview)) }
            }
        }
    };
    let mut page = Page::new(&schedule.name, "/schedules");
    page.heading = Some(html! { h1 { (schedule.name) } (mark(schedule)) });
    if context.may_change() {
        let delete = format!("/schedules/{}/delete", components::part(&schedule.name));
        page.tools = html! { (actions(&context, schedule)) (components::confirm_button(&context, &ConfirmedAction { action: &delete, label: "Delete", question: "The jobs of the schedule are kept.", key: None })) };
    }
    Ok(context.html(page, &content))
}

fn summary(context: &PageContext, schedule: &ScheduleView) -> String {
    let next = schedule.next_run_at.map_or_else(|| "never".to_owned(), |at| components::relative(at, context.now));
    format!("{}, {}; next run {next}.", schedule.cron_description.trim_end_matches('.'), schedule.zone)
}

fn facts(context: &PageContext, schedule: &ScheduleView) -> Markup {
    let mut rows = vec![
        ("Cron", html! { code { (schedule.cron) } }),
        ("Time zone", html! { (schedule.zone) }),
        (
            "Job",
            html! { (schedule.job) " in " a href={ "/queues/" (components::part(&schedule.queue)) } { (schedule.queue) } },
        ),
        ("Misfire policy", html! { (as_text(&schedule.misfire)) }),
        ("Overlap policy", html! { (as_text(&schedule.overlap)) }),
        ("Attempts", html! { (schedule.max_attempts) }),
        ("Timeout", components::took(Duration::from_millis(schedule.timeout_ms))),
        ("Changed", html! { (components::when(schedule.updated_at, context.now)) " by " (schedule.updated_by) }),
    ];
    if schedule.jitter_ms > 0 {
        rows.push(("Jitter", html! { "up to " (in_words(Duration::from_millis(schedule.jitter_ms))) }));
    }
    rows.extend(schedule.starts_at.map(|at| ("Starts", components::when_exact(at))));
    rows.extend(schedule.ends_at.map(|at| ("Ends", components::when_exact(at))));
    rows.extend(schedule.owner.as_deref().map(|owner| ("Owner", html! { (owner) })));
    rows.extend(schedule.description.as_deref().map(|description| ("Description", html! { (description) })));
    components::facts(rows)
}

/// A choice as it is written in requests.
fn as_text(choice: &impl Serialize) -> String {
    serde_json::to_value(choice)
        .ok()
        .and_then(|value| value.as_str().map(|text| text.replace('_', " ")))
        .unwrap_or_default()
}

/// The form of an action on a schedule.
#[derive(Deserialize)]
pub(super) struct ScheduleActionForm {
    name: String,
    verb: String,
}

pub(super) async fn act(context: PageContext, ScheduleActionForm { name, verb }: ScheduleActionForm) -> Answer {
    let (admin, page) = (context.admin(), format!("/schedules/{}", components::part(&name)));
    match verb.as_str() {
        "pause" => admin.pause_schedule(&name).await?,
        "resume" => admin.resume_schedule(&name).await?,
        "trigger" => {
            let job = admin.trigger_schedule(&name).await?;
            return Ok(context.done(&page, &format!("{name} triggered: {job}.")));
        }
        "delete" => {
            admin.delete_schedule(&name).await?;
            return Ok(PageContext { back: None, ..context }.done("/schedules", &format!("{name} deleted.")));
        }
        other => {
            return Err(Problem::not_found(format!(
                "unknown action `{other}`; expected pause, resume, trigger or delete"
            )));
        }
    }
    Ok(context.done(&page, &format!("{name}: {verb}d.")))
}
