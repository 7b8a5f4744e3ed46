//! Checks the query plan of every statement: it must use an index, sort nothing, and scan no table.

use rusqlite::Connection;

use super::{schema::MIGRATIONS, statements};
use crate::ops::statements as sql;

/// Statements that scan a small table or sort few rows; their descriptions state it.
const EXEMPT: [&str; 24] = [
    "EXPIRED_LEASES",
    "LEASES_OF",
    "END_LEASES",
    "COUNTS",
    "LIST_RUNNING",
    "SLOTS_OF_WORKER",
    "OCCUPIED_SLOTS",
    "WORKERS",
    "LOCKS",
    "PRUNE_WORKERS",
    "ROLLUPS",
    "PENDING_BY_USER",
    "HEARTBEAT",
    "QUEUES",
    "LIMITED_QUEUES",
    "LAST_NOTIFICATION",
    "TOKENS",
    "PRUNE_TOKENS",
    "REMOVE_SESSIONS",
    "CLEAR_TOKENS",
    "CHECK_COUNTS",
    "CHECK_PENDING",
    "CHECK_INDEXES",
    "CHECK_HISTORIES",
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
            // Allowed: a scan in index order that ends early, which reads the head of a list, and a scan of a bounded
            // subquery.
            let bounded = line.contains("USING COVERING INDEX") && *name == "NEXT_DUE"
                || line.contains("SCAN (subquery")
                || line == "SCAN story"
                || line == "SCAN CONSTANT ROW"
                || *name == "EPHEMERAL"
                || name.starts_with("PRUNE_") && line.starts_with("SCAN punctual_");
            assert!(!line.starts_with("SCAN") || bounded, "{name}: {line}");
            assert!(!line.contains("TEMP B-TREE"), "{name}: {line}");
        }
    }
}

#[test]
fn the_hot_statements_use_the_indexes_that_they_name() {
    let connection = database();
    let expected = [
        (sql::LANE_HEAD, "SEARCH punctual_ready USING PRIMARY KEY (queue=? AND name=? AND priority>? AND priority<?)"),
        (sql::LANE_QUEUES, "SEARCH punctual_ready USING PRIMARY KEY (queue>?)"),
        (sql::DUE, "SEARCH punctual_due USING PRIMARY KEY (run_at<?)"),
        (sql::CLAIM_READ, "SEARCH punctual_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (sql::RUNNING, "SEARCH punctual_running USING PRIMARY KEY (job_id=?)"),
        (sql::SETTLE_JOB, "SEARCH punctual_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (sql::EXTEND_LEASE, "SEARCH punctual_running USING PRIMARY KEY (job_id=?)"),
        (
            sql::DELETE_READY,
            "SEARCH punctual_ready USING PRIMARY KEY (queue=? AND name=? AND priority=? AND run_at=? AND job=?)",
        ),
        (
            sql::DELETE_LANE_HEAD,
            "SEARCH punctual_ready USING PRIMARY KEY (queue=? AND name=? AND priority=? AND (run_at,job)<(?,?))",
        ),
        (
            sql::EXPIRABLE,
            "SEARCH punctual_jobs USING INDEX punctual_jobs_finished (status=? AND finished_at>? AND finished_at<?)",
        ),
        (sql::CLAIM_TAKE, "SEARCH punctual_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        // Few jobs are ephemeral; the plan must not start from all jobs.
        (sql::EPHEMERAL, "SCAN e"),
        (sql::PURGEABLE, "SEARCH punctual_deleted USING PRIMARY KEY (deleted_at<?)"),
    ];
    for (statement, line) in expected {
        assert_eq!(plan(&connection, statements::ALL[statement.0].1)[0], line);
    }
}
