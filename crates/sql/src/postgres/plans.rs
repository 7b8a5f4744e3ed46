//! Tests of the plans of hot statements, as the engine's own sessions make them: generic plans, cached while the tables
//! were empty.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use sqlx::{AssertSqlSafe, Row};

use super::{core::Core, options::Options, statements as sql, store::PostgresStore};

/// A store, and a session of it in which statements are executed and explained.
struct Bench {
    core: Core,
    unit: super::session::Unit,
}

/// A store in a new schema of the test database, and the schema's name.
pub(super) async fn new_core() -> (Core, String) {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
    let mut options: Options = url.parse().unwrap();
    options.schema = format!("test_{:016x}", fastrand::u64(..));
    options.days_ahead = 3;
    let schema = options.schema.clone();
    (PostgresStore::open(options).await.unwrap().core, schema)
}

impl Bench {
    async fn new() -> Self {
        let (core, _) = new_core().await;
        let unit = core.sessions.single().await.unwrap();
        Self { core, unit }
    }

    async fn run(&mut self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *self.unit).await.unwrap();
    }

    /// Prepares a statement and makes the session cache its plan now.
    async fn prepare(&mut self, name: &str, text: &str, args: &str) {
        self.run(&format!("prepare {name} as {text}")).await;
        self.run(&format!("explain execute {name} ({args})")).await;
    }

    /// Executes a prepared statement; returns its plan with actual figures, one line per step.
    async fn explain(&mut self, name: &str, args: &str) -> Vec<String> {
        let explain = format!("explain (analyze, buffers, timing off, summary off) execute {name} ({args})");
        let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *self.unit).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Adds this number of queued jobs in two lanes, and as many scheduled jobs, each table in the order of its index,
    /// which is fastest.
    async fn fill(&mut self, jobs: usize) {
        self.run("insert into punctual_lanes (queue, name, priority) values ('default', 'x', 5), ('default', 'y', 5) on conflict do nothing").await;
        // In chunks that take far less time than the statement timeout.
        for first in (0..jobs).step_by(500_000) {
            let numbers = format!("generate_series({}, {}) n", first + 1, jobs.min(first + 500_000));
            self.run(&format!(
                "insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events)
                 select now() - ({jobs} - n) * interval '1 millisecond', gen_random_uuid(), now(), 1 + (2 * n > {jobs})::int4, 0, 0, 1
                 from {numbers}"
            ))
            .await;
            self.run(&format!(
                "insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
                 select now() + n * interval '1 minute', gen_random_uuid(), now(), now(), 1 + n % 2, 'scheduled' from {numbers}"
            ))
            .await;
        }
    }
}

/// The number of pages that the whole statement accessed.
fn pages(plan: &[String]) -> u64 {
    let line = plan.iter().find(|line| line.trim_start().starts_with("Buffers:")).unwrap();
    let numbers = line.split(['=', ' ']).filter_map(|word| word.parse::<u64>().ok());
    numbers.sum()
}

/// The highest number of rows that a step read from a table by an index.
fn most_rows(plan: &[String], table: &str) -> u64 {
    let of_table = plan.iter().filter(|line| line.contains("Index") && line.contains(&format!("on {table}")));
    let rows = |line: &String| line.split("actual rows=").nth(1)?.split([' ', '.']).next()?.parse::<u64>().ok();
    of_table.filter_map(rows).max().unwrap_or_default()
}

fn assert_no_whole_table(plan: &[String]) {
    // Queue settings and the dispatcher's state are a handful of rows.
    let few = ["punctual_queues", "punctual_dispatch"].map(|table| format!("Seq Scan on {table}"));
    let of_queues = |line: &String| few.iter().any(|scan| line.contains(scan));
    let whole = plan.iter().find(|line| line.contains("Seq Scan on punctual_") && !of_queues(line));
    assert!(whole.is_none(), "{}", plan.join("\n"));
}

const ONE_LANE: &str = "null, array[1], array['-infinity'::timestamptz], array[lpad('', 32, '0')::uuid], 100, gen_random_uuid(), 30000000, '-infinity'::timestamptz, 0";
const TWO_LANES: &str = "null, array[1, 2], array['-infinity'::timestamptz, '-infinity'], array_fill(lpad('', 32, '0')::uuid, array[2]), 100, gen_random_uuid(), 30000000, '-infinity'::timestamptz, 0, array[5, 5]::int4[]";
const AHEAD: &str = "null, array[1, 2], 120000000, 100, gen_random_uuid(), 30000000, 0";
const DUE: &str = "null, '-infinity', 100, '{}'";

