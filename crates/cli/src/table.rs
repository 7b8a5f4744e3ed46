//! Tables with aligned columns: cut to the width of a terminal, whole and without styles when piped.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::{
    format::DIM,
    text::{self, Line},
};

/// Minimum width of a column that is cut.
const CUT_MIN: usize = 12;
/// The header of columns that are not cut: half of an id is of no use.
const ID: &str = "ID";

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
        // A control character in a name must not move the cursor, or reverse the rest of the line.
        let text = text.into().replace(|c: char| c.is_control() || is_bidi_control(c), "\u{fffd}");
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

    /// Encloses text that is written from right to left: a terminal must not reorder the cells that follow.
    fn isolate(&mut self) {
        if self.text.chars().any(is_right_to_left) {
            self.text = format!("\u{2068}{}\u{2069}", self.text);
        }
    }

    /// Sets the style.
    pub(crate) fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

/// Characters without width that change the direction of the text around them.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The blocks of Hebrew, Arabic and related scripts.
fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}')
        || matches!(c, '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
    columns: usize,
    /// The names of columns that a narrow terminal does not show, the least important one first.
    optional: &'static [&'static str],
}

impl Table {
    /// A table with these column names.
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        let header = header.map(|name| Cell::new(name).style(DIM)).to_vec();
        Self { rows: vec![header], columns: N, optional: &[] }
    }

    /// Names the columns that a narrow terminal does not show, the least important one first.
    pub(crate) fn optional(mut self, columns: &'static [&'static str]) -> Self {
        self.optional = columns;
        self
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Prints the table.
    pub(crate) fn print(self) {
        let lines = match text::terminal_width() {
            Some(width) => self.fitted(width),
            None => self.lines(),
        };
        text::print(&lines);
    }

    /// The lines for a terminal: long cells are cut, then columns are omitted; if that is not enough, every row is a
    /// block of lines.
    fn fitted(self, width: usize) -> Vec<Line> {
        for omitted in (0..=self.optional.len()).map(|count| &self.optional[..count]) {
            let mut table = self.without(omitted);
            table.cut_to(width);
            if table.width() <= width {
                let mut lines = table.isolated().lines();
                let hint = || format!("not shown: {}; a wider terminal or --json has all", omitted.join(", "));
                lines.extend((!omitted.is_empty()).then(|| Line::new(hint(), DIM)));
                return lines;
            }
        }
        self.isolated().blocks()
    }

    fn without(&self, columns: &[&str]) -> Self {
        let is_kept = |column: &usize| !columns.contains(&self.rows[0][*column].text.as_str());
        let kept: Vec<usize> = (0..self.columns).filter(is_kept).collect();
        let rows = self.rows.iter().map(|row| kept.iter().map(|column| row[*column].clone()).collect()).collect();
        Self { rows, columns: kept.len(), optional: &[] }
    }

    fn isolated(mut self) -> Self {
        self.rows.iter_mut().flatten().for_each(Cell::isolate);
        self
    }

    fn width(&self) -> usize {
        (0..self.columns).map(|column| self.width_of(column)).sum::<usize>() + 2 * (self.columns - 1)
    }

    fn width_of(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].text.width()).max().unwrap_or(0)
    }

    /// Cuts the widest columns of text, but not the first one: it names the row for other commands.
    fn cut_to(&mut self, width: usize) {
        loop {
            let excess = self.width().saturating_sub(width);
            let is_text = |column: &usize| {
                self.rows[0][*column].text != ID && self.rows.get(1).is_some_and(|row| !row[*column].right)
            };
            let widest = (1..self.columns).filter(is_text).max_by_key(|column| self.width_of(*column));
            let Some(column) = widest.filter(|_| excess > 0) else { return };
            let (now, least) = (self.width_of(column), CUT_MIN.max(self.rows[0][column].text.width()));
            let room = now.saturating_sub(excess).max(least);
            if room >= now {
                return;
            }
            for row in &mut self.rows {
                row[column].text = text::cut(&row[column].text, room);
            }
        }
    }

    /// A line for each cell that is not empty, and an empty line between rows.
    fn blocks(self) -> Vec<Line> {
        let [header, rows @ ..] = self.rows.as_slice() else { return Vec::new() };
        let room = header.iter().map(|name| name.text.width()).max().unwrap_or(0);
        let mut lines = Vec::new();
        for row in rows {
            if !lines.is_empty() {
                lines.push(Line::default());
            }
            for (name, cell) in header.iter().zip(row).filter(|(_, cell)| !cell.text.is_empty()) {
                let pad = " ".repeat(room - name.text.width());
                let line = Line::plain(pad).with(name.text.clone(), name.style).with("  ", Style::new());
                lines.push(line.with(cell.text.clone(), cell.style));
            }
        }
        lines
    }

    /// The lines of the table.
    pub(crate) fn lines(mut self) -> Vec<Line> {
        let widths: Vec<usize> = (0..self.columns).map(|column| self.width_of(column)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, note: &str) -> Table {
        let mut table = Table::new(["ID", "NAME", "N", "NOTE"]);
        table.row([Cell::new("job_1"), Cell::new(name), Cell::number(1_234), Cell::new(note)]);
        table.row([Cell::new("job_2"), Cell::new("x"), Cell::number(5), Cell::new("")]);
        table
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        let text = |line: &Line| line.0.iter().map(|(text, _)| text.as_str()).collect::<String>();
        lines.iter().map(|line| text(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_by_the_width_that_is_shown() {
        for name in ["{}", "{0} %s \\n", "日本語", "👩\u{200d}💻", "שלום", &"n".repeat(128)] {
            let lines = texts(&table(name, "note").lines());
            let before = |line: &str, text: &str| line.split(text).next().unwrap().width();
            assert_eq!(before(&lines[0], "NOTE"), before(&lines[1], "note"), "{name}: {lines:#?}");
            assert!(lines[1].contains(name), "{lines:#?}");
        }
    }

    #[test]
    fn a_narrow_terminal_shows_less_of_long_cells_and_then_blocks() {
        let name = "n".repeat(128);
        let lines = texts(&table(&name, "a long note that explains").fitted(60));
        assert!(lines.iter().all(|line| line.width() <= 60) && lines[1].contains("nnn…  1,234  a long"), "{lines:#?}");
        let lines = texts(&table(&name, "a long note that explains").fitted(20));
        assert_eq!(lines[..3], ["  ID  job_1".to_owned(), format!("NAME  {name}"), "   N  1,234".to_owned()]);
        assert_eq!(lines[4..], ["", "  ID  job_2", "NAME  x", "   N  5"]);
        let lines = texts(&table(&name, "a long note that explains").optional(&["N", "NOTE"]).fitted(20));
        let hint = "not shown: N, NOTE; a wider terminal or --json has all";
        assert_eq!(lines, ["ID     NAME", "job_1  nnnnnnnnnnnn…", "job_2  x", hint]);
    }

    #[test]
    fn text_from_right_to_left_does_not_reorder_the_cells_beside_it() {
        let lines = texts(&table("שלום", "note").fitted(80));
        assert!(lines[1].contains("\u{2068}שלום\u{2069}"), "{lines:#?}");
        let lines = texts(&table("a\u{202e}b", "note").fitted(80));
        assert!(lines[1].contains("a\u{fffd}b"), "{lines:#?}");
    }
}
