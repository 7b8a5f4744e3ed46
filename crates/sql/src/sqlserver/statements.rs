//! The texts of all statements, one file each.
//!
//! Those that begin with `openjson(@P1)` somewhere take a document of lines; the others take their values as they are. Where rows are read for each
//! line, the line's place is the last column.

use std::sync::LazyLock;

use crate::{db::Statement, ops::statements::every_statement};

macro_rules! texts {
    ($($name:ident $file:literal)*) => {
        /// Every statement with the name of its file.
        pub(crate) const ALL: &[(&str, &str)] = &[$(($file, include_str!(concat!("sql/", $file, ".sql")))),*];
    };
}

every_statement!(texts);

/// What is known of a statement.
struct Known {
    takes_lines: bool,
    tables: u64,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let mut names = Vec::new();
    let known = |(_, text): &(&str, &'static str)| {
        let tables = words(text).fold(0, |tables, name| {
            let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            tables | 1 << place
        });
        Known { takes_lines: text.contains("openjson(@P1)"), tables }
    };
    ALL.iter().map(known).collect()
});

/// The tables that a text names. A view is named for those that it is of.
fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with("punctual_")).flat_map(|word| match word {
        "punctual_jobs_now" => ["punctual_jobs", "punctual_running"],
        word => [word, word],
    })
}

/// Its text.
pub(crate) fn text(Statement(place): Statement) -> &'static str {
    ALL[place].1
}

/// Whether it takes many rows at once.
pub(crate) fn takes_lines(Statement(place): Statement) -> bool {
    KNOWN[place].takes_lines
}

/// Which tables it touches, a bit each.
pub(crate) fn tables(Statement(place): Statement) -> u64 {
    KNOWN[place].tables
}
