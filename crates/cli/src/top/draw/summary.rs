//! The upper part of the screen: store, time, counts and rates.

use anstyle::Style;
use punctual::Status;
use ratatui::layout::Rect;

use super::{
    super::{rates::Flow, state::State},
    Brush, lasting, width,
};
use crate::{
    format::{self, BOLD, DIM, per_second, roughly, status_style},
    text::{Line, cut, wrap},
};

/// Statuses that are counted. `failed` is missing because it does not outlast a transaction.
const COUNTED: [Status; 8] = [
    Status::Waiting,
    Status::Scheduled,
    Status::Queued,
    Status::Processing,
    Status::Retrying,
    Status::Succeeded,
    Status::Dead,
    Status::Cancelled,
];
/// Width of a count with all digits, and of a rounded one.
const EXACT: u16 = 23;
const ROUGH: u16 = 20;
/// Minimum width of a screen that shows all digits.
const ROOMY: u16 = 4 * EXACT;

pub(crate) const RATE_ROWS: u16 = 4;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum number of bars in a rate's history.
const BARS_MAX: usize = 60;

/// The head line: the store, whether the screen is live, the workers and the time.
pub(super) fn head(brush: &mut Brush<'_>, area: Rect, state: &State) {
    let (text, like) = match state {
        State { frozen: true, .. } => ("frozen", Status::Cancelled),
        State { trouble: Some(_), .. } => ("reconnecting", Status::Retrying),
        State { snapshot: None, .. } => ("loading", Status::Waiting),
        _ => ("live", Status::Succeeded),
    };
    let mut right = Line::default();
    if let Some(snapshot) = &state.snapshot {
        let workers = snapshot.workers;
        let name = if workers.live == 1 { "worker" } else { "workers" };
        right = right.with(format!("{} {name}", format::number(workers.live)), Style::new());
        if workers.slots > 0 && area.width >= ROOMY {
            right = right.with(format!(", {} slots", format::number(workers.slots)), DIM);
        }
        right = right.with(format!("  {}  ", format::local(snapshot.at, "%H:%M:%S")), Style::new());
    }
    right = right.with(format!("● {text}"), status_style(like));
    let left = Line::new("Punctual", BOLD);
    let room = usize::from(area.width).saturating_sub(width(&left) + width(&right) + 4);
    brush.write(area, 0, &left.with(format!("  {}", cut(&state.store, room)), Style::new()));
    brush.write_right(area, 0, &right);
}

/// An unreachable store: since when, and the error.
pub(super) fn trouble(brush: &mut Brush<'_>, area: Rect, state: &State) {
    for (row, line) in (0..).zip(trouble_lines(area.width, state)) {
        brush.write(area, row, &line);
    }
}

/// The number of rows for that message.
pub(super) fn trouble_rows(width: u16, state: &State) -> u16 {
    trouble_lines(width, state).len() as u16
}

fn trouble_lines(width: u16, state: &State) -> Vec<Line> {
    const ROWS_MAX: usize = 2;
    let Some(trouble) = &state.trouble else { return Vec::new() };
    let since = format::local(trouble.since, "%H:%M:%S");
    let lasting = format::in_words(trouble.until.since(trouble.since));
    let why = format!("● no answer since {since} ({lasting}), trying again: {}", trouble.why.replace('\n', " "));
    let room = usize::from(width);
    wrap(&Line::new(cut(&why, ROWS_MAX * room), status_style(Status::Retrying)), room)
}

fn columns(width: u16) -> (u16, u16) {
    let cell = if width >= ROOMY { EXACT } else { ROUGH };
    (cell, (width / cell).clamp(1, COUNTED.len() as u16))
}

/// The number of rows for the counts.
pub(super) fn count_rows(width: u16) -> u16 {
    (COUNTED.len() as u16).div_ceil(columns(width).1)
}

