//! Checks of the sources beyond rustfmt and clippy. Known exceptions are listed here; an exception that is no longer
//! needed is an error, too, so that the lists only shrink.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{circles::circles, docs, links, root};

const LINE_MAX_COLUMNS: usize = 120;
const FILE_MAX_LINES: usize = 450;

/// Names that denote several types of a crate.
const AMBIGUOUS_TYPES: [(&str, &[&str]); 2] =
    [("crates/core", &["Order"]), ("crates/sql", &["Options", "Patience", "Sessions"])];

/// Former names, and the names to use.
const FORMER_NAMES: [(&str, &str); 22] = [
    ("Vital", "Metric"),
    ("Finding", "Diagnostic"),
    ("Parcel", "ExportBatch"),
    ("Extras", "JobOptions"),
    ("Passed", "LimitUsage"),
    ("JobWords", "JobInput"),
    ("ScheduleWords", "ScheduleInput"),
    ("WorkflowWords", "WorkflowInput"),
    ("UniqueWords", "UniqueInput"),
    ("DefaultWords", "DefaultsInput"),
    ("Outlook", "ScanBounds"),
    ("Pace", "Backoff"),
    ("Hearts", "Heartbeats"),
    ("Keeper", "DispatchLease"),
    ("Mailbox", "Outbox"),
    ("Letter", "OutboxMessage"),
    ("Desk", "AlertQueue"),
    ("Poster", "WebhookSender"),
    ("Warden", "MemoryWatchdog"),
    ("Servant", "PooledProcess"),
    ("Ears", "Subscriber"),
    ("Crew", "LocalWorkers"),
];

/// Phrases that the user documentation does not use, and their replacements.
const FORMER_PHRASES: [(&str, &str); 14] = [
    ("nobody", "the thing that is missing: no worker, no client"),
    ("somebody", "the one who acts: an operator, a client, a process"),
    ("whoever", "the one who acts: a client that, a process that"),
    ("for good", "permanently"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("so many", "the number, or `maximum`"),
    ("given back", "released, or returned to the queue"),
    ("at once in a time", "per period"),
    ("a second through", "per second through"),
    ("the whole history", "the history"),
    ("stands still", "is stopped, or is disabled"),
    ("told anew", "reloaded"),
    ("is no good", "is invalid"),
];

/// A file of the repository.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Runs all checks.
pub(crate) fn run() -> Result<()> {
    let sources = sources()?;
    let mut problems = Vec::new();
    for source in &sources {
        if source.is_rust() {
            comments_are_wrapped(source, &mut problems);
            module_tables_are_complete(source, &mut problems);
            former_names_are_gone(source, &mut problems);
        }
        decisions_have_status_and_date(source, &mut problems);
        documentation_is_plain(source, &mut problems);
    }
    files_are_short(&sources, &mut problems);
    type_names_are_unique(&sources, &mut problems);
    behaviours_are_run(&sources, &mut problems);
    modules_form_no_circles(&sources, &mut problems);
    tests_are_built(&sources, &mut problems);
    links_have_targets(&sources, &mut problems);
    docs::outdated(&mut problems)?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    ensure!(problems.is_empty(), "tidy: {} problems", problems.len());
    Ok(())
}

/// The files that git tracks, and untracked files that it does not ignore.
fn sources() -> Result<Vec<Source>> {
    let git = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md"])
        .current_dir(root())
        .output()
        .context("cannot start git")?;
    ensure!(git.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&git.stderr));
    let paths = String::from_utf8(git.stdout)?;
    let there = paths.lines().filter(|path| root().join(path).exists());
    let read = |path: &str| Ok(Source { path: path.to_owned(), text: fs::read_to_string(root().join(path))? });
    there.map(read).collect()
}

/// rustfmt wraps code, but not comments. Rows of tables may be longer.
fn comments_are_wrapped(source: &Source, problems: &mut Vec<String>) {
    for (number, line) in source.lines() {
        let text = line.trim_start();
        let is_table = text.starts_with("//! |") || text.starts_with("/// |");
        // An example is code, and a URL cannot be wrapped.
        let is_example = text.starts_with("/// #") || text.contains("://");
        if text.starts_with("//") && !is_table && !is_example && line.chars().count() > LINE_MAX_COLUMNS {
            problems.push(format!("{}:{number}: a comment of more than {LINE_MAX_COLUMNS} columns", source.path));
        }
    }
}

fn files_are_short(sources: &[Source], problems: &mut Vec<String>) {
    for source in sources.iter().filter(|source| source.is_rust()) {
        let lines = source.text.lines().count();
        if lines > FILE_MAX_LINES {
            problems.push(format!("{}: {lines} lines, at most {FILE_MAX_LINES} are allowed", source.path));
        }
    }
}

/// A table of modules at the head of a file must name each module.
fn module_tables_are_complete(source: &Source, problems: &mut Vec<String>) {
    let rows: Vec<&str> = source.text.lines().filter(|line| line.starts_with("//! |")).collect();
    let is_of_modules = rows.first().is_some_and(|head| head.contains("| file |"));
    if !is_of_modules {
        return;
    }
    let mut is_of_tests = false;
    for line in source.text.lines() {
        let declared = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        if let Some(name) = declared.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            let is_named = |row: &str| row.contains(&format!("`{name}`")) || row.contains(&format!("`{name}/"));
            if !is_of_tests && !rows.iter().any(|row| is_named(row)) {
                problems.push(format!("{}: the table of modules does not name `{name}`", source.path));
            }
        }
        is_of_tests = line.starts_with("#[cfg(test)]");
    }
}

