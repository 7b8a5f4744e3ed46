//! The overview page: what needs attention, counts by status, charts, queues and running jobs.

use std::{cmp::Reverse, collections::HashMap, time::Duration};

use maud::{Markup, html};
use punctual_client::admin::{Overview, QueueView, is_live};
use punctual_core::{
    AttemptStatus, Count, Filter, Page, Status, Timestamp, explain::handler_advice, measure::percentile, time::in_words,
};
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
/// Number of queues that are listed, those with the most unfinished jobs.
const QUEUES_SHOWN: usize = 10;
/// Maximum number of queues whose first job is queried.
const QUEUES_CHECKED: usize = 25;
/// Maximum number of problems that are listed.
const PROBLEMS_SHOWN: usize = 20;
const SCHEDULES_CHECKED: usize = 500;

/// The query parameters of the page.
#[derive(Deserialize)]
pub(super) struct OverviewQuery {
    #[serde(default)]
    range: Range,
}

pub(super) async fn show(context: PageContext, OverviewQuery { range }: OverviewQuery) -> Answer {
    let admin = context.admin();
    let (overview, mut queues) = (admin.overview().await?, admin.queues().await?);
    queues.sort_by_cached_key(|queue| (Reverse(unfinished(queue)), queue.name.clone()));
    let attention = attention(&context, &queues).await?;
    let queue_count = queues.len();
    queues.truncate(QUEUES_SHOWN);
    // By name, so that rows do not change their places.
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    let running = admin.jobs(Filter::status(Status::Processing), Page::first(RUNNING_SHOWN)).await?;
    let content = html! {
        section #attention data-live { (attention_list(&attention)) }
        section.tiles #tiles data-live aria-label="Jobs by state" { (tiles(&overview)) }
        section.charts #charts data-live aria-label="Charts" { (charts(&context, range, None).await?) }
        section #queues data-live {
            h2 { "Queues" @if queue_count > queues.len() { a.more href="/queues" { "All " (components::number(queue_count as u64)) } } }
            (queues::table(&context, &queues))
        }
        section #running data-live {
            h2 { "Running now" a.more href="/jobs?status=processing" { "All " (components::number(overview.jobs.get(&Status::Processing).copied().unwrap_or(0))) } }
            @if running.jobs.is_empty() { p.muted { "No running jobs." } }
            @else { (components::scroll("Running jobs", &jobs::table(&context, &running.jobs, jobs::Time::Started, false))) }
        }
    };
    let mut page = Layout::new("Overview", "/");
    page.tools = ranges("/", range);
    Ok(context.html(page, &content))
}

fn unfinished(queue: &QueueView) -> u64 {
    queue.jobs.iter().filter(|(status, _)| status.is_active()).map(|(_, count)| count).sum()
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
    text: Markup,
    to: String,
    advice: String,
}

async fn attention(context: &PageContext, queues: &[QueueView]) -> Result<Vec<AttentionItem>, Problem> {
    let (admin, now) = (context.admin(), context.now);
    let mut found = Vec::new();
    for (name, count) in admin.failures(now.before(DAY), now).await?.by_name.into_iter().take(5) {
        found.push(AttentionItem {
            status: Status::Dead,
            text: html! { (components::plural(count, "job", "jobs")) " of " (components::name(&name)) " died in the last 24 hours" },
            to: components::query("/jobs", &[("status", Some("dead")), ("name", Some(&name))]),
            advice: "check the error, then retry or delete".to_owned(),
        });
    }
    let without_handler = without_handler(context).await?;
    let is_ready = |queue: &&QueueView| queue.jobs.get(&Status::Queued).is_some_and(|ready| *ready > 0);
    let mut checks_left = QUEUES_CHECKED;
    for queue in queues.iter().filter(is_ready) {
        let missing = || without_handler.get(&queue.name).map(|count| unhandled(queue, count));
        if let Some(problem) = stopped(queue).or_else(missing) {
            found.push(problem);
        } else if checks_left > 0 {
            checks_left -= 1;
            found.extend(late(context, queue).await?);
        }
    }
    for schedule in admin.schedules(None, SCHEDULES_CHECKED).await?.schedules {
        if let Some(problem) = schedule.problem {
            found.push(AttentionItem {
                status: Status::Failed,
                text: html! { "Schedule " (components::name(&schedule.name)) " is disabled: " bdi { (problem) } },
                to: format!("/schedules/{}", components::part(&schedule.name)),
                advice: "fix the schedule, then resume it".to_owned(),
            });
        }
    }
    Ok(found)
}