#[tokio::test]
async fn claims_and_promotions_read_only_the_head_of_an_index() {
    let mut bench = Bench::new().await;
    let statements = [
        ("one", sql::CLAIM[0], ONE_LANE),
        ("two", sql::CLAIM[1], TWO_LANES),
        ("ahead", *sql::CLAIM_AHEAD, AHEAD),
        ("due", *sql::PROMOTE, DUE),
    ];
    for (name, text, args) in statements {
        bench.prepare(name, text, args).await;
    }
    let mut pages_before = Vec::new();
    for jobs in [10_000, 1_000_000] {
        bench.fill(jobs).await;
        let mut looked_at = Vec::new();
        for (name, _, args) in statements {
            let plan = bench.explain(name, args).await;
            assert_no_whole_table(&plan);
            assert!(most_rows(&plan, "punctual_ready") <= 101, "{name}: {}", plan.join("\n"));
            assert!(most_rows(&plan, "punctual_due") <= 101, "{name}: {}", plan.join("\n"));
            looked_at.push(pages(&plan));
        }
        if !pages_before.is_empty() {
            let more = looked_at.iter().zip(&pages_before).all(|(now, before)| *now <= 2 * before + 200);
            assert!(more, "with a hundred times the rows: {pages_before:?}, then {looked_at:?} pages");
        }
        pages_before = looked_at;
    }
}

#[tokio::test]
async fn a_report_of_one_day_reads_that_days_partitions() {
    let mut bench = Bench::new().await;
    let today = super::partitions::Day::of(bench.core.clock_now());
    let (from, to) = (today.plus(1).start(), today.plus(2).start());
    let args = format!("'{from}', '{to}'");
    bench.prepare("dead", *sql::DEAD_BY_NAME, &args).await;
    let plan = bench.explain("dead", &args).await;
    assert_no_whole_table(&plan);
    let events: Vec<&String> = plan.iter().filter(|line| line.contains("on punctual_events_")).collect();
    let suffix: String = from.to_string().chars().take(10).filter(|c| *c != '-').collect();
    assert!(events.iter().all(|line| line.contains(&suffix)), "{}", plan.join("\n"));
    assert_eq!(events.len(), 1, "{}", plan.join("\n"));
}

#[tokio::test]
async fn a_look_up_by_id_touches_one_partition() {
    let mut bench = Bench::new().await;
    let args = "gen_random_uuid(), now()";
    bench.prepare("get_one", &sql::of_table(*sql::JOB, "punctual_jobs").0, args).await;
    let plan = bench.explain("get_one", args).await;
    assert_no_whole_table(&plan);
    let partitions = plan.iter().filter(|line| line.contains("on punctual_jobs_")).count();
    assert_eq!(partitions, 1, "{}", plan.join("\n"));
}

/// Each execution is found by its key, even with a plan made when the table was known to be empty.
#[tokio::test]
async fn a_settle_reads_only_what_it_settles() {
    let mut bench = Bench::new().await;
    let running = "insert into punctual_running
        select lpad(to_hex(n), 32, '0')::uuid, lpad('1', 32, '0')::uuid, now(), now(), now(), now(), 1, 1, 1, 1 from generate_series(1, 1000) n";
    for statement in [running, "delete from punctual_running", "vacuum punctual_running"] {
        bench.run(statement).await;
    }
    let each = |value: &dyn Fn(u8) -> String| (1..=10).map(value).collect::<Vec<_>>().join(", ");
    let args = format!(
        "null, array[{}]::uuid[], array[{}], array[{}], null, '{:032x}', false, 'succeeded', 'succeeded', null, false, 'succeeded', null, null",
        each(&|n| format!("'{n:032x}'")),
        each(&|_| "now()".to_owned()),
        each(&|_| "1".to_owned()),
        1
    );
    bench.prepare("settle", &sql::of_table(sql::SETTLE.of(true, false), "punctual_jobs").0, &args).await;
    bench.run(running).await;
    let plan = bench.explain("settle", &args).await;
    assert!(most_rows(&plan, "punctual_running") <= 1, "{}", plan.join("\n"));
}

