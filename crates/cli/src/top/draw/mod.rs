//! Draws the screen from the state alone; the only part of the state that drawing changes is the scroll position of
//! tables and details.

mod grid;
mod pages;
mod summary;
mod tables;

use anstyle::{AnsiColor, Color as Ink, Effects, Style as Pen};
use punctual::Status;
use ratatui::{
    Frame,
    backend::TestBackend,
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line as Row, Span},
};
use unicode_width::UnicodeWidthStr;

use super::state::{Panel, State, StatusLine};
use crate::{
    format::{self, DIM, status_style},
    text::{Line, cut, shortened},
};

/// Minimum size of the screen, in columns and rows.
const LEAST: (u16, u16) = (60, 16);
/// Minimum rows for tables at which all three are shown.
const ALL_PANELS: u16 = 18;
/// Minimum rows of the screen at which sections are separated by empty lines.
const AIRY: u16 = 22;

/// Converts styles to those of the terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) colours: bool,
}

impl Theme {
    fn style(self, pen: Pen) -> Style {
        let mut style = Style::new();
        if let Some(ink) = pen.get_fg_color().filter(|_| self.colours) {
            style = style.fg(colour(ink));
        }
        for (effect, modifier) in [
            (Effects::BOLD, Modifier::BOLD),
            (Effects::DIMMED, Modifier::DIM),
            (Effects::INVERT, Modifier::REVERSED),
            (Effects::UNDERLINE, Modifier::UNDERLINED),
        ] {
            if pen.get_effects().contains(effect) {
                style = style.add_modifier(modifier);
            }
        }
        style
    }

    fn row(self, line: &Line) -> Row<'static> {
        Row::from_iter(line.0.iter().map(|(text, pen)| Span::styled(text.clone(), self.style(*pen))))
    }
}

fn colour(ink: Ink) -> Color {
    match ink {
        Ink::Rgb(rgb) => Color::Rgb(rgb.0, rgb.1, rgb.2),
        Ink::Ansi256(index) => Color::Indexed(index.0),
        Ink::Ansi(AnsiColor::Blue) => Color::Blue,
        Ink::Ansi(AnsiColor::Yellow) => Color::Yellow,
        Ink::Ansi(AnsiColor::Green) => Color::Green,
        Ink::Ansi(AnsiColor::Red) => Color::Red,
        Ink::Ansi(other) => Color::Indexed(other as u8),
    }
}

/// The buffer to draw into, with the theme.
pub(crate) struct Brush<'a> {
    buffer: &'a mut Buffer,
    theme: Theme,
}

impl Brush<'_> {
    /// Writes a line into a row of an area; the line is truncated to the area's width.
    fn write(&mut self, area: Rect, row: u16, line: &Line) {
        if row < area.height {
            self.buffer.set_line(area.x, area.y + row, &self.theme.row(line), area.width);
        }
    }

    /// Writes a line right-aligned.
    fn write_right(&mut self, area: Rect, row: u16, line: &Line) {
        let width = u16::try_from(width(line)).unwrap_or(u16::MAX).min(area.width);
        self.write(Rect { x: area.right() - width, width, ..area }, row, line);
    }
}

fn width(line: &Line) -> usize {
    line.0.iter().map(|(text, _)| text.width()).sum()
}

/// Draws the whole screen.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &mut State, theme: Theme) {
    let (area, brush) = (frame.area(), &mut Brush { buffer: frame.buffer_mut(), theme });
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return too_small(brush, area);
    }
    let [head, trouble, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(summary::trouble_rows(area.width, state)),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    summary::head(brush, head, state);
    summary::trouble(brush, trouble, state);
    if state.help {
        pages::help(brush, body);
    } else if state.opened.is_some() {
        pages::history(brush, body, state);
    } else {
        overview(brush, body, state);
    }
    last_line(brush, foot, state);
}

fn too_small(brush: &mut Brush<'_>, area: Rect) {
    let lines = [
        format!("the terminal has {} columns and {} rows;", area.width, area.height),
        format!("this needs {} and {}", LEAST.0, LEAST.1),
    ];
    for (row, line) in (0..).zip(lines) {
        brush.write(area, row, &Line::plain(line));
    }
}

