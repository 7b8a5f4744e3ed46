//! The schedules pages: last jobs and next runs.

use std::time::Duration;

use maud::{Markup, html};
use punctual_client::admin::ScheduleView;
use punctual_core::time::in_words;
use serde::{Deserialize, Serialize};

use super::{Answer, components, jobs, layout::Page, page_context::PageContext};
use crate::{api::Named, problem::Problem};

const PAGE_SCHEDULES: usize = 100;
/// Number of next runs that are listed.
const UPCOMING_SHOWN: usize = 10;

/// The query parameters of the page.
#[derive(Deserialize)]
pub(super) struct SchedulesQuery {
    after: Option<String>,
}

pub(super) async fn list(visit: PageContext, SchedulesQuery { after }: SchedulesQuery) -> Answer {
    let list = visit.admin().schedules(after, PAGE_SCHEDULES).await?;
    let content = html! {
        section #schedules data-live {
            @if list.schedules.is_empty() {
                (components::empty("There are no schedules yet.", "A schedule enqueues a job again and again, by the clock of a zone:", "punctual schedules put nightly '0 3 * * *' echo --zone Europe/Paris"))
            } @else {
                div.scroll { table.rows {
                    thead { tr { th { "Schedule" } th { "When" } th.wide { "Zone" } th.wide { "Job" } th.num { "Next" } th.num.wide { "Last" } @if visit.may_change() { th { span.hidden { "Actions" } } } } }
                    tbody { @for schedule in &list.schedules { (row(&visit, schedule)) } }
                } }
            }
            nav.pages { @if let Some(next) = &list.next { a rel="next" href=(components::query("/schedules", &[("after", Some(next))])) { "Next page" } } }
        }
    };
    Ok(visit.html(Page::new("Schedules", "/schedules"), &content))
}

fn row(visit: &PageContext, schedule: &ScheduleView) -> Markup {
    html! {
        tr {
            td.main { a href={ "/schedules/" (components::part(&schedule.name)) } title=[schedule.description.as_deref()] { (schedule.name) } (mark(schedule)) }
            td title=(schedule.cron) { (schedule.in_words) }
            td.wide { (schedule.zone) }
            td.wide { a.quiet href=(components::query("/jobs", &[("schedule", Some(&schedule.name))])) { (schedule.job) } }
            td.num { (components::when_some(schedule.next_run_at, visit.now)) }
            td.num.wide { @match schedule.last_job { Some(job) => a href={ "/jobs/" (job) } { (components::when_some(schedule.last_run_at, visit.now)) }, None => (components::when_some(schedule.last_run_at, visit.now)) } }
            @if visit.may_change() { td.num { (actions(visit, schedule)) } }
        }
    }
}

fn mark(schedule: &ScheduleView) -> Markup {
    html! {
        @if schedule.problem.is_some() { span.badge.wrong { "disabled" } }
        @else if !schedule.enabled { span.badge { "paused" } }
    }
}

fn actions(visit: &PageContext, schedule: &ScheduleView) -> Markup {
    let to = |verb: &str| format!("/schedules/{}/{verb}", components::part(&schedule.name));
    html! {
        (components::button(visit, &to("trigger"), "Trigger", None))
        @if schedule.enabled { (components::button(visit, &to("pause"), "Pause", None)) } @else { (components::button(visit, &to("resume"), "Resume", None)) }
    }
}

