//! Reports: success by job name, failures, durations, unfinished jobs by user, stuck jobs.

use std::time::Duration;

use maud::{Markup, html};
use punctual_client::admin::{DurationRow, FailureReport, SuccessRow};
use punctual_core::{Pending, time::in_words};
use serde::Deserialize;

use super::{Answer, components, jobs, layout::Page, page_context::PageContext};

/// Jobs that run for longer than this are listed as stuck.
const STUCK: Duration = Duration::from_secs(3_600);
const ROWS_SHOWN: usize = 50;
const HOUR: u64 = 3_600;

/// The period of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
enum ReportPeriod {
    #[serde(rename = "1h")]
    Hour,
    #[default]
    #[serde(rename = "24h")]
    Day,
    #[serde(rename = "7d")]
    Week,
}

impl ReportPeriod {
    const ALL: [(Self, &'static str); 3] = [(Self::Hour, "1h"), (Self::Day, "24h"), (Self::Week, "7d")];

    const fn span(self) -> Duration {
        match self {
            Self::Hour => Duration::from_secs(HOUR),
            Self::Day => Duration::from_secs(24 * HOUR),
            Self::Week => Duration::from_secs(7 * 24 * HOUR),
        }
    }
}

/// The query parameters of the page.
#[derive(Deserialize)]
pub(super) struct ReportsQuery {
    #[serde(default)]
    period: ReportPeriod,
}

pub(super) async fn show(context: PageContext, ReportsQuery { period }: ReportsQuery) -> Answer {
    let (admin, until) = (context.admin(), context.now);
    let since = until.before(period.span());
    let (success, durations) = (admin.success_rates(since, until).await?, admin.durations(since, until).await?);
    let (failures, pending) = (admin.failures(since, until).await?, admin.pending().await?);
    let stuck = admin.stuck(STUCK).await?;
    let content = html! {
        section #success data-live { h2 { "Success by name" } (success_table(&success)) }
        section #failures data-live { h2 { "Dead and not retried" } (failure_table(&context, &failures)) }
        section #durations data-live { h2 { "Durations and lateness" } (duration_table(&durations)) }
        section #pending data-live { h2 { "Unfinished by user" } (pending_table(&pending)) }
        section #stuck data-live {
            h2 { "Running for more than an hour" }
            @if stuck.is_empty() { p.muted { "No long-running jobs." } } @else { (components::scroll("Long-running jobs", &jobs::table(&context, &stuck[..stuck.len().min(ROWS_SHOWN)], jobs::Time::Started, false))) }
        }
    };
    let mut page = Page::new("Reports", "/reports");
    page.tools = components::tabs(
        "Period",
        ReportPeriod::ALL.map(|(choice, label)| (format!("/reports?period={label}"), label, choice == period)),
    );
    Ok(context.html(page, &content))
}

fn success_table(rows: &[SuccessRow]) -> Markup {
    if rows.is_empty() {
        return html! { p.muted { "No job finished in this period." } };
    }
    html! {
        section.scroll tabindex="0" aria-label="Table of success by name" { table.rows {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Success" } th.num scope="col" { "%" } th.num scope="col" { "Succeeded" } th.num scope="col" { "Died" } th.num.wide scope="col" { "Failed attempts" } } }
            tbody { @for row in rows.iter().take(ROWS_SHOWN) {
                tr {
                    td.main { a href=(components::query("/jobs", &[("name", Some(&row.name))])) { (components::name(&row.name)) } }
                    td { (components::progress(row.success_percent as f32, "success")) }
                    td.num { (format!("{:.1}", row.success_percent)) }
                    td.num { (components::number(row.succeeded)) }
                    (components::count_cell(row.died, &components::query("/jobs", &[("status", Some("dead")), ("name", Some(&row.name))])))
                    td.num.wide { (components::number(row.failed_attempts)) }
                }
            } }
        } }
        (left(rows.len()))
    }
}

fn failure_table(context: &PageContext, report: &FailureReport) -> Markup {
    if report.by_name.is_empty() {
        return html! { p.muted { "No dead jobs." } };
    }
    html! {
        p { @for (name, count) in report.by_name.iter().take(ROWS_SHOWN) { a.tag href=(components::query("/jobs", &[("status", Some("dead")), ("name", Some(name))])) { (components::name(name)) " " (components::number(*count)) } } }
        (components::scroll("Latest dead jobs", &jobs::table(context, &report.latest, jobs::Time::Finished, false)))
    }
}

fn duration_table(rows: &[DurationRow]) -> Markup {
    if rows.is_empty() {
        return html! { p.muted { "No attempt finished in this period." } };
    }
    let time = |millis: f64| in_words(Duration::from_secs_f64(millis.max(0.0) / 1e3));
    html! {
        section.scroll tabindex="0" aria-label="Table of durations" { table.rows {
            thead { tr { th scope="col" { "Name" } th.num scope="col" { "Attempts" } th.num scope="col" { "p50" } th.num scope="col" { "p95" } th.num scope="col" { "p99" } th.num.wide scope="col" { "Lateness p50" } th.num.wide scope="col" { "p95" } th.num.wide scope="col" { "p99" } } }
            tbody { @for row in rows.iter().take(ROWS_SHOWN) {
                tr {
                    td.main { a href=(components::query("/jobs", &[("name", Some(&row.name))])) { (components::name(&row.name)) } }
                    td.num { (components::number(row.attempts)) }
                    @for millis in row.took_ms { td.num { (time(millis)) } }
                    @for millis in row.late_ms { td.num.wide { (time(millis)) } }
                }
            } }
        } }
        (left(rows.len()))
    }
}

fn pending_table(rows: &[Pending]) -> Markup {
    if rows.is_empty() {
        return html! { p.muted { "No pending jobs." } };
    }
    html! {
        section.scroll tabindex="0" aria-label="Table of unfinished jobs" { table.rows {
            thead { tr { th scope="col" { "User" } th scope="col" { "Name" } th.num scope="col" { "Jobs" } } }
            tbody { @for row in rows.iter().take(ROWS_SHOWN) {
                tr {
                    td.main { @match &row.user_id { Some(user) => a href=(components::query("/jobs", &[("user", Some(user))])) { (components::name(user)) }, None => span.muted { "no user" } } }
                    td { (components::name(&row.name)) }
                    td.num { (components::number(row.count)) }
                }
            } }
        } }
        (left(rows.len()))
    }
}

fn left(rows: usize) -> Markup {
    html! { @if rows > ROWS_SHOWN { p.muted { "and " (rows - ROWS_SHOWN) " more; the API returns all" } } }
}
