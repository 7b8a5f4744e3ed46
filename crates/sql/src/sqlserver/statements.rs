//! The texts of all statements, a file per noun.
//!
//! The texts are never assembled at run time: the server receives exactly what the files contain. Statements that read
//! `openjson(@P1)` take a document of lines; the others take their values as parameters. Where rows are read for each
//! line, the line's index is the last column.

use std::sync::LazyLock;

use crate::{db::Statement, ops::statements::every_statement, sections::texts};

every_statement!(texts);

/// The statements of this engine only.
pub(crate) mod own {
    use crate::sections::section;

    macro_rules! texts {
        ($($name:ident)*) => {
            $(pub(crate) const $name: &str = section(include_str!("sql/engine.sql"), stringify!($name));)*

            /// Each with its name.
            #[cfg(test)]
            pub(crate) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
        };
    }

    texts! {
        SETTINGS
        VERSION
        ALONE
        BESIDE
        WITHIN
        UNDO_WITHIN
        SUMS
        PEEK
        NUMBER_EVENTS
        ROLL_UP_COUNTS
        ROLL_UP_PENDING
        ROLL_UP_ROLLUPS
        CREATE_SCHEMA
        LOCK_SCHEMA
        UNLOCK_SCHEMA
        MIGRATIONS
        INSERT_MIGRATION
    }
}

/// Properties of a statement.
struct Properties {
    takes_lines: bool,
    tables: u64,
}

static KNOWN: LazyLock<Vec<Properties>> = LazyLock::new(|| {
    let mut names = Vec::new();
    let known = |(_, text): &(&str, &'static str)| {
        let tables = words(text).fold(0, |tables, name| {
            let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            tables | 1 << index
        });
        Properties { takes_lines: text.contains("openjson(@P1)"), tables }
    };
    ALL.iter().map(known).collect()
});

/// The tables that a text names. The view counts as its two tables.
fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with("punctual_")).flat_map(|word| match word {
        "punctual_jobs_now" => ["punctual_jobs", "punctual_running"],
        word => [word, word],
    })
}

/// The text of a statement.
pub(crate) fn text(Statement(index, _): Statement) -> &'static str {
    ALL[index].1
}

/// Whether a statement takes many rows at once.
pub(crate) fn takes_lines(Statement(index, _): Statement) -> bool {
    KNOWN[index].takes_lines
}

/// The tables that a statement uses, as a bit set.
pub(crate) fn tables(Statement(index, _): Statement) -> u64 {
    KNOWN[index].tables
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::{dialect::MsSqlDialect, parser::Parser};

    use super::{super::schema::MIGRATIONS, *};
    use crate::sections::assert_all_listed;

    /// The batches of all migrations, each with the migration's name.
    fn migrations() -> impl Iterator<Item = (&'static str, &'static str)> {
        MIGRATIONS.iter().flat_map(|migration| migration.sql.split("\ngo\n").map(|batch| (migration.name, batch)))
    }

    #[test]
    fn every_text_is_the_dialect() {
        // Syntax that the parser does not support, although the server does.
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
    fn every_section_is_a_statement() {
        FILES.iter().for_each(|(file, names)| assert_all_listed(file, names));
        let own: Vec<_> = own::ALL.iter().map(|(name, _)| *name).collect();
        assert_all_listed(include_str!("sql/engine.sql"), &own);
    }

    /// The number of parameters of a text: `?1` and so on, `@P1` and so on, or the values of a line without its index.
    fn values(text: &str) -> usize {
        let code: String = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        let highest = |mark: &str| {
            let after = code.split(mark).skip(1);
            after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()).max()
        };
        if code.contains("openjson(@P1)") {
            let has_place = code.contains(" place int '$[");
            return highest("$[").unwrap() + 1 - usize::from(has_place);
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
        // A line must declare a column's type as its table does; names that are not columns are not checked.
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
    fn statements_for_the_same_tables_are_known() {
        use crate::ops::statements as sql;
        assert_ne!(tables(sql::INSERT_DUE) & tables(sql::DELETE_DUE), 0);
        assert_eq!(tables(sql::INSERT_DUE) & tables(sql::INSERT_READY), 0);
        assert!(takes_lines(sql::INSERT_JOB) && !takes_lines(sql::INSERT_TOKEN));
    }
}