pub(super) async fn show(visit: PageContext, Named { name }: Named) -> Answer {
    let detail = visit.admin().schedule(&name, UPCOMING_SHOWN).await?;
    let (schedule, now) = (&detail.schedule, visit.now);
    let content = html! {
        section.history #history data-live {
            p.sentence { (in_a_sentence(&visit, schedule)) }
            @if let Some(problem) = &schedule.problem { p.wrong { (problem) } }
        }
        div.columns {
            div {
                section #jobs data-live {
                    h2 { "Jobs" a.more href=(components::query("/jobs", &[("schedule", Some(&name))])) { "All" } }
                    @if detail.jobs.is_empty() { p.muted { "Nothing yet." } } @else { (jobs::table(&visit, &detail.jobs, jobs::Time::Created, false)) }
                }
                section #events data-live {
                    h2 { "Story" }
                    @if detail.events.is_empty() { p.muted { "Nothing yet." } }
                    @else { ul.events { @for event in &detail.events { li { (event.action) " " span.muted { "by " (event.actor) } " " (components::when(event.at, now)) } } } }
                }
            }
            div {
                section #upcoming data-live {
                    h2 { "Next runs" }
                    @if !schedule.enabled { p.muted { "None: the schedule is paused." } }
                    @else { ol.upcoming { @for at in &detail.upcoming { li { (components::when_exact(*at)) span.muted { (components::when(*at, now)) } } } } }
                }
                section { h2 { "Facts" } (facts(&visit, schedule)) }
                section { h2 { "Payload" } (components::document(&schedule.payload_preview)) }
            }
        }
    };
    let mut page = Page::new(&schedule.name, "/schedules");
    page.heading = Some(html! { h1 { (schedule.name) } (mark(schedule)) });
    if visit.may_change() {
        let delete = format!("/schedules/{}/delete", components::part(&schedule.name));
        page.tools = html! { (actions(&visit, schedule)) (components::asking(&visit, &delete, "Delete", "Its jobs are kept.", None)) };
    }
    Ok(visit.html(page, &content))
}

fn in_a_sentence(visit: &PageContext, schedule: &ScheduleView) -> String {
    let next = schedule.next_run_at.map_or_else(|| "not again".to_owned(), |at| components::relative(at, visit.now));
    format!("{}, {}; next {next}.", schedule.in_words.trim_end_matches('.'), schedule.zone)
}

fn facts(visit: &PageContext, schedule: &ScheduleView) -> Markup {
    let mut rows = vec![
        ("Cron", html! { code { (schedule.cron) } }),
        ("Zone", html! { (schedule.zone) }),
        (
            "Job",
            html! { (schedule.job) " in " a href={ "/queues/" (components::part(&schedule.queue)) } { (schedule.queue) } },
        ),
        ("If missed", html! { (word(&schedule.misfire)) }),
        ("If still running", html! { (word(&schedule.overlap)) }),
        ("Attempts", html! { (schedule.max_attempts) }),
        ("Timeout", components::took(Duration::from_millis(schedule.timeout_ms))),
        ("Changed", html! { (components::when(schedule.updated_at, visit.now)) " by " (schedule.updated_by) }),
    ];
    if schedule.jitter_ms > 0 {
        rows.push(("Jitter", html! { "up to " (in_words(Duration::from_millis(schedule.jitter_ms))) }));
    }
    rows.extend(schedule.starts_at.map(|at| ("From", components::when_exact(at))));
    rows.extend(schedule.ends_at.map(|at| ("Until", components::when_exact(at))));
    rows.extend(schedule.owner.as_deref().map(|owner| ("Owner", html! { (owner) })));
    rows.extend(schedule.description.as_deref().map(|words| ("Description", html! { (words) })));
    components::facts(rows)
}

/// A choice as it is written in requests.
fn word(choice: &impl Serialize) -> String {
    serde_json::to_value(choice)
        .ok()
        .and_then(|value| value.as_str().map(|word| word.replace('_', " ")))
        .unwrap_or_default()
}

/// The form of an action on a schedule.
#[derive(Deserialize)]
pub(super) struct ScheduleActionForm {
    name: String,
    verb: String,
}

pub(super) async fn act(visit: PageContext, ScheduleActionForm { name, verb }: ScheduleActionForm) -> Answer {
    let (admin, page) = (visit.admin(), format!("/schedules/{}", components::part(&name)));
    match verb.as_str() {
        "pause" => admin.pause_schedule(&name).await?,
        "resume" => admin.resume_schedule(&name).await?,
        "trigger" => {
            let job = admin.trigger_schedule(&name).await?;
            return Ok(visit.done(&page, &format!("{name} was triggered: {job}.")));
        }
        "delete" => {
            admin.delete_schedule(&name).await?;
            return Ok(PageContext { back: None, ..visit }.done("/schedules", &format!("{name} is deleted.")));
        }
        other => return Err(Problem::not_found(format!("nothing is called {other} here"))),
    }
    Ok(visit.done(&page, &format!("{name}: {verb}d.")))
}