/// The same for executions that began before they were recorded: each job is found by the key of its row.
#[tokio::test]
async fn a_late_recording_reads_only_its_own_rows() {
    let mut bench = Bench::new().await;
    let ready = "insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events)
        select timestamptz 'epoch' + n * interval '1 ms', lpad(to_hex(n), 32, '0')::uuid, now(), 1, 0, 0, 1 from generate_series(1, 20000) n";
    bench.run("insert into punctual_lanes (queue, name, priority) values ('default', 'x', 5)").await;
    for statement in [ready, "delete from punctual_ready", "vacuum analyze punctual_ready"] {
        bench.run(statement).await;
    }
    let each = |value: &dyn Fn(u32) -> String| {
        let values: Vec<String> = (19_001..=19_010).map(value).collect();
        format!("array[{}]", values.join(", "))
    };
    let (ids, lanes) = (each(&|n| format!("'{n:032x}'::uuid")), each(&|_| "1".to_owned()));
    let times = each(&|n| format!("timestamptz 'epoch' + {n} * interval '1 ms'"));
    let (now, one) = (each(&|_| "now()".to_owned()), each(&|_| "'00000000000000000000000000000001'::uuid".to_owned()));
    let leases = each(&|_| "30000000::int8".to_owned());
    let begin = format!("null, {lanes}, {times}, {ids}, {now}, {one}, {leases}");
    let finish = format!(
        "null, {ids}, {now}, {lanes}, null, '{:032x}', false, 'succeeded', 'succeeded', null, false, 'succeeded', null, null, {lanes}, {times}, {now}",
        1
    );
    bench.prepare("begin_late", *sql::BEGIN, &begin).await;
    let text = sql::of_table(sql::FINISH.of(true, false), "punctual_jobs").0;
    // One of the parameters is used by other settles only, and its type cannot be inferred from this statement.
    let text = text.replacen("with ended as", "with unused as (select $7::bool), ended as", 1);
    bench.prepare("finish_late", &text, &finish).await;
    let marked = format!("{lanes}, {times}, {ids}");
    bench.prepare("mark_dispatched", *sql::MARK_DISPATCHED, &marked).await;
    bench.run(ready).await;
    bench.run("update punctual_ready set dispatched = false").await;
    for (name, args) in [("begin_late", &begin), ("finish_late", &finish), ("mark_dispatched", &marked)] {
        bench.run("begin").await;
        let plan = bench.explain(name, args).await;
        bench.run("rollback").await;
        assert!(pages(&plan) <= 500, "{name}: {}", plan.join("\n"));
    }
}

#[tokio::test]
async fn a_history_reads_only_its_own_events() {
    let mut bench = Bench::new().await;
    let args = "array[gen_random_uuid()], array[now()]";
    bench.prepare("history", &sql::EVENTS.replace("{events}", "punctual_events_rest"), args).await;
    bench
        .run(
            "insert into punctual_events_rest (job_id, n, at, final, status)
             select gen_random_uuid(), 1, timestamptz 'epoch' + n * interval '1 ms', n % 4, '' from generate_series(1, 10000) n",
        )
        .await;
    let plan = bench.explain("history", args).await;
    assert!(pages(&plan) <= 40, "{}", plan.join("\n"));
}

#[tokio::test]
async fn slots_that_are_occupied_are_found_by_an_index() {
    let mut bench = Bench::new().await;
    let of_key = "array['q7'], array['k7'], now()";
    let ended = "null, array[lpad('', 32, '0')::uuid], array[1], array[lpad('', 32, '0')::uuid]";
    let statements = [
        ("of_key", *sql::HELD_OF_KEYS, of_key),
        ("of_queue", *sql::HELD_OF_QUEUES, "array['q7'], now()"),
        ("occupied", *sql::SLOTS_OCCUPIED, "'q7', now()"),
        ("release", *sql::SLOTS_RELEASE, ended),
    ];
    for (name, text, args) in statements {
        bench.prepare(name, text, args).await;
    }
    bench
        .run(
            "insert into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until)
             select gen_random_uuid(), 1, gen_random_uuid(), 'q' || n, 'k' || n, now() + interval '1 hour' from generate_series(1, 10000) n",
        )
        .await;
    for (name, _, args) in statements {
        let plan = bench.explain(name, args).await;
        let whole = plan.iter().find(|line| line.contains("Seq Scan on punctual_occupied_slots"));
        assert!(whole.is_none(), "{}", plan.join("\n"));
        assert!(most_rows(&plan, "punctual_occupied_slots") <= 1, "{name}: {}", plan.join("\n"));
    }
}