/// The queued jobs for which no live worker of their queue has a handler: those of one name, by queue.
async fn without_handler(context: &PageContext) -> Result<HashMap<String, Count>, Problem> {
    let mut live = context.admin().workers().await?;
    live.retain(|worker| is_live(worker, context.now));
    let is_handled = |count: &Count| live.iter().any(|worker| worker.runs(&count.queue, &count.name));
    let mut counts = context.request.punctual().store().counts().await?;
    counts.retain(|count| count.status == Status::Queued && count.count > 0 && !is_handled(count));
    Ok(counts.into_iter().map(|count| (count.queue.clone(), count)).collect())
}

/// A queue that is paused or has no workers.
fn stopped(queue: &QueueView) -> Option<AttentionItem> {
    let name = components::name(&queue.name);
    if queue.settings.paused {
        let text = html! { "Queue " (name) " is paused; " (ready(queue)) };
        return Some(queue_item(queue, Status::Scheduled, text, "resume the queue".to_owned()));
    }
    let text = html! { "No live worker serves queue " (name) "; " (ready(queue)) };
    (queue.workers == 0).then(|| queue_item(queue, Status::Dead, text, "start a worker".to_owned()))
}

/// A queue with jobs that no live worker has a handler for.
fn unhandled(queue: &QueueView, count: &Count) -> AttentionItem {
    let (name, job) = (components::name(&queue.name), components::name(&count.name));
    let jobs = components::plural(count.count, "job is", "jobs are");
    let text = html! { "No live worker of queue " (name) " has a handler for " (job) "; " (jobs) " ready" };
    queue_item(queue, Status::Dead, text, handler_advice(&count.name))
}

/// A queue whose first job is late.
async fn late(context: &PageContext, queue: &QueueView) -> Result<Option<AttentionItem>, Problem> {
    let filter = Filter { queue: Some(queue.name.clone()), ..Filter::status(Status::Queued) };
    let first = context.admin().jobs(filter, Page::first(1)).await?.jobs.into_iter().next();
    let late = first.map(|job| context.now.since(job.run_at)).filter(|late| *late > LATE);
    Ok(late.map(|late| {
        let name = components::name(&queue.name);
        let text = html! { "Queue " (name) " is " (in_words(late)) " late; " (ready(queue)) };
        queue_item(queue, Status::Retrying, text, "add workers, or raise the limits".to_owned())
    }))
}

fn queue_item(queue: &QueueView, status: Status, text: Markup, advice: String) -> AttentionItem {
    AttentionItem { status, text, to: format!("/queues/{}", components::part(&queue.name)), advice }
}

/// `3 jobs are ready`.
fn ready(queue: &QueueView) -> String {
    let ready = queue.jobs.get(&Status::Queued).copied().unwrap_or(0);
    format!("{} ready", components::plural(ready, "job is", "jobs are"))
}

fn attention_list(found: &[AttentionItem]) -> Markup {
    html! {
        @if found.is_empty() {
            p.fine { (components::status_dot("s-succeeded")) "No problems found." }
        } @else {
            h2 { "Needs attention" }
            ul.attention {
                @for item in found.iter().take(PROBLEMS_SHOWN) {
                    li { (components::status_dot(&format!("s-{}", item.status))) div { a href=(item.to) { (item.text) } " " span.muted { (item.advice) } } }
                }
            }
            @if found.len() > PROBLEMS_SHOWN { p.muted { "and " (components::number((found.len() - PROBLEMS_SHOWN) as u64)) " more" } }
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
