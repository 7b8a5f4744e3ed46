//! The page of error codes.

use std::fmt::Write as _;

use anyhow::{Context, Result};

/// The status codes of HTTP by their names in the source.
const STATUSES: [(&str, u16); 13] = [
    ("BAD_REQUEST", 400),
    ("UNAUTHORIZED", 401),
    ("FORBIDDEN", 403),
    ("NOT_FOUND", 404),
    ("METHOD_NOT_ALLOWED", 405),
    ("REQUEST_TIMEOUT", 408),
    ("CONFLICT", 409),
    ("PAYLOAD_TOO_LARGE", 413),
    ("UNSUPPORTED_MEDIA_TYPE", 415),
    ("UNPROCESSABLE_ENTITY", 422),
    ("TOO_MANY_REQUESTS", 429),
    ("INTERNAL_SERVER_ERROR", 500),
    ("SERVICE_UNAVAILABLE", 503),
];

const HEAD: &str = "# Errors by code

The codes of Punctual's errors are stable; messages may change. `cargo xtask docs` writes this page from the source.

## HTTP

An error of the [HTTP API](../http.md#errors) is a document of the type `application/problem+json` with one of these
codes:

| code | status | title | meaning |
|---|---|---|---|
";

const OF_JOBS: &str = "
## Jobs

The error of an attempt has a code if Punctual itself detected the failure. Errors of handlers have only a message.

| code | meaning |
|---|---|
";

const OF_EXITS: &str = "
## Exit codes

Exit codes of the program `punctual`; 0 means success. [Operations](../operations.md#exit-codes) has examples.

| exit code | meaning |
|---|---|
";

/// Lists the codes that these sources define.
pub(super) fn page(problems: &str, jobs: &str, exits: &str) -> Result<String> {
    let mut page = HEAD.to_owned();
    let codes = problems.split_once("\ncodes! {\n").and_then(|(_, after)| after.split_once("\n}\n"));
    let (codes, _) = codes.context("problem.rs has no list `codes!`")?;
    for (about, line) in documented(codes) {
        let quoted: Vec<&str> = line.split('"').collect();
        let [_, code, status, title, _] = quoted[..] else { anyhow::bail!("problem.rs: cannot read `{line}`") };
        let number = STATUSES.iter().find(|(name, _)| *name == status.trim()).map(|(_, number)| number);
        let number = number.with_context(|| format!("the status {} is not in STATUSES", status.trim()))?;
        let _ = writeln!(page, "| `{code}` | {number} | {title} | {about} |");
    }
    page.push_str(OF_JOBS);
    for (about, line) in documented(jobs).filter(|(_, line)| line.starts_with("pub const E_")) {
        let code = line.split('"').nth(1).with_context(|| format!("job.rs: cannot read `{line}`"))?;
        let _ = writeln!(page, "| `{code}` | {about} |");
    }
    page.push_str(OF_EXITS);
    for (about, line) in documented(exits).filter(|(_, line)| line.contains(": u8 = ")) {
        let code = line.trim_end_matches(';').rsplit(' ').next().unwrap_or_default();
        let _ = writeln!(page, "| {code} | {about} |");
    }
    Ok(page)
}

/// The lines that follow a doc comment, each with the comment.
fn documented(source: &str) -> impl Iterator<Item = (String, &str)> {
    let mut about = Vec::new();
    source.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            about.push(comment.trim());
            return None;
        }
        let comment = std::mem::take(&mut about).join(" ");
        (!comment.is_empty()).then_some((comment, line))
    })
}
