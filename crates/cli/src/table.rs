//! Tables with aligned columns, without styles when piped.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::{
    format::DIM,
    text::{self, Line},
};

/// A cell: text with a style.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
    pub(crate) right: bool,
}

impl Cell {
    /// Plain text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        // A control character in a name must not move the cursor.
        let text = text.into().replace(char::is_control, "\u{fffd}");
        Self { text, style: Style::new(), right: false }
    }

    /// A number, right-aligned.
    pub(crate) fn number(number: u64) -> Self {
        Self { right: true, ..Self::new(crate::format::number(number)) }
    }

    /// Text, right-aligned.
    pub(crate) fn right(text: impl Into<String>) -> Self {
        Self { right: true, ..Self::new(text) }
    }

    /// A status: a dot and its name, in its colour.
    pub(crate) fn status(status: punctual::Status) -> Self {
        Self::new(format!("● {status}")).style(crate::format::status_style(status))
    }

    /// Sets the style.
    pub(crate) fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
    columns: usize,
}

impl Table {
    /// A table with these column names.
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        let header = header.map(|name| Cell::new(name).style(DIM)).to_vec();
        Self { rows: vec![header], columns: N }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Prints the table.
    pub(crate) fn print(self) {
        text::print(&self.lines());
    }

    /// The lines of the table.
    pub(crate) fn lines(mut self) -> Vec<Line> {
        let width = |cell: &Cell| cell.text.width();
        let widths: Vec<usize> = (0..self.columns)
            .map(|column| self.rows.iter().map(|row| width(&row[column])).max().unwrap_or(0))
            .collect();
        // A header is aligned like the cells of its column.
        if let [header, first, ..] = self.rows.as_mut_slice() {
            header.iter_mut().zip(first).for_each(|(name, cell)| name.right = cell.right);
        }
        self.rows.iter().map(|row| line(row, &widths)).collect()
    }
}

/// A row with each cell padded to the width of its column.
fn line(row: &[Cell], widths: &[usize]) -> Line {
    let mut line = Line::default();
    for (index, cell) in row.iter().enumerate() {
        let pad = " ".repeat(widths[index] - cell.text.width());
        let (before, after) = if cell.right { (pad, String::new()) } else { (String::new(), pad) };
        let after = if index + 1 == row.len() { String::new() } else { format!("{after}  ") };
        line = line.with(before, Style::new()).with(cell.text.clone(), cell.style).with(after, Style::new());
    }
    line
}
