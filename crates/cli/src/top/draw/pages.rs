//! Pages that replace the overview: the details of a job or queue, and the help.

use anstyle::Style;
use ratatui::layout::Rect;

use super::{
    super::{keys::HELP, state::State},
    Brush,
};
use crate::{
    format::{BOLD, DIM},
    text::{self, Line},
};

/// The details of a job or queue, at the current scroll position.
pub(super) fn history(brush: &mut Brush<'_>, area: Rect, state: &mut State) {
    let Some(opened) = &mut state.opened else { return };
    let Some(history) = &opened.history else {
        return brush.write(area, 1, &Line::new("reading …", DIM));
    };
    let area = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
    let lines: Vec<Line> = history.lines.iter().flat_map(|line| text::wrap(line, usize::from(area.width))).collect();
    let room = usize::from(area.height);
    opened.top = opened.top.min(lines.len().saturating_sub(room));
    state.page = room;
    for (row, line) in (0..).zip(lines.iter().skip(opened.top).take(room)) {
        brush.write(area, row, line);
    }
    let below = lines.len().saturating_sub(opened.top + room);
    if below > 0 {
        let more = format!("{below} more line{} below", if below == 1 { "" } else { "s" });
        brush.write(Rect { height: area.height + 1, ..area }, area.height, &Line::new(more, DIM));
    }
}

/// The help page with the keys.
pub(super) fn help(brush: &mut Brush<'_>, area: Rect) {
    brush.write(area, 0, &Line::new("Keys", BOLD));
    for (row, (keys, what)) in (1..).zip(HELP) {
        brush.write(area, row, &Line::plain(format!("{keys:<16}")).with(what, Style::new()));
    }
}
