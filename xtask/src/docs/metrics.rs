//! The page of the metrics.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

const HEAD: &str = "# Metrics

`GET /metrics` of a server returns these metrics in the text format of Prometheus; [monitoring](../monitoring.md)
describes how to scrape them. `cargo xtask docs` writes this page from the source.
";

/// A metric, as its source defines it.
struct Family {
    name: String,
    kind: String,
    labels: Vec<String>,
    about: String,
}

/// Lists the metrics of the server, of workers, and of stores.
pub(super) fn page(server: &str, worker: &str, stores: &[String]) -> Result<String> {
    let mut page = HEAD.to_owned();
    section(&mut page, "Server", "Of every server:", of_server(server))?;
    section(&mut page, "Workers", "Of the workers that the server started:", of_workers(worker))?;
    let stores = stores.iter().flat_map(|source| of_store(source)).collect();
    section(&mut page, "Stores", "Of the server's connection to PostgreSQL, and to Redis:", stores)?;
    Ok(page)
}

fn section(page: &mut String, title: &str, intro: &str, families: Vec<Family>) -> Result<()> {
    ensure!(!families.is_empty(), "no metrics found for the section {title}");
    let _ = write!(page, "\n## {title}\n\n{intro}\n\n| metric | type | labels | description |\n|---|---|---|---|\n");
    for Family { name, kind, labels, about } in families {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(page, "| `{name}` | {kind} | {} | {about} |", labels.join(", "));
    }
    Ok(())
}

/// Calls of `family` and `histogram` with a literal name; the labels are those of the values that follow.
fn of_server(source: &str) -> Vec<Family> {
    let mut families = Vec::new();
    for part in source.replace(".histogram(", ".family(\u{1}").split(".family(").skip(1) {
        let is_by_name = part.starts_with('\u{1}');
        let part = part.trim_start_matches('\u{1}');
        let literals: Vec<&str> = part.split('"').skip(1).step_by(2).collect();
        match literals[..] {
            [name, about, ..] if is_by_name && name.starts_with("punctual_") => {
                let labels = vec!["queue".to_owned(), "name".to_owned()];
                families.push(Family { name: name.into(), kind: "histogram".into(), labels, about: about.into() });
            }
            [name, kind, about, ..] if name.starts_with("punctual_") && part.trim_start().starts_with('"') => {
                let (name, kind, about) = (name.to_owned(), kind.to_owned(), about.to_owned());
                families.push(Family { name, kind, labels: labels(part), about });
            }
            _ => {}
        }
    }
    families
}

/// Names in pairs such as `("queue", value)`.
fn labels(code: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for after in code.split("(\"").skip(1) {
        let name = after.split("\", ").next().unwrap_or_default();
        // Suffixes of histograms begin with an underscore.
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        // `le` is part of every histogram.
        if is_name && name != "le" && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The list `counters!` of a worker: a doc comment, and `field => "name";` if the counter is a metric.
fn of_workers(source: &str) -> Vec<Family> {
    let list = source.rsplit("\ncounters! {\n").next().unwrap_or_default();
    let (mut families, mut about) = (Vec::new(), "");
    for line in list.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("/// ") {
            about = comment;
        } else if let Some(name) = line.split('"').nth(1) {
            families.push(Family { name: name.into(), kind: kind(name), labels: Vec::new(), about: about.into() });
        }
    }
    families
}

/// Calls of `Metric::new`; the description may be a constant of the file.
fn of_store(source: &str) -> Vec<Family> {
    let mut families = Vec::new();
    let parts: Vec<&str> = source.split("Metric::new(").collect();
    for (before, part) in parts.iter().zip(&parts[1..]) {
        let Some(name) = part.split('"').nth(1).filter(|name| name.starts_with("punctual_")) else { continue };
        let second = part.split(',').nth(1).unwrap_or_default().trim();
        let constant = source.split_once(&format!("const {second}: &str = \"")).map(|(_, value)| value);
        let about = constant.or(part.splitn(4, '"').nth(3)).and_then(|value| value.split('"').next());
        let labels = before.rsplit_once("let labels = vec!").map(|(_, pairs)| labels(pairs)).unwrap_or_default();
        families.push(Family { name: name.into(), kind: kind(name), labels, about: about.unwrap_or_default().into() });
    }
    families
}

fn kind(name: &str) -> String {
    if name.ends_with("_total") { "counter".to_owned() } else { "gauge".to_owned() }
}
