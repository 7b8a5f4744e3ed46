//! The texts of all statements, one file each.
//!
//! Nothing is put together at run time: what a file says is what the server gets, so that the files are the record of
//! it. Those that read `openjson(@P1)` take a document of lines; the others take their values as they are. Where rows
//! are read for each line, the line's place is the last column.

use std::sync::LazyLock;

use crate::{db::Statement, ops::statements::every_statement};

macro_rules! texts {
    ($($name:ident $file:literal)*) => {
        /// Every statement with the name of its file.
        pub(crate) const ALL: &[(&str, &str)] = &[$(($file, include_str!(concat!("sql/", $file, ".sql")))),*];
    };
}

every_statement!(texts);

/// What this engine says besides the shared operations.
pub(crate) mod own {
    macro_rules! texts {
        ($($name:ident $file:literal)*) => {
            $(pub(crate) const $name: &str = include_str!(concat!("own/", $file, ".sql"));)*

            /// Each with the name of its file.
            #[cfg(test)]
            pub(crate) const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
        };
    }

    texts! {
        SETTINGS "settings"
        VERSION "version"
        ALONE "alone"
        BESIDE "beside"
        WITHIN "within"
        UNDO_WITHIN "undo_within"
        SUMS "sums"
        PEEK "peek"
        NUMBER_EVENTS "number_events"
        ADD_UP_COUNTS "add_up_counts"
        ADD_UP_PENDING "add_up_pending"
        ADD_UP_ROLLUPS "add_up_rollups"
        CREATE_SCHEMA "create_schema"
        LOCK_SCHEMA "lock_schema"
        UNLOCK_SCHEMA "unlock_schema"
        APPLIED "applied"
        NOTE_MIGRATION "note_migration"
    }
}

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
pub(crate) fn text(Statement(place, _): Statement) -> &'static str {
    ALL[place].1
}

/// Whether it takes many rows at once.
pub(crate) fn takes_lines(Statement(place, _): Statement) -> bool {
    KNOWN[place].takes_lines
}

/// Which tables it touches, a bit each.
pub(crate) fn tables(Statement(place, _): Statement) -> u64 {
    KNOWN[place].tables
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{collections::BTreeSet, fs, path::Path};

    use sqlparser::{dialect::MsSqlDialect, parser::Parser};

    use super::{super::*, *};

    /// What is sent to bring a schema up to date, with a name.
    fn migrations() -> impl Iterator<Item = (&'static str, &'static str)> {
        MIGRATIONS.iter().flat_map(|migration| migration.sql.split("\ngo\n").map(|batch| (migration.name, batch)))
    }

    #[test]
    fn every_text_is_the_dialect() {
        // What the parser does not know, though the server does.
        let unknown = [
            (" option (maxrecursion 0)", ""),
            (" nonclustered", ""),
            (" clustered", ""),
            (" set (lock_escalation = disable)", " add parsed int"),
            ("exec @lock = ", "exec "),
            ("delete top (20000)", "delete"),
            ("start with 1 increment by 1", "increment by 1 start with 1"),
            ("next value for punctual_event_sequence", "1"),
            ("set numeric_roundabort off", ""),
            ("save transaction punctual", "commit transaction"),
            ("rollback transaction punctual", "rollback transaction"),
            ("set xact_abort on", ""),
            ("set lock_timeout 30000", ""),
        ];
        for (name, text) in ALL.iter().chain(own::ALL).copied().chain(migrations()) {
            let known = unknown.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
            let parsed = Parser::parse_sql(&MsSqlDialect {}, &known);
            assert!(matches!(&parsed, Ok(statements) if !statements.is_empty()), "{name}: {parsed:?}");
        }
    }

    #[test]
    fn every_file_is_a_statement() {
        for (folder, texts) in [("sql", ALL), ("own", own::ALL)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlserver").join(folder);
            let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
            let files: BTreeSet<String> =
                files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
            assert_eq!(files, texts.iter().map(|(name, _)| (*name).to_owned()).collect());
        }
    }

    /// How many values a text names: `?1` and so on, `@P1` and so on, or those of a line besides its place.
    fn values(text: &str) -> usize {
        let code: String = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        let highest = |mark: &str| {
            let after = code.split(mark).skip(1);
            after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()).max()
        };
        if code.contains("openjson(@P1)") {
            let place = usize::from(code.contains(" place int '$["));
            return highest("$[").unwrap() + 1 - place;
        }
        highest("@P").or_else(|| highest("?")).unwrap_or(0)
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn every_statement_takes_the_values_that_operations_give_it() {
        let theirs = crate::sqlite::texts();
        for ((name, text), (same, known)) in ALL.iter().zip(theirs) {
            assert_eq!((*name, values(text)), (*same, values(known)), "as many values as SQLite's");
        }
    }

    #[test]
    fn lines_are_read_as_the_types_that_columns_have() {
        // A line says the type of a column as its table does; other names have none there.
        let tables = MIGRATIONS.iter().map(|migration| migration.sql).collect::<String>();
        let column = |table: &str, name: &str| -> Option<String> {
            let body = tables.split(&format!("create table {table} (")).nth(1)?.split("primary key").next()?;
            let words = body
                .split([',', '\n'])
                .find_map(|line| line.trim().strip_prefix(&format!("{name} ")).map(str::trim))?;
            Some(words.split_whitespace().next()?.to_owned())
        };
        for (name, text) in ALL.iter().filter(|(_, text)| text.starts_with("-- ") && text.contains("openjson(@P1)")) {
            let Some(table) = text.split("insert into ").nth(1).and_then(|rest| rest.split(' ').next()) else {
                continue;
            };
            let lines = text.split("with (").nth(1).unwrap().split("')").next().unwrap();
            for line in lines.split(',').map(str::trim).filter(|line| line.contains("'$[")) {
                let (column_name, rest) = line.split_once(' ').unwrap();
                let kind = rest.split(' ').next().unwrap();
                let expected = column(table, column_name).map(|kind| kind.replace("binary(16)", "char(36)"));
                assert!(
                    expected.as_deref().is_none_or(|expected| expected == kind),
                    "{name}: {column_name} is {expected:?}, not {kind}"
                );
            }
        }
    }

    #[test]
    fn what_touches_the_same_tables_is_known() {
        use crate::ops::statements as sql;
        assert_ne!(tables(sql::INSERT_DUE) & tables(sql::DELETE_DUE), 0);
        assert_eq!(tables(sql::INSERT_DUE) & tables(sql::INSERT_READY), 0);
        assert!(takes_lines(sql::INSERT_JOB) && !takes_lines(sql::INSERT_TOKEN));
    }
}
