//! Column layout: the least important columns are omitted first, and texts are truncated before columns are omitted.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::{
    format::DIM,
    table::Cell,
    text::{Line, cut},
};

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Columns with a higher rank are omitted first.
    pub(super) rank: u8,
    /// The minimum width if the column may be truncated; `None` for a column that is shown in full or not at all.
    pub(super) least: Option<usize>,
}

impl Column {
    pub(super) const fn whole(title: &'static str, rank: u8) -> Self {
        Self { title, rank, least: None }
    }

    pub(super) const fn text(title: &'static str, rank: u8, least: usize) -> Self {
        Self { title, rank, least: Some(least) }
    }
}

const SPACE: usize = 2;

/// The header and the rows, fitted to the width `room`.
pub(super) fn fit<const N: usize>(columns: &[Column; N], rows: &[[Cell; N]], room: usize) -> (Line, Vec<Line>) {
    let widths = widths(columns, rows, room);
    let header: [Cell; N] = std::array::from_fn(|index| {
        let right = rows.first().is_some_and(|row| row[index].right);
        Cell { right, ..Cell::new(columns[index].title).style(DIM) }
    });
    (line(&header, &widths), rows.iter().map(|row| line(row, &widths)).collect())
}

/// The width of each column; `None` for a column that is omitted.
fn widths<const N: usize>(columns: &[Column; N], rows: &[[Cell; N]], room: usize) -> [Option<usize>; N] {
    let wanted: [usize; N] = std::array::from_fn(|index| {
        rows.iter().map(|row| row[index].text.width()).max().unwrap_or(0).max(columns[index].title.width())
    });
    let mut by_rank: Vec<usize> = (0..N).collect();
    by_rank.sort_by_key(|index| columns[*index].rank);
    let (mut widths, mut left) = ([None; N], room + SPACE);
    for index in by_rank.iter().copied() {
        let least = columns[index].least.map_or(wanted[index], |least| least.min(wanted[index]));
        if least + SPACE > left {
            break;
        }
        widths[index] = Some(least);
        left -= least + SPACE;
    }
    for index in by_rank {
        if let Some(width) = &mut widths[index] {
            let more = (wanted[index] - *width).min(left);
            (*width, left) = (*width + more, left - more);
        }
    }
    widths
}

fn line<const N: usize>(row: &[Cell; N], widths: &[Option<usize>; N]) -> Line {
    let mut line = Line::default();
    for (cell, width) in row.iter().zip(widths).filter_map(|(cell, width)| Some((cell, (*width)?))) {
        let text = cut(&cell.text, width);
        let pad = " ".repeat(width - text.width());
        let (before, after) = if cell.right { (pad, String::new()) } else { (String::new(), pad) };
        let after = format!("{after}{:SPACE$}", "");
        line = line.with(before, Style::new()).with(text, cell.style).with(after, Style::new());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [Column::text("NAME", 0, 4), Column::whole("N", 1), Column::text("NOTE", 2, 4)];

    fn text(line: &Line) -> String {
        line.0.iter().map(|(text, _)| text.as_str()).collect::<String>().trim_end().to_owned()
    }

    #[test]
    fn less_important_columns_are_cut_and_then_omitted() {
        let rows = [[Cell::new("a long name"), Cell::number(12_345), Cell::new("a long note")]];
        let shown = |room| {
            let (header, rows) = fit(&COLUMNS, &rows, room);
            [text(&header), text(&rows[0])]
        };
        assert_eq!(shown(40), ["NAME              N  NOTE", "a long name  12,345  a long note"]);
        assert_eq!(shown(26), ["NAME              N  NOTE", "a long name  12,345  a lo…"]);
        assert_eq!(shown(17), ["NAME            N", "a long n…  12,345"]);
        assert_eq!(shown(8), ["NAME", "a long …"]);
    }
}