pub(super) fn counts(brush: &mut Brush<'_>, area: Rect, state: &State) {
    let (cell, columns) = columns(area.width);
    for (index, status) in (0..).zip(COUNTED) {
        let count = state.snapshot.as_ref().and_then(|snapshot| snapshot.jobs.get(&status)).copied();
        // The rest of the cell is a dot, the status and spaces.
        let room = usize::from(cell) - 5 - status.as_str().len();
        let digits = match count.map(|count| (count, format::number(count))) {
            None => "–".to_owned(),
            Some((_, exact)) if exact.len() <= room => exact,
            Some((count, _)) => roughly(count),
        };
        let style = if count.is_none_or(|count| count == 0) { DIM } else { Style::new() };
        let line = Line::new(format!("● {status}"), status_style(status)).with(format!(" {digits:>room$}"), style);
        let x = area.x + index % columns * cell;
        brush.write(Rect { x, width: cell - 1, ..area }, index / columns, &line);
    }
}

/// A row with the rate of a flow, in the colour of a status.
struct FlowRow {
    label: &'static str,
    flow: Flow,
    like: Status,
}

const FLOWS: [FlowRow; 3] = [
    FlowRow { label: "enqueued", flow: Flow::Enqueued, like: Status::Queued },
    FlowRow { label: "succeeded", flow: Flow::Succeeded, like: Status::Succeeded },
    FlowRow { label: "failed", flow: Flow::Failed, like: Status::Retrying },
];

/// Jobs per second, with a history as bars, and how long the oldest job has been due.
pub(super) fn rates(brush: &mut Brush<'_>, area: Rect, state: &State) {
    for (row, flow) in (0..).zip(FLOWS) {
        brush.write(area, row, &flow_line(state, &flow, usize::from(area.width)));
    }
    brush.write(area, RATE_ROWS - 1, &lateness(state));
}

fn flow_line(state: &State, row: &FlowRow, width: usize) -> Line {
    const BEFORE: usize = 26;
    const AFTER: usize = 16;
    let FlowRow { label, flow, like } = *row;
    let rate = state.rates.per_second(flow).map_or_else(|| "–".to_owned(), per_second);
    let room = width.saturating_sub(BEFORE + AFTER).min(BARS_MAX);
    let steps = state.rates.steps(flow, room);
    let peak = steps.iter().flatten().copied().fold(0.0, f64::max);
    let bars: String = steps.iter().map(|step| step.map_or(' ', |rate| bar(rate, peak))).collect();
    // The latest bar is always at the right edge, so that nothing shifts while the history fills.
    let line = Line::plain(format!("{label:<13}{rate:>10}  ")).with(format!("{bars:>room$}"), status_style(like));
    if peak == 0.0 { line } else { line.with(format!("  peak {}", per_second(peak)), DIM) }
}

/// The bar of a rate. The axis begins at zero, which is the lowest bar.
fn bar(rate: f64, peak: f64) -> char {
    let share = if peak > 0.0 { rate / peak } else { 0.0 };
    BARS[((share * (BARS.len() - 1) as f64).ceil() as usize).min(BARS.len() - 1)]
}

fn lateness(state: &State) -> Line {
    let line = Line::plain("oldest queued ");
    match state.snapshot.as_ref().map(|snapshot| &snapshot.oldest) {
        None => line.with(format!("{:>9}", "–"), DIM),
        Some(None) => line.with(format!("{:>9}", "none"), DIM),
        Some(Some(oldest)) => line
            .with(format!("{:>9}", lasting(oldest.due_ms)), Style::new())
            .with(format!("  due, in {}", oldest.queue), DIM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_share_and_never_lower_than_zero_is() {
        assert_eq!(
            [(0.0, 0.0), (0.0, 9.0), (0.1, 9.0), (4.5, 9.0), (9.0, 9.0)].map(|(a, b)| bar(a, b)),
            ['▁', '▁', '▂', '▅', '█']
        );
    }
}
