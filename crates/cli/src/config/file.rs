//! Reads `punctual.toml` with the position of each key. Errors quote neither the file, which may contain passwords, nor
//! the parser.

use std::{collections::BTreeMap, fmt};

use toml::de::DeTable;

/// The content of the file.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    pub(crate) table: toml::Table,
    /// Where each key and its value begin.
    places: BTreeMap<Vec<String>, Places>,
}

#[derive(Debug, Clone, Copy)]
struct Places {
    key: Position,
    value: Position,
}

/// A position in a file, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl Position {
    const START: Self = Self { line: 1, column: 1 };

    /// The position of a byte.
    fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte.min(text.len())).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

impl ConfigFile {
    /// Parses the text of a file; an error says where and what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |error: toml::de::Error| located(text, &error);
        let spanned = DeTable::parse(text).map_err(wrong)?;
        let table = toml::from_str(text).map_err(wrong)?;
        let mut places = BTreeMap::new();
        locate(text, spanned.get_ref(), &mut Vec::new(), &mut places);
        Ok(Self { table, places })
    }

    /// Where a key begins.
    pub(crate) fn key_at(&self, path: &[String]) -> Position {
        self.places.get(path).map_or(Position::START, |places| places.key)
    }

    /// Where the value of a key begins.
    pub(crate) fn value_at(&self, path: &[String]) -> Position {
        self.places.get(path).map_or(Position::START, |places| places.value)
    }
}

fn locate(text: &str, table: &DeTable<'_>, path: &mut Vec<String>, places: &mut BTreeMap<Vec<String>, Places>) {
    for (key, value) in table.iter() {
        path.push(key.get_ref().to_string());
        let at = |byte| Position::of(text, byte);
        places.insert(path.clone(), Places { key: at(key.span().start), value: at(value.span().start) });
        if let Some(table) = value.get_ref().as_table() {
            locate(text, table, path, places);
        }
        path.pop();
    }
}

/// What is wrong with the text of a TOML file, and where; neither the text nor the parser is quoted.
pub(crate) fn located(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map(|span| format!("{}: ", Position::of(text, span.start))).unwrap_or_default();
    format!("{at}{}", explained(error.message()))
}

/// What is wrong, in words of our own: the first of these whose mark the message of the parser contains.
fn explained(message: &str) -> &'static str {
    const EXPLAINED: [(&str, &str); 16] = [
        ("duplicate key", "this key or section is defined twice"),
        ("unknown field", "unknown key"),
        ("missing field", "a key is missing"),
        ("invalid type", "the value has the wrong type"),
        ("cannot recurse", "too many levels of nesting"),
        ("unclosed array", "a list is not closed: expected `]`"),
        ("unclosed inline table", "a table is not closed: expected `}`"),
        ("unclosed table", "the name of a section is not closed: expected `]`"),
        ("missing comma", "expected a comma between two values"),
        ("extra comma", "expected a value between two commas"),
        ("unquoted key", "invalid key: expected letters, digits, `-` and `_`, or a key in quotes"),
        ("missing key", "invalid key: expected `key = value`"),
        ("missing value", "expected a value after `=`"),
        ("key with no value", "expected `key = value`"),
        ("unexpected content", "expected the end of the line"),
        ("string", "invalid text: expected quotes at both ends, and `\\\\` for a backslash"),
    ];
    let found = EXPLAINED.iter().find(|(mark, _)| message.contains(*mark));
    found.map_or("not valid TOML: expected `key = value` with text in quotes, or a `[section]`", |(_, words)| *words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn keys_and_values_have_positions() {
        let file = ConfigFile::parse("store = \"x\"\n[queues.\"e-mail\"]\n  priority = 3\n").unwrap();
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(file.value_at(&path("store")).to_string(), "line 1, column 9");
        assert_eq!(file.key_at(&path("queues.e-mail.priority")).to_string(), "line 3, column 3");
        assert_eq!(file.value_at(&path("queues.e-mail.priority")).line, 3);
    }

    #[test]
    fn syntax_errors_quote_neither_the_file_nor_the_parser() {
        for (text, at) in [
            ("store = \"hunter2", "line 1"),
            ("\nstore = hunter2\n", "line 2"),
            ("store = \"hunter2\" hunter2", "line 1"),
            ("store = \"hunter2\"\nstore = \"hunter2\"", "line 2"),
            ("[worker\nlease = \"hunter2\"", "line 1"),
            ("hunter2", "line 1"),
        ] {
            let problem = ConfigFile::parse(text).unwrap_err();
            assert!(problem.starts_with(at) && !problem.contains("hunter2"), "{text}: {problem}");
        }
        assert!(ConfigFile::parse("a = 1\na = 2").unwrap_err().contains("defined twice"));
    }
}