fn former_names_are_gone(source: &Source, problems: &mut Vec<String>) {
    if source.path.ends_with("xtask/src/tidy.rs") {
        return;
    }
    for (number, line) in source.lines() {
        for word in line.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            if let Some((former, name)) = FORMER_NAMES.iter().find(|(former, _)| *former == word) {
                problems.push(format!("{}:{number}: `{former}` is called `{name}`", source.path));
            }
        }
    }
}

fn decisions_have_status_and_date(source: &Source, problems: &mut Vec<String>) {
    if source.path.starts_with("docs/adr/") && !(source.text.contains("Status: ") && source.text.contains("Date: ")) {
        problems.push(format!("{}: expected `Status: … Date: …` below the title", source.path));
    }
}

/// Checks the pages for users; decision records may quote phrases.
fn documentation_is_plain(source: &Source, problems: &mut Vec<String>) {
    let is_of_book = source.path.starts_with("docs/") && !source.path.starts_with("docs/adr/");
    let is_page = source.path == "README.md" || is_of_book && source.path.ends_with(".md");
    if !is_page {
        return;
    }
    for (number, line) in source.lines() {
        let words = format!(" {} ", line.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
        for (phrase, instead) in FORMER_PHRASES {
            if words.contains(&format!(" {phrase} ")) {
                problems.push(format!("{}:{number}: \"{phrase}\": write {instead}", source.path));
            }
        }
    }
}

/// A type name must be unique within a crate.
fn type_names_are_unique(sources: &[Source], problems: &mut Vec<String>) {
    let mut declarations: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let Some((folder, _)) = source.path.split_once("/src/").filter(|_| source.is_rust()) else { continue };
        let product = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for name in product.lines().filter_map(declared_type) {
            declarations.entry((folder, name)).or_default().insert(&source.path);
        }
    }
    let mut exceptions: BTreeSet<(&str, &str)> =
        AMBIGUOUS_TYPES.iter().flat_map(|(folder, names)| names.iter().map(|name| (*folder, *name))).collect();
    for ((folder, name), files) in declarations.into_iter().filter(|(_, files)| files.len() > 1) {
        if !exceptions.remove(&(folder, name)) {
            let files: Vec<_> = files.into_iter().collect();
            problems.push(format!("{folder}: `{name}` has several meanings: {}", files.join(", ")));
        }
    }
    let needless = |(folder, name)| format!("{folder}: `{name}` is unique now: remove it from AMBIGUOUS_TYPES");
    problems.extend(exceptions.into_iter().map(needless));
}

/// Within a crate, files that use each other can only be understood together.
fn modules_form_no_circles(sources: &[Source], problems: &mut Vec<String>) {
    let mut crates = BTreeMap::<&str, Vec<(&str, &str)>>::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        if let Some((folder, path)) = source.path.split_once("/src/") {
            crates.entry(folder).or_default().push((path, &source.text));
        }
    }
    for (folder, files) in crates {
        let circles = circles(files.into_iter());
        let described = |circle: Vec<String>| format!("{folder}: these files use each other: {}", circle.join(", "));
        problems.extend(circles.into_iter().map(described));
    }
}

/// The name of a type that is declared at the start of a line.
fn declared_type(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let rest = ["struct ", "enum ", "trait "].iter().find_map(|keyword| line.strip_prefix(keyword))?;
    rest.split(|c: char| !c.is_alphanumeric()).next().filter(|name| !name.is_empty())
}

/// Links between pages, whose targets may be any file of the repository.
fn links_have_targets(sources: &[Source], problems: &mut Vec<String>) {
    let pages = sources.iter().filter(|source| source.path.ends_with(".md"));
    let pages = pages.map(|source| (source.path.as_str(), source.text.as_str()));
    problems.extend(links::broken(pages, |path| root().join(path).exists()));
}

/// Each behaviour of the conformance suite must be in the list that engines run.
fn behaviours_are_run(sources: &[Source], problems: &mut Vec<String>) {
    const FOLDER: &str = "crates/testkit/src/conformance/";
    let list = sources.iter().find(|source| source.path == format!("{FOLDER}mod.rs")).map(|source| &source.text);
    let listed: BTreeSet<&str> = list.into_iter().flat_map(|text| text.split_whitespace()).collect();
    let is_of_behaviours = |source: &&Source| source.path.starts_with(FOLDER) && !source.path.ends_with("/mod.rs");
    for source in sources.iter().filter(is_of_behaviours) {
        let behaviours = source.text.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
        for name in behaviours.filter(|name| !listed.contains(name)) {
            problems.push(format!("{}: no list runs `{name}`", source.path));
        }
    }
}

/// A library with `test = false` saves the linking of a program without tests; tests in it would never run.
fn tests_are_built(sources: &[Source], problems: &mut Vec<String>) {
    let is_attribute = |line: &str| ["#[test]", "#[tokio::test", "#[cfg(test)]"].iter().any(|a| line.starts_with(a));
    for source in sources.iter().filter(|source| source.is_rust()) {
        let Some((folder, _)) = source.path.split_once("/src/") else { continue };
        let Some((number, _)) = source.lines().find(|(_, line)| is_attribute(line.trim_start())) else { continue };
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap_or_default();
        let library = manifest.split("\n[").find(|section| section.starts_with("lib]")).unwrap_or_default();
        if library.contains("test = false") {
            problems.push(format!("{}:{number}: a test of a library with `test = false` never runs", source.path));
        }
    }
}
