//! The overview page: what needs attention, counts by status, charts, queues and running jobs.

use std::time::Duration;

use maud::{Markup, html};
use punctual_client::admin::{Overview, QueueView};
use punctual_core::{AttemptStatus, Filter, Page, Status, Timestamp, measure::percentile, time::in_words};
use serde::Deserialize;

use super::{
    Answer,
    chart::{Chart, Series, Unit},
    components, jobs,
    layout::Page as Layout,
    page_context::PageContext,
    queues,
};
use crate::{
    history::{Range, Sample},
    problem::Problem,
};

/// Statuses that are counted at the top.
const TILES: [Status; 8] = [
    Status::Queued,
    Status::Processing,
    Status::Scheduled,
    Status::Retrying,
    Status::Waiting,
    Status::Dead,
    Status::Succeeded,
    Status::Cancelled,
];
/// Number of running jobs that are listed.
const RUNNING_SHOWN: usize = 8;
/// Jobs that died within this time need attention.
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// A job that has been ready for longer than this needs attention.
const LATE: Duration = Duration::from_secs(60);
/// Maximum number of queues whose first job is queried.
const QUEUES_CHECKED: usize = 25;
const SCHEDULES_CHECKED: usize = 500;

/// The query parameters of the page.
#[derive(Deserialize)]
pub(super) struct OverviewQuery {
    #[serde(default)]
    range: Range,
}

pub(super) async fn show(context: PageContext, OverviewQuery { range }: OverviewQuery) -> Answer {
    let admin = context.admin();
    let (overview, queues) = (admin.overview().await?, admin.queues().await?);
    let attention = attention(&context, &queues).await?;
    let running = admin.jobs(Filter::status(Status::Processing), Page::first(RUNNING_SHOWN)).await?;
    let content = html! {
        section #attention data-live { (attention_list(&attention)) }
        section.tiles #tiles data-live aria-label="Jobs by state" { (tiles(&overview)) }
        section.charts #charts data-live aria-label="Charts" { (charts(&context, range, None).await?) }
        section #queues data-live {
            h2 { "Queues" }
            (queues::table(&context, &queues))
        }
        section #running data-live {
            h2 { "Running now" a.more href="/jobs?status=processing" { "All " (components::number(overview.jobs.get(&Status::Processing).copied().unwrap_or(0))) } }
            @if running.jobs.is_empty() { p.muted { "No running jobs." } }
            @else { (jobs::table(&context, &running.jobs, jobs::Time::Started, false)) }
        }
    };
    let mut page = Layout::new("Overview", "/");
    page.tools = ranges("/", range);
    Ok(context.html(page, &content))
}

