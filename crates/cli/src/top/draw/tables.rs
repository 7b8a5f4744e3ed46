//! The three tables: queues, running jobs and dead jobs.

use anstyle::{Effects, Style};
use punctual::{Status, Timestamp, admin::JobView};
use ratatui::layout::Rect;

use super::{
    super::{
        poller::JOBS_MAX,
        snapshot::QueueRow,
        state::{Panel, State},
    },
    Brush,
    grid::{self, Column},
    lasting, width,
};
use crate::{
    commands::queues,
    format::{self, BOLD, DIM},
    table::Cell,
    text::{Line, shortened},
};

/// Rows around a table: the title, the header, and an empty row below.
const AROUND: u16 = 3;

const QUEUES: [Column; 10] = [
    Column::text("QUEUE", 0, 12),
    Column::whole("STATE", 0),
    Column::whole("SCHEDULED", 5),
    Column::whole("QUEUED", 1),
    Column::whole("RUNNING", 2),
    Column::whole("RETRYING", 6),
    Column::whole("DEAD", 3),
    Column::whole("OLDEST", 4),
    Column::whole("WORKERS", 8),
    Column::text("LIMITS", 7, 8),
];
const RUNNING: [Column; 7] = [
    Column::whole("ID", 0),
    Column::text("NAME", 1, 8),
    Column::text("QUEUE", 3, 7),
    Column::whole("TRY", 4),
    Column::whole("WORKER", 6),
    Column::whole("FOR", 2),
    Column::text("PROGRESS", 5, 8),
];
const DEAD: [Column; 6] = [
    Column::whole("ID", 0),
    Column::text("NAME", 1, 8),
    Column::text("QUEUE", 4, 7),
    Column::whole("TRY", 5),
    Column::whole("DIED", 2),
    Column::text("ERROR", 3, 12),
];

/// The number of rows that a panel needs to show everything.
pub(super) fn height(state: &State, panel: Panel) -> u16 {
    let rows = match panel {
        Panel::Queues => state.queues().len(),
        _ => state.jobs(panel).len(),
    };
    u16::try_from(rows.max(1)).unwrap_or(u16::MAX - AROUND).min(1_000) + AROUND
}

/// The selected panel, below the tabs of all panels.
pub(super) fn one(brush: &mut Brush<'_>, area: Rect, state: &mut State) {
    let mut titles = Line::default();
    for panel in Panel::ALL {
        titles.0.extend(title(state, panel).0);
        titles = titles.with("   ", Style::new());
    }
    rule(brush, area, &titles);
    table(brush, below(area, 1), state, state.panel);
}

/// A panel with its title.
pub(super) fn panel(brush: &mut Brush<'_>, area: Rect, state: &mut State, panel: Panel) {
    rule(brush, area, &title(state, panel).with(" ", Style::new()));
    let inner = below(area, 1);
    table(brush, Rect { height: inner.height.saturating_sub(1), ..inner }, state, panel);
}

fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// A title followed by a horizontal line.
fn rule(brush: &mut Brush<'_>, area: Rect, title: &Line) {
    let room = usize::from(area.width).saturating_sub(width(title));
    brush.write(area, 0, &title.clone().with("─".repeat(room), DIM));
}

/// The title of a panel, with the number of its rows.
fn title(state: &State, panel: Panel) -> Line {
    let (text, count) = match panel {
        Panel::Queues => ("queues", state.snapshot.as_ref().map(|snapshot| snapshot.queues.len() as u64)),
        Panel::Running => ("running", count(state, Status::Processing)),
        Panel::Dead => ("dead", count(state, Status::Dead)),
    };
    let style = if state.panel == panel { BOLD | Effects::UNDERLINE } else { Style::new() };
    let count = count.map(format::number).unwrap_or_default();
    Line::new(format!("{} ", panel as usize + 1), DIM).with(text, style).with(format!(" {count}"), DIM)
}

fn count(state: &State, status: Status) -> Option<u64> {
    state.snapshot.as_ref()?.jobs.get(&status).copied()
}

fn table(brush: &mut Brush<'_>, area: Rect, state: &mut State, panel: Panel) {
    let Some(now) = state.snapshot.as_ref().map(|snapshot| snapshot.at) else { return };
    let room = usize::from(area.width);
    let (header, rows) = match panel {
        Panel::Queues => {
            let rows: Vec<_> = state.queues().iter().map(queue).collect();
            grid::fit(&QUEUES, &rows, room)
        }
        Panel::Running => {
            let rows: Vec<_> = state.jobs(panel).iter().map(|job| running(job, now)).collect();
            grid::fit(&RUNNING, &rows, room)
        }
        Panel::Dead => {
            let rows: Vec<_> = state.jobs(panel).iter().map(|job| dead(job, now)).collect();
            grid::fit(&DEAD, &rows, room)
        }
    };
    if rows.is_empty() {
        return brush.write(area, 0, &Line::new(nothing(panel), DIM));
    }
    brush.write(area, 0, &header);
    list(brush, below(area, 1), state, &PanelRows { panel, rows });
}

