//! The picture. It is made from the state alone; all that drawing changes of it is how far tables and stories are
//! scrolled.

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

use super::state::{Panel, Said, State};
use crate::{
    format::{self, DIM, status_style},
    text::{Line, cut, shortened},
};

/// Less than this is no picture.
const LEAST: (u16, u16) = (60, 16);
/// With so many rows for tables, all three are shown.
const ALL_PANELS: u16 = 18;
/// With so many rows, parts stand apart.
const AIRY: u16 = 22;

/// How styles become those of the terminal.
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

/// A brush: where it paints, and how.
pub(crate) struct Brush<'a> {
    buffer: &'a mut Buffer,
    theme: Theme,
}

impl Brush<'_> {
    /// Writes a line into a row of an area; what does not fit is left out.
    fn write(&mut self, area: Rect, row: u16, line: &Line) {
        if row < area.height {
            self.buffer.set_line(area.x, area.y + row, &self.theme.row(line), area.width);
        }
    }

    /// The same at the right edge.
    fn write_right(&mut self, area: Rect, row: u16, line: &Line) {
        let width = u16::try_from(width(line)).unwrap_or(u16::MAX).min(area.width);
        self.write(Rect { x: area.right() - width, width, ..area }, row, line);
    }
}

fn width(line: &Line) -> usize {
    line.0.iter().map(|(text, _)| text.width()).sum()
}

/// Draws all of it.
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
        pages::story(brush, body, state);
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

/// Shares rows: each gets a third if it needs that, and what is left goes to those that need more.
fn share(rows: u16, needs: [u16; 3]) -> [u16; 3] {
    let mut shares = needs.map(|need| need.min(rows / 3));
    let mut left = rows - shares.iter().sum::<u16>();
    for (share, need) in shares.iter_mut().zip(needs) {
        let more = (need - *share).min(left);
        (*share, left) = (*share + more, left - more);
    }
    shares
}

/// What was done or refused, or what is asked; and the keys.
fn last_line(brush: &mut Brush<'_>, area: Rect, state: &State) {
    let said = match (&state.asked, &state.said) {
        (Some(job), _) => {
            let question = format!("cancel job {}? y/n", shortened(&job.to_string()));
            Line::new(question, status_style(Status::Retrying).bold())
        }
        (None, Some(Said::Done(text))) => Line::new(format!("● {text}"), status_style(Status::Succeeded)),
        (None, Some(Said::Refused(text))) => Line::new(format!("● {text}"), status_style(Status::Dead)),
        (None, None) => Line::default(),
    };
    let room = usize::from(area.width).saturating_sub(width(&said) + 2);
    let keys = hints(state).into_iter().find(|keys| keys.width() <= room).unwrap_or_default();
    brush.write_right(area, 0, &Line::new(keys, DIM));
    brush.write(area, 0, &clipped(said, usize::from(area.width)));
}

fn clipped(line: Line, room: usize) -> Line {
    match line.0.as_slice() {
        [(text, pen)] => Line::new(cut(text, room), *pen),
        _ => line,
    }
}

/// The keys that matter now; fewer where there is less room.
fn hints(state: &State) -> [String; 2] {
    let about = match (&state.opened, state.panel) {
        _ if state.help => "any key goes back",
        (Some(_), Panel::Queues) => "Esc back  j k scroll  p pause",
        (Some(_), _) => "Esc back  j k scroll  r retry  c cancel",
        (None, Panel::Queues) => "Tab next  Enter open  p pause",
        (None, Panel::Running) => "Tab next  Enter open  c cancel",
        (None, Panel::Dead) => "Tab next  Enter open  r retry",
    };
    [format!("{about}  ? help  q leave"), "? help  q leave".to_owned()]
}

/// The picture as plain text, with all rows of all tables.
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

/// What is written in a buffer, without the space at the ends of lines and of the whole.
pub(crate) fn text_of(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y: u16| {
        let (mut text, mut x) = (String::new(), area.left());
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            // A wide character takes the place of the next one too.
            x += u16::try_from(symbol.width().max(1)).unwrap_or(1);
        }
        text.trim_end().to_owned()
    };
    let lines: Vec<String> = (area.top()..area.bottom()).map(line).collect();
    lines.join("\n").trim_end().to_owned()
}

/// A duration in milliseconds, in words.
fn lasting(ms: u64) -> String {
    format::in_words(std::time::Duration::from_millis(ms))
}
