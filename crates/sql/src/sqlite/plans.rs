//! Reads the query plan of every statement: an index is used, nothing is sorted, nothing is read whole.

use rusqlite::Connection;

use super::{schema::MIGRATIONS, statements};
use crate::ops::statements as sql;

/// Statements that read a whole small table, or sort what little they read, and say so in their files.
const EXEMPT: [&str; 24] = [
    "expired",
    "leases_of",
    "end_leases",
    "counts",
    "list_running",
    "slots_of_worker",
    "occupied_slots",
    "workers",
    "locks",
    "trim_workers",
    "rollups",
    "pending_by_user",
    "beat",
    "queues",
    "limited_queues",
    "last_notification",
    "tokens",
    "trim_tokens",
    "remove_sessions",
    "clear_tokens",
    "examine_counts",
    "examine_pending",
    "examine_places",
    "examine_stories",
];

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
    let count = statement.parameter_count();
    let params = vec![rusqlite::types::Value::Null; count];
    let rows = statement.query_map(rusqlite::params_from_iter(params), |row| row.get(3)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    MIGRATIONS.iter().for_each(|migration| connection.execute_batch(migration.sql).unwrap());
    connection
}

#[test]
fn no_statement_scans_or_sorts_a_table() {
    let connection = database();
    for (name, sql) in statements::ALL.iter().filter(|(name, _)| !EXEMPT.contains(name)) {
        for line in plan(&connection, sql) {
            // A scan in an index's order that ends early is how the head of a list is read; a bounded subquery
            // likewise.
            let bounded = line.contains("USING COVERING INDEX") && *name == "next_due"
                || line.contains("SCAN (subquery")
                || line == "SCAN story"
                || line == "SCAN CONSTANT ROW"
                || *name == "ephemeral"
                || name.starts_with("trim_") && line.starts_with("SCAN punctual_");
            assert!(!line.starts_with("SCAN") || bounded, "{name}: {line}");
            assert!(!line.contains("TEMP B-TREE"), "{name}: {line}");
        }
    }
}

#[test]
fn the_hot_statements_use_the_indexes_that_their_files_name() {
    let connection = database();
    let expected = [
        (sql::LANE_HEAD, "SEARCH punctual_ready USING PRIMARY KEY (queue=? AND name=? AND priority>? AND priority<?)"),
        (sql::LANE_QUEUES, "SEARCH punctual_ready USING PRIMARY KEY (queue>?)"),
        (sql::DUE, "SEARCH punctual_due USING PRIMARY KEY (run_at<?)"),
        (sql::CLAIM_READ, "SEARCH punctual_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (sql::RUNNING, "SEARCH punctual_running USING PRIMARY KEY (job_id=?)"),
        (sql::SETTLE_JOB, "SEARCH punctual_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (sql::EXTEND, "SEARCH punctual_running USING PRIMARY KEY (job_id=?)"),
        (
            sql::DELETE_READY,
            "SEARCH punctual_ready USING PRIMARY KEY (queue=? AND name=? AND priority=? AND run_at=? AND job=?)",
        ),
        (
            sql::DELETE_LANE_HEAD,
            "SEARCH punctual_ready USING PRIMARY KEY (queue=? AND name=? AND priority=? AND (run_at,job)<(?,?))",
        ),
        (
            sql::RETIRABLE,
            "SEARCH punctual_jobs USING INDEX punctual_jobs_finished (status=? AND finished_at>? AND finished_at<?)",
        ),
        (sql::CLAIM_TAKE, "SEARCH punctual_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        // Few jobs are ephemeral; to begin with all jobs is what it must not do.
        (sql::EPHEMERAL, "SCAN e"),
        (sql::PURGEABLE, "SEARCH punctual_deleted USING PRIMARY KEY (deleted_at<?)"),
    ];
    for (statement, line) in expected {
        assert_eq!(plan(&connection, statements::ALL[statement.0].1)[0], line);
    }
}
