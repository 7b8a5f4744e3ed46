//! The page of the configuration file.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

const HEAD: &str = "# Configuration

`punctual` reads `punctual.toml` in the working directory, or the file that `--config` or `PUNCTUAL_CONFIG` names.
Flags override `PUNCTUAL_*` variables, which override the file; [the command line](cli.md) lists both. Unknown keys are
errors. Relative paths are relative to the folder of the file. `cargo xtask docs` writes this page from the structures
that read the file.

Durations are written as `90s`, `5m`, `1h 30m`, `7d`; sizes as `256MiB`; rates as `100/1m`; times in RFC 3339 format.
";

/// A section of the file: its title, the structure that reads it, and the file of the structure.
const SECTIONS: [(&str, &str, &str); 9] = [
    ("Top level", "Config", "crates/cli/src/config.rs"),
    ("[worker]", "WorkerConfig", "crates/cli/src/config.rs"),
    ("[retention]", "RetentionConfig", "crates/cli/src/config.rs"),
    ("[queues.NAME]", "QueueConfig", "crates/cli/src/args/queues.rs"),
    ("[queues.NAME.limits]", "Limits", "crates/core/src/limiter/mod.rs"),
    ("[schedules.NAME]", "ScheduleArgs", "crates/cli/src/recurring.rs"),
    ("[handlers.NAME]", "ProgramConfig", "crates/cli/src/handlers/program.rs"),
    ("[alerts]", "AlertsConfig", "crates/cli/src/alerts.rs"),
    ("[alerts.webhooks.NAME]", "WebhookConfig", "crates/cli/src/alerts.rs"),
];

/// Describes every key; `read` returns the text of a source file.
pub(super) fn page(read: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut page = HEAD.to_owned();
    for (title, structure, file) in SECTIONS {
        let title = if title.starts_with('[') { format!("`{title}`") } else { title.to_owned() };
        let _ = write!(page, "\n## {title}\n\n| key | type | meaning |\n|---|---|---|\n");
        let keys = keys(&read(file)?, structure).with_context(|| format!("{file}: the keys of {structure}"))?;
        for (key, kind, about) in keys {
            ensure!(!about.is_empty(), "{file}: `{key}` of {structure} needs a doc comment");
            let _ = writeln!(page, "| `{key}` | {kind} | {about} |");
        }
    }
    Ok(page)
}

/// The fields of a structure: name, type in words, doc comment.
fn keys(source: &str, structure: &str) -> Option<Vec<(String, String, String)>> {
    let (_, body) = source.split_once(&format!("struct {structure} {{\n"))?;
    let (body, _) = body.split_once("\n}\n")?;
    let (mut keys, mut about, mut is_skipped) = (Vec::new(), Vec::new(), false);
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            about.push(comment.trim());
        } else if line.starts_with("#[") {
            is_skipped |= line == "#[serde(skip)]";
        } else {
            let (name, kind) = line.trim_end_matches(',').split_once(": ")?;
            let name = name.rsplit(' ').next().unwrap_or_default();
            let comment = std::mem::take(&mut about).join(" ");
            if !std::mem::take(&mut is_skipped) {
                keys.push((name.to_owned(), in_words(kind), comment));
            }
        }
    }
    Some(keys)
}

/// A type of a field as users know it.
fn in_words(kind: &str) -> String {
    let of = |prefix: &str| kind.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = of("Option<") {
        return in_words(inner);
    }
    if let Some(inner) = of("Vec<") {
        return format!("list of {}s", in_words(inner));
    }
    if let Some(inner) = of("BTreeMap<String, ") {
        return format!("{}s by name", in_words(inner));
    }
    match kind {
        "bool" => "`true` or `false`",
        "usize" | "u32" | "u64" | "i32" | "i64" => "number",
        "Span" => "duration",
        "Bytes" => "size",
        "Rate" => "rate",
        "Timestamp" => "time",
        "PathBuf" => "path",
        "Payload" => "any value",
        "Limits" => "table",
        _ if kind.ends_with("Config") && kind != "ResultConfig" || kind.ends_with("Args") => "table",
        _ => "text",
    }
    .to_owned()
}
