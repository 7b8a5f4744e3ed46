//! Compares every statement, as it is sent, with a golden file. The file shows how a change of a template affects each
//! statement.

use std::{fmt::Write as _, fs};

use super::{
    shared_statements,
    statements::{self as sql, Forms},
};
use crate::sections::assert_all_listed;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/postgres.sql");

const HEAD: &str = "-- Every statement that is sent to PostgreSQL, made from crates/sql/src/postgres/sql by a test; not edited by hand.
-- {jobs} is a partition of punctual_jobs, {ids} and {times} are parameters of the jobs in it.
";

/// Parts of other statements, which are not sent by themselves.
const PARTS: [&str; 16] = [
    "ENQUEUE_TEXT",
    "ENQUEUE_OPTIONS",
    "ENQUEUE_ROWS",
    "ENQUEUE_ROWS_ALIKE",
    "ENQUEUE_WAITING_TEXT",
    "CLAIM_TEXT",
    "CLAIM_PLACES_ONE",
    "CLAIM_PLACES_MANY",
    "CLAIM_PLACES_CHOSEN",
    "SETTLE_TEXT",
    "SETTLE_HELD",
    "SETTLE_QUEUED",
    "SETTLE_LATENESS",
    "SETTLE_ACTIVE",
    "SETTLE_ROWS",
    "SETTLE_ROWS_ALIKE",
];

#[test]
fn every_statement_is_sent_as_the_file_shows_it() {
    let mut made = HEAD.to_owned();
    for (name, text) in statements() {
        let _ = write!(made, "\n-- name: {name}\n{};\n", text.trim_end());
    }
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        fs::write(FILE, &made).expect("the file is writable");
    }
    let shown = fs::read_to_string(FILE).expect("the file is there");
    let different = shown.lines().zip(made.lines()).find(|(shown, made)| shown != made);
    assert!(shown == made, "{FILE} is old; PUNCTUAL_BLESS=1 writes it anew. First difference: {different:?}");
}

#[test]
fn every_section_is_a_statement() {
    sql::FILES.iter().chain(shared_statements::FILES).for_each(|(file, names)| assert_all_listed(file, names));
}

fn statements() -> Vec<(String, &'static str)> {
    let mut all: Vec<(String, &str)> = sql::all()
        .into_iter()
        .chain(shared_statements::ALL.iter().copied())
        .filter(|(name, _)| !PARTS.contains(name))
        .map(|(name, text)| (name.to_lowercase(), text))
        .collect();
    for (name, enqueue) in [("enqueue", &*sql::ENQUEUE), ("enqueue_unknown", &*sql::ENQUEUE_UNKNOWN)] {
        let [enqueuer, loader] = enqueue;
        all.extend(forms(name, enqueuer));
        all.extend(forms(&format!("{name} undispatched"), loader));
    }
    all.push(("enqueue_waiting".into(), *sql::ENQUEUE_WAITING));
    let [one, many] = *sql::CLAIM;
    all.extend([("claim one lane".into(), one), ("claim many lanes".into(), many)]);
    all.push(("claim chosen".into(), *sql::CLAIM_CHOSEN));
    all.extend(forms("settle", &sql::SETTLE));
    all.extend(forms("settle_flow", &sql::SETTLE_FLOW));
    all.extend(forms("finish", &sql::FINISH).into_iter().filter(|(name, _)| name == "finish alike"));
    all.sort();
    all
}

fn forms(name: &str, forms: &Forms) -> [(String, &'static str); 4] {
    [(false, false), (false, true), (true, false), (true, true)].map(|(alike, with_part)| {
        let [alike_word, part_word] = [if alike { " alike" } else { "" }, if with_part { " with part" } else { "" }];
        (format!("{name}{alike_word}{part_word}"), forms.of(alike, with_part))
    })
}
