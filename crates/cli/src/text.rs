//! Lines of styled text, printed to the terminal or drawn on the screen of `top`.

use std::{
    fmt,
    io::{self, IsTerminal},
};

use anstyle::Style;
use ratatui::crossterm::terminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A line: parts of text, each with a style.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Line(pub(crate) Vec<(String, Style)>);

impl Line {
    /// A line of one part.
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self::default().with(text, style)
    }

    /// A line without style.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::new())
    }

    /// Appends another part.
    #[must_use]
    pub(crate) fn with(mut self, text: impl Into<String>, style: Style) -> Self {
        self.0.push((text.into(), style));
        self
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(text, style)| write!(f, "{style}{text}{style:#}"))
    }
}

/// Prints lines, plain when piped.
pub(crate) fn print(lines: &[Line]) {
    for line in lines {
        anstream::println!("{line}");
    }
}

/// The width of the terminal that standard output is, in columns.
pub(crate) fn terminal_width() -> Option<usize> {
    let columns = || terminal::size().ok().map(|(columns, _)| usize::from(columns));
    if io::stdout().is_terminal() { columns().filter(|columns| *columns > 0) } else { None }
}

/// Names and values, one line each.
pub(crate) fn facts<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, value) in rows {
        // A control character in a value must not move the cursor.
        let value = value.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
        for (index, part) in value.split('\n').enumerate() {
            let name = if index == 0 { name } else { "" };
            lines.push(Line::new(format!("{name:>11}"), crate::format::DIM).with(format!("  {part}"), Style::new()));
        }
    }
    lines
}

/// Prints names and values, one line each.
pub(crate) fn print_facts<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) {
    print(&facts(rows));
}

/// An id shortened in the middle: its prefix, its time and its last characters, which distinguish it from similar ids.
pub(crate) fn shortened(id: &str) -> String {
    const KEPT: (usize, usize) = (12, 6);
    let length = id.chars().count();
    if length <= KEPT.0 + KEPT.1 + 1 {
        return id.to_owned();
    }
    let start: String = id.chars().take(KEPT.0).collect();
    let end: String = id.chars().skip(length - KEPT.1).collect();
    format!("{start}…{end}")
}

/// Truncates a text to a width in columns; `…` marks the cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Wraps a line to a width.
pub(crate) fn wrap(line: &Line, width: usize) -> Vec<Line> {
    let (mut lines, mut current, mut used) = (Vec::new(), Line::default(), 0);
    for (text, style) in &line.0 {
        let mut part = String::new();
        for c in text.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width.max(2) {
                current = current.with(std::mem::take(&mut part), *style);
                lines.push(std::mem::take(&mut current));
                used = 0;
            }
            used += wide;
            part.push(c);
        }
        current = current.with(part, *style);
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_wrapped_by_the_columns_that_they_take() {
        assert_eq!(cut("mail", 4), "mail");
        assert_eq!(cut("mailing", 4), "mai…");
        assert_eq!(cut("日本語", 4), "日…", "a wide character is not halved");
        assert_eq!(cut("mail", 0), "");
        let line = Line::plain("ab").with("cde", crate::format::DIM);
        let wrapped: Vec<String> =
            wrap(&line, 3).iter().map(|line| line.0.iter().map(|(text, _)| text.as_str()).collect()).collect();
        assert_eq!(wrapped, ["abc", "de"]);
        assert_eq!(wrap(&Line::default(), 10).len(), 1, "an empty line is a line");
    }

    #[test]
    fn ids_are_shortened_in_the_middle() {
        assert_eq!(shortened("job_0190c0ffee0000000000000000abcdef"), "job_0190c0ff…abcdef");
        assert_eq!(shortened("job_1"), "job_1");
    }
}