fn overview(brush: &mut Brush<'_>, area: Rect, state: &mut State) {
    let air = u16::from(area.height + 2 >= AIRY);
    let [_, counts, _, rates, _, panels] = Layout::vertical([
        Constraint::Length(air),
        Constraint::Length(summary::count_rows(area.width)),
        Constraint::Length(air),
        Constraint::Length(summary::RATE_ROWS),
        Constraint::Length(air),
        Constraint::Fill(1),
    ])
    .areas(area);
    summary::counts(brush, counts, state);
    summary::rates(brush, rates, state);
    if panels.height < ALL_PANELS {
        return tables::one(brush, panels, state);
    }
    let needs = Panel::ALL.map(|panel| tables::height(state, panel));
    let mut top = panels.y;
    for (panel, height) in Panel::ALL.into_iter().zip(share(panels.height, needs)) {
        tables::panel(brush, Rect { y: top, height, ..panels }, state, panel);
        top += height;
    }
}

/// Divides rows among three tables: each gets up to a third, and the rest goes to those that need more.
fn share(rows: u16, needs: [u16; 3]) -> [u16; 3] {
    let mut shares = needs.map(|need| need.min(rows / 3));
    let mut left = rows - shares.iter().sum::<u16>();
    for (share, need) in shares.iter_mut().zip(needs) {
        let more = (need - *share).min(left);
        (*share, left) = (*share + more, left - more);
    }
    shares
}

/// The last line: the result of an action or a question, and the key hints.
fn last_line(brush: &mut Brush<'_>, area: Rect, state: &State) {
    let line = match (&state.confirming, &state.message) {
        (Some(job), _) => {
            let question = format!("cancel job {}? y/n", shortened(&job.to_string()));
            Line::new(question, status_style(Status::Retrying).bold())
        }
        (None, Some(StatusLine::Done(text))) => Line::new(format!("● {text}"), status_style(Status::Succeeded)),
        (None, Some(StatusLine::Refused(text))) => Line::new(format!("● {text}"), status_style(Status::Dead)),
        (None, None) => Line::default(),
    };
    let room = usize::from(area.width).saturating_sub(width(&line) + 2);
    let keys = hints(state).into_iter().find(|keys| keys.width() <= room).unwrap_or_default();
    brush.write_right(area, 0, &Line::new(keys, DIM));
    brush.write(area, 0, &clipped(line, usize::from(area.width)));
}

fn clipped(line: Line, room: usize) -> Line {
    match line.0.as_slice() {
        [(text, pen)] => Line::new(cut(text, room), *pen),
        _ => line,
    }
}

/// The keys that apply now, in a long and a short form.
fn hints(state: &State) -> [String; 2] {
    let about = match (&state.opened, state.panel) {
        _ if state.help => "any key to return",
        (Some(_), Panel::Queues) => "Esc back  j k scroll  p pause",
        (Some(_), _) => "Esc back  j k scroll  r retry  c cancel",
        (None, Panel::Queues) => "Tab next  Enter open  p pause",
        (None, Panel::Running) => "Tab next  Enter open  c cancel",
        (None, Panel::Dead) => "Tab next  Enter open  r retry",
    };
    [format!("{about}  ? help  q quit"), "? help  q quit".to_owned()]
}

/// The screen as plain text, with all rows of all tables.
pub(crate) fn plain(state: &mut State, columns: u16) -> anyhow::Result<String> {
    const SUMMARY_ROWS: u16 = 20;
    let columns = columns.max(LEAST.0);
    let rows: u16 = Panel::ALL.iter().map(|panel| tables::height(state, *panel)).sum();
    let backend = TestBackend::new(columns, SUMMARY_ROWS + 3 * rows.max(ALL_PANELS));
    let mut terminal = ratatui::Terminal::new(backend)?;
    terminal.draw(|frame| {
        let area = frame.area();
        let brush = &mut Brush { buffer: frame.buffer_mut(), theme: Theme { colours: false } };
        summary::head(brush, area, state);
        overview(brush, Rect { y: 1, height: area.height - 1, ..area }, state);
    })?;
    Ok(text_of(terminal.backend().buffer()))
}

/// The text of a buffer, without trailing spaces and empty lines.
pub(crate) fn text_of(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y: u16| {
        let (mut text, mut x) = (String::new(), area.left());
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            // A wide character also occupies the next cell.
            x += u16::try_from(symbol.width().max(1)).unwrap_or(1);
        }
        text.trim_end().to_owned()
    };
    let lines: Vec<String> = (area.top()..area.bottom()).map(line).collect();
    lines.join("\n").trim_end().to_owned()
}

/// A duration in milliseconds as text.
fn lasting(ms: u64) -> String {
    format::in_words(std::time::Duration::from_millis(ms))
}
