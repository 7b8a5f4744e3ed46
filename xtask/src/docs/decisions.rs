//! The list of decision records, as a page and in the table of contents.

use std::fmt::Write as _;

use anyhow::{Context, Result};

const HEAD: &str = "# Decisions

Each record states the question, the alternatives, what was measured and what was decided. `cargo xtask docs` writes
this list.

| | decision | status | date |
|---|---|---|---|
";

/// The entry of the table of contents below which the records stand.
const ENTRY: &str = "- [Decisions](decisions.md)\n";

/// Lists the records, given by file name and text.
pub(super) fn page(records: &[(String, String)]) -> Result<String> {
    let mut page = HEAD.to_owned();
    for (file, text) in records {
        let (number, title) = title(file, text)?;
        let (status, date) = (field(text, "Status: "), field(text, "Date: "));
        let _ = writeln!(page, "| {number} | [{title}](adr/{file}) | {status} | {date} |");
    }
    Ok(page)
}

/// The table of contents with all records, instead of those that it has.
pub(super) fn contents(summary: &str, records: &[(String, String)]) -> Result<String> {
    let kept: String = summary.split_inclusive('\n').filter(|line| !line.contains("](adr/")).collect();
    let (before, after) = kept.split_once(ENTRY).context("docs/SUMMARY.md has no entry for the decisions")?;
    let mut contents = format!("{before}{ENTRY}");
    for (file, text) in records {
        let (number, title) = title(file, text)?;
        let _ = writeln!(contents, "  - [{number}. {title}](adr/{file})");
    }
    contents.push_str(after);
    Ok(contents)
}

/// The number of a record, and its title without the number.
fn title<'r>(file: &'r str, text: &'r str) -> Result<(&'r str, &'r str)> {
    let number = file.split('-').next().unwrap_or_default().trim_start_matches('0');
    let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
    let title = title.with_context(|| format!("docs/adr/{file} has no title"))?;
    Ok((number, title.trim_start_matches(|c: char| c.is_ascii_digit() || ". :".contains(c))))
}

/// The text after a label, up to the next period or the end of the line.
fn field<'t>(text: &'t str, label: &str) -> &'t str {
    let value = text.split_once(label).map_or("", |(_, after)| after);
    value.split(['.', '\n']).next().unwrap_or_default().trim()
}