/// The rows of a panel's table.
struct PanelRows {
    panel: Panel,
    rows: Vec<Line>,
}

fn list(brush: &mut Brush<'_>, area: Rect, state: &mut State, table: &PanelRows) {
    let (panel, rows) = (table.panel, &table.rows);
    let room = usize::from(area.height);
    let first = state.first_row(panel, rows.len(), room);
    let in_front = state.panel == panel;
    if in_front {
        state.page = room;
    }
    for (row, (index, line)) in (0..).zip(rows.iter().enumerate().skip(first).take(room)) {
        if in_front && index == state.selected(panel) {
            brush.write(area, row, &bar(line, usize::from(area.width)));
        } else {
            brush.write(area, row, line);
        }
    }
    let more = state.snapshot.as_ref().is_some_and(|snapshot| match panel {
        Panel::Queues => false,
        Panel::Running => snapshot.running.more,
        Panel::Dead => snapshot.dead.more,
    });
    let last = (first + room).min(rows.len());
    if more || first > 0 || last < rows.len() {
        let of = if more { format!("the first {JOBS_MAX}") } else { rows.len().to_string() };
        let title_row = Rect { y: area.y.saturating_sub(2), height: 1, ..area };
        brush.write_right(title_row, 0, &Line::new(format!(" {}–{last} of {of}", first + 1), DIM));
    }
}

/// Highlights the selected row over the full width, with and without colours.
fn bar(line: &Line, room: usize) -> Line {
    let pad = " ".repeat(room.saturating_sub(width(line)));
    let mut line = line.clone().with(pad, Style::new());
    line.0.iter_mut().for_each(|(_, style)| *style = style.invert());
    line
}

/// The text of an empty table: what it would show, or how to fill it.
fn nothing(panel: Panel) -> &'static str {
    match panel {
        Panel::Queues => "no queues; enqueue a job with: punctual enqueue echo 1 --queue mail",
        Panel::Running => "no running jobs; start a worker with: punctual work",
        Panel::Dead => "no job is dead",
    }
}

fn queue(row: &QueueRow) -> [Cell; 10] {
    let count = |status: Status| {
        let count = row.queue.jobs.get(&status).copied().unwrap_or(0);
        let style = if count == 0 { DIM } else { Style::new() };
        Cell::number(count).style(style)
    };
    [
        Cell::new(row.queue.name.clone()),
        queues::state(&row.queue),
        count(Status::Scheduled),
        count(Status::Queued),
        count(Status::Processing),
        count(Status::Retrying),
        count(Status::Dead),
        Cell::right(row.oldest_due_ms.map(lasting).unwrap_or_default()),
        Cell::number(row.queue.workers),
        Cell::new(queues::limits_in_words(&row.queue.settings.limits).unwrap_or_default()).style(DIM),
    ]
}

fn running(job: &JobView, now: Timestamp) -> [Cell; 7] {
    let progress = job.progress.as_ref().map(|progress| {
        let message = progress.message.as_deref().unwrap_or("");
        format!("{:>3.0} % {message}", progress.percent).trim_end().to_owned()
    });
    [
        Cell::new(shortened(&job.id.to_string())),
        Cell::new(job.name.clone()),
        Cell::new(job.queue.clone()),
        Cell::right(format!("{}/{}", job.attempt, job.max_attempts)),
        Cell::new(job.worker_id.map(|id| shortened(&id.to_string())).unwrap_or_default()),
        Cell::right(job.started_at.map(|at| format::in_words(now.since(at))).unwrap_or_default()),
        Cell::new(progress.unwrap_or_default()),
    ]
}

fn dead(job: &JobView, now: Timestamp) -> [Cell; 6] {
    let error = job.error.as_ref().map(|fault| fault.message.clone()).unwrap_or_default();
    [
        Cell::new(shortened(&job.id.to_string())),
        Cell::new(job.name.clone()),
        Cell::new(job.queue.clone()),
        Cell::right(format!("{}/{}", job.attempt, job.max_attempts)),
        Cell::right(job.finished_at.map(|at| format::relative(at, now)).unwrap_or_default()),
        Cell::new(error.lines().next().unwrap_or_default()).style(DIM),
    ]
}
