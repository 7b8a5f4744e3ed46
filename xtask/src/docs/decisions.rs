//! The list of decision records.

use std::fmt::Write as _;

use anyhow::{Context, Result};

const HEAD: &str = "# Decisions

Each record states the question, the alternatives, what was measured and what was decided. `cargo xtask docs` writes
this list.

| | decision | status | date |
|---|---|---|---|
";

/// Lists the records, given by file name and text.
pub(super) fn page(records: &[(String, String)]) -> Result<String> {
    let mut page = HEAD.to_owned();
    for (file, text) in records {
        let number = file.split('-').next().unwrap_or_default().trim_start_matches('0');
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("docs/adr/{file} has no title"))?;
        // Titles begin with the number, which has a column of its own.
        let title = title.trim_start_matches(|c: char| c.is_ascii_digit() || ". :".contains(c));
        let (status, date) = (field(text, "Status: "), field(text, "Date: "));
        let _ = writeln!(page, "| {number} | [{title}](adr/{file}) | {status} | {date} |");
    }
    Ok(page)
}

/// The text after a label, up to the next period or the end of the line.
fn field<'t>(text: &'t str, label: &str) -> &'t str {
    let value = text.split_once(label).map_or("", |(_, after)| after);
    value.split(['.', '\n']).next().unwrap_or_default().trim()
}
