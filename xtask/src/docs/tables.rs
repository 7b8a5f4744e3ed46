//! The page of the tables.

use std::fmt::Write as _;

/// The engines, in the order of their columns on the page.
const ENGINES: [&str; 3] = ["SQLite", "PostgreSQL", "SQL Server"];

const HEAD: &str = "# Tables

The tables and views of each engine, for queries with `sqlite3`, `psql` or `sqlcmd`. They may change between versions:
programs should use the [HTTP API](../http.md) or the library instead. Do not change rows by hand. `cargo xtask docs`
writes this page from the migrations.

Start with the views whose names end with `_readable`: they show ids as the commands do, and times as text. In SQLite
and SQL Server, times are microseconds since 1970 (UTC), and ids have 16 bytes. Documents are stored as JSON texts.
";

/// Words that begin a constraint in the place of a column.
const CONSTRAINTS: [&str; 7] = ["primary", "unique", "check", "foreign", "constraint", "like", "index"];
/// Words that may follow the type of a column.
const AFTER_TYPE: [&str; 11] = [
    "not",
    "null",
    "default",
    "primary",
    "unique",
    "check",
    "collate",
    "references",
    "generated",
    "identity",
    "constraint",
];

/// A table or view of one engine.
#[derive(Default)]
struct Relation {
    name: String,
    is_view: bool,
    about: String,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    kind: String,
    about: String,
}

/// Describes the tables of the engines, whose migrations are given in the order of [`ENGINES`].
pub(super) fn page(migrations: &[String; 3]) -> String {
    let engines = migrations.each_ref().map(|sql| relations(sql));
    let mut page = HEAD.to_owned();
    let mut names: Vec<(bool, &str)> = Vec::new();
    for relation in engines.iter().flatten() {
        let name = (relation.is_view, relation.name.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    for (is_view, name) in names {
        let found =
            engines.each_ref().map(|all| all.iter().find(|one| (one.is_view, one.name.as_str()) == (is_view, name)));
        let about = found.iter().flatten().map(|one| one.about.as_str()).find(|about| !about.is_empty());
        let of: Vec<&str> =
            ENGINES.iter().zip(&found).filter(|(_, found)| found.is_some()).map(|(of, _)| *of).collect();
        let what = if is_view { "View" } else { "Table" };
        let _ = write!(page, "\n## {name}\n\n{what} of {}.", of.join(", "));
        let _ = writeln!(page, "{}{}", if about.is_some() { " " } else { "" }, about.unwrap_or_default());
        columns(&mut page, &found);
    }
    page
}

fn columns(page: &mut String, found: &[Option<&Relation>; 3]) {
    let mut names: Vec<&str> = Vec::new();
    for column in found.iter().flatten().flat_map(|one| &one.columns) {
        if !names.contains(&column.name.as_str()) {
            names.push(&column.name);
        }
    }
    if names.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n| column | {} | |\n|---|---|---|---|---|", ENGINES.join(" | "));
    for name in names {
        let of = found.map(|one| one.and_then(|one| one.columns.iter().find(|column| column.name == name)));
        let kinds = of.map(|column| column.map_or("–", |column| column.kind.as_str()));
        let about = of.iter().flatten().map(|column| column.about.as_str()).find(|about| !about.is_empty());
        let _ = writeln!(page, "| `{name}` | {} | {} |", kinds.join(" | "), about.unwrap_or_default());
    }
}

/// The tables and views that a migration creates, with the comments above them.
fn relations(sql: &str) -> Vec<Relation> {
    let (mut found, mut about, mut lines) = (Vec::new(), String::new(), sql.lines());
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("--") {
            add(&mut about, comment);
            continue;
        }
        let comment = std::mem::take(&mut about);
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["create", "table", name, ..] if !line.contains(" partition of ") => {
                let columns = of_table(line, &mut lines);
                let comment =
                    if line.contains("(like ") { "New rows, before they are added up.".to_owned() } else { comment };
                found.push(Relation { name: name.to_owned(), is_view: false, about: comment, columns });
            }
            ["create", "view", name, ..] => {
                found.push(Relation { name: name.to_owned(), is_view: true, about: comment, ..Relation::default() });
            }
            _ => {}
        }
    }
    found
}

/// The columns of a table: those of its first line if it has only one, otherwise those of the next lines.
fn of_table<'s>(first: &str, lines: &mut impl Iterator<Item = &'s str>) -> Vec<Column> {
    let body = first.split_once('(').map_or("", |(_, body)| body).trim();
    let mut found = Vec::new();
    if let Some((body, _)) = body.rsplit_once(')') {
        found.extend(parts(body).into_iter().filter_map(|part| column(part, String::new())));
        return found;
    }
    let mut about = String::new();
    for line in lines.take_while(|line| !line.starts_with(')')) {
        let line = line.trim();
        match line.strip_prefix("--") {
            Some(comment) => add(&mut about, comment),
            None => {
                let mut comment = std::mem::take(&mut about);
                found.extend(parts(line).into_iter().filter_map(|part| column(part, std::mem::take(&mut comment))));
            }
        }
    }
    found
}

/// The parts of a line between commas that are not in parentheses.
fn parts(line: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in line.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    parts
}

fn column(definition: &str, about: String) -> Option<Column> {
    let mut words = definition.split_whitespace();
    let name = words.next().filter(|name| !CONSTRAINTS.contains(name))?;
    let is_of_type = |word: &&str| !AFTER_TYPE.contains(&word.split('(').next().unwrap_or_default());
    let kind: Vec<&str> = words.take_while(is_of_type).collect();
    Some(Column { name: name.to_owned(), kind: kind.join(" "), about })
}

/// Appends a line of a comment.
fn add(about: &mut String, comment: &str) {
    if !about.is_empty() && !comment.is_empty() {
        about.push(' ');
    }
    about.push_str(comment.trim());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_their_types_and_comments() {
        let sql = "-- The head of the file.\n\n-- Jobs,\n-- all of them.\ncreate table jobs (\n\
                   id   blob not null,\n    -- Higher first.\n    rank decimal(3, 1) default 5,\n    \
                   primary key (id, rank)\n) strict;\n\
                   create table ends (id int primary key, at bigint);\ncreate view now as\nselect 1;\n";
        let found = relations(sql);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["jobs", "ends", "now"]);
        assert_eq!(found[0].about, "Jobs, all of them.");
        let columns: Vec<[&str; 3]> =
            found[..2].iter().flat_map(|one| &one.columns).map(|one| [&*one.name, &*one.kind, &*one.about]).collect();
        let expected =
            [["id", "blob", ""], ["rank", "decimal(3, 1)", "Higher first."], ["id", "int", ""], ["at", "bigint", ""]];
        assert_eq!(columns, expected);
    }
}