/// The tabs that select the period of charts.
pub(super) fn ranges(path: &str, chosen: Range) -> Markup {
    let choice = |(range, label): (Range, &'static str)| (format!("{path}?range={label}"), label, range == chosen);
    components::tabs("Period", Range::ALL.map(choice))
}

fn tiles(overview: &Overview) -> Markup {
    html! {
        @for status in TILES {
            @let count = overview.jobs.get(&status).copied().unwrap_or(0);
            a.tile.none[count == 0] href={ "/jobs?status=" (status) } {
                (components::status(status))
                strong { (components::number(count)) }
            }
        }
        a.tile href="/workers" { span.state { i {} "workers" } strong { (components::number(overview.workers)) } }
    }
}

/// A problem that needs attention.
struct AttentionItem {
    status: Status,
    text: String,
    to: String,
    advice: &'static str,
}

async fn attention(context: &PageContext, queues: &[QueueView]) -> Result<Vec<AttentionItem>, Problem> {
    let (admin, now) = (context.admin(), context.now);
    let mut found = Vec::new();
    for (name, count) in admin.failures(now.before(DAY), now).await?.by_name.into_iter().take(5) {
        found.push(AttentionItem {
            status: Status::Dead,
            text: format!("{} of {name} died in the last 24 hours", components::plural(count, "job", "jobs")),
            to: components::query("/jobs", &[("status", Some("dead")), ("name", Some(&name))]),
            advice: "check the error, then retry or delete",
        });
    }
    for queue in queues.iter().take(QUEUES_CHECKED) {
        found.extend(queue_problem(context, queue).await?);
    }
    for schedule in admin.schedules(None, SCHEDULES_CHECKED).await?.schedules {
        if let Some(problem) = schedule.problem {
            found.push(AttentionItem {
                status: Status::Failed,
                text: format!("Schedule {} is disabled: {problem}", schedule.name),
                to: format!("/schedules/{}", components::part(&schedule.name)),
                advice: "fix the schedule, then resume it",
            });
        }
    }
    Ok(found)
}

async fn queue_problem(context: &PageContext, queue: &QueueView) -> Result<Option<AttentionItem>, Problem> {
    let ready = queue.jobs.get(&Status::Queued).copied().unwrap_or(0);
    if ready == 0 {
        return Ok(None);
    }
    let (name, jobs) = (&queue.name, components::plural(ready, "job is", "jobs are"));
    let to = format!("/queues/{}", components::part(name));
    let item = |status, text, advice| Some(AttentionItem { status, text, to: to.clone(), advice });
    if queue.settings.paused {
        return Ok(item(Status::Scheduled, format!("Queue {name} is paused; {jobs} ready"), "resume the queue"));
    }
    if queue.workers == 0 {
        return Ok(item(Status::Dead, format!("No live worker serves queue {name}; {jobs} ready"), "start a worker"));
    }
    let filter = Filter { queue: Some(name.clone()), ..Filter::status(Status::Queued) };
    let first = context.admin().jobs(filter, Page::first(1)).await?.jobs.into_iter().next();
    let late = first.map(|job| context.now.since(job.run_at)).filter(|late| *late > LATE);
    Ok(late.and_then(|late| {
        let text = format!("Queue {name} is {} late; {jobs} ready", in_words(late));
        item(Status::Retrying, text, "add workers, or raise the limits")
    }))
}

fn attention_list(found: &[AttentionItem]) -> Markup {
    html! {
        @if found.is_empty() {
            p.fine { (components::status_dot("s-succeeded")) "No problems found." }
        } @else {
            h2 { "Needs attention" }
            ul.attention {
                @for item in found {
                    li { (components::status_dot(&format!("s-{}", item.status))) a href=(item.to) { (item.text) } span.muted { (item.advice) } }
                }
            }
        }
    }
}

/// The four charts, of all queues or of one.
pub(super) async fn charts(context: &PageContext, range: Range, queue: Option<&str>) -> Result<Markup, Problem> {
    let samples = context.app().history.samples(range, queue).await?;
    let drawing = Drawing { from: samples.from, until: samples.until, samples: &samples.steps };
    let rate = |of: fn(&Sample) -> u64| {
        move |sample: &Sample| (!sample.span.is_zero()).then(|| of(sample) as f64 / sample.span.as_secs_f64())
    };
    let throughput = drawing.chart(
        "Throughput",
        Unit::PerSecond,
        true,
        vec![
            drawing.series("succeeded", "s-succeeded", rate(|sample| sample.succeeded)),
            drawing.series("failed", "s-failed", rate(|sample| sample.failed)),
            drawing.series("lost", "s-dead", rate(|sample| sample.lost)),
        ],
    );
    let share = |share: f64, of: fn(&Sample) -> Vec<(u16, u64)>| {
        move |sample: &Sample| percentile(&of(sample), share).map(|duration| duration.as_secs_f64())
    };
    let shares = |of: fn(&Sample) -> Vec<(u16, u64)>| {
        vec![
            drawing.series("p50", "p50", share(0.50, of)),
            drawing.series("p95", "p95", share(0.95, of)),
            drawing.series("p99", "p99", share(0.99, of)),
        ]
    };
    let late =
        drawing.chart("Lateness", Unit::Seconds, false, shares(|sample| sample.late.clone().into_iter().collect()));
    let took =
        drawing.chart("Duration", Unit::Seconds, false, shares(|sample| sample.took.clone().into_iter().collect()));
    let failures = drawing.chart(
        "Failures",
        Unit::Jobs,
        true,
        vec![
            drawing.series("failed attempts", "s-failed", |sample| Some((sample.failed + sample.lost) as f64)),
            drawing.series("died", "s-dead", |sample| Some(sample.died as f64)),
        ],
    );
    let depth = drawing.chart(
        "Queue depth",
        Unit::Jobs,
        false,
        vec![drawing.series("queued", "s-queued", |sample| sample.ready.map(|ready| ready as f64))],
    );
    Ok(
        html! { (throughput.draw()) (late.draw()) (failures.draw()) @if queue.is_some() { (took.draw()) } @else { (depth.draw()) } },
    )
}

/// The period and the samples that the charts of one page share.
struct Drawing<'a> {
    from: Timestamp,
    until: Timestamp,
    samples: &'a [(Timestamp, Option<Sample>)],
}

impl Drawing<'_> {
    fn series(&self, name: &'static str, class: &'static str, value: impl Fn(&Sample) -> Option<f64>) -> Series {
        let values = self.samples.iter().map(|(_, sample)| sample.as_ref().and_then(&value)).collect();
        Series { name, class, values }
    }

    fn chart(&self, title: &'static str, unit: Unit, stacked: bool, series: Vec<Series>) -> Chart {
        let times = self.samples.iter().map(|(at, _)| *at).collect();
        Chart { title, unit, stacked, from: self.from, until: self.until, times, series }
    }
}

/// The job status with the colour of an attempt's status.
pub(super) const fn like(status: AttemptStatus) -> Status {
    match status {
        AttemptStatus::Running => Status::Processing,
        AttemptStatus::Succeeded => Status::Succeeded,
        AttemptStatus::Failed | AttemptStatus::TimedOut => Status::Failed,
        AttemptStatus::Lost => Status::Dead,
        AttemptStatus::Cancelled | AttemptStatus::Released => Status::Cancelled,
    }
}
