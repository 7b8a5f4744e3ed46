//! PostgreSQL as teams set it up: with TLS, behind a pooler, with a role that may do little, with a limit on statements.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use punctual::{
    Context, Draft, Punctual, Status, Worker,
    admin::Retention,
    postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection},
};
use punctual_servers::{Care, PgBouncer, Postgres};

/// Some jobs of every kind go through, and the store is sound afterwards.
async fn works(url: &str) -> Punctual {
    let punctual = Punctual::connect(url).await.unwrap();
    let worker = Worker::builder(punctual.clone())
        .handler("noop", |_: Context| async { Ok(None) })
        .retention(Some(Retention::default()))
        .start()
        .await
        .unwrap();
    let drafts = (0..300).map(|number| {
        let draft = Draft::new("noop", &number).user("ada");
        if number % 3 == 0 { draft.delay(Duration::from_millis(number)) } else { draft }
    });
    let jobs = punctual.enqueue_all(drafts).await.unwrap();
    for job in &jobs {
        let ended = punctual.wait(job.id, Duration::from_secs(60)).await.unwrap();
        assert_eq!(ended.status, Status::Succeeded);
    }
    punctual.store().tend().await.unwrap();
    punctual.admin("test").cleanup(Retention::default(), |_| ()).await.unwrap();
    worker.stop().await;
    for finding in punctual.store().examine().await.unwrap() {
        assert!(finding.ok, "{}: {}", finding.check, finding.message);
    }
    punctual
}

async fn run(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_and_checked_as_the_address_says() {
    let server = Postgres::start_with_tls(Care::None).unwrap();
    let address = format!("postgres://punctual@localhost:{}/postgres", server.port());
    let authority = server.authority();
    let trusting = format!("{address}?sslmode=verify-full&sslrootcert={}", authority.display());
    works(&trusting).await;
    let mut connection = PgConnection::connect(&trusting).await.unwrap();
    let spoken =
        "select count(*) from pg_stat_ssl s join pg_stat_activity using (pid) where ssl and pid = pg_backend_pid()";
    assert_eq!(sqlx::query_scalar::<_, i64>(spoken).fetch_one(&mut connection).await.unwrap(), 1);
    // The system's own list does not name that authority.
    let refused = Punctual::connect(&format!("{address}?sslmode=verify-full")).await.unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    // The certificate is for another name.
    let elsewhere = trusting.replace("@localhost", "@127.0.0.1");
    let refused = Punctual::connect(&elsewhere).await.unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_behind_a_pooler_of_transactions() {
    let server = Postgres::start(Care::None).unwrap();
    // Fewer connections than are asked for, so that transactions take turns on them.
    let pooler = PgBouncer::start(&server, 3).unwrap();
    run(&server.url(), "create schema jobs").await;
    works(&format!("{}?schema=jobs&pooler=transaction", pooler.url())).await;
    assert_eq!(server.errors(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_owns_its_schema_needs_nothing_else() {
    let server = Postgres::start(Care::None).unwrap();
    let grants = "create role worker login; create schema jobs authorization worker; create role reader login;
        revoke create on schema public from public";
    run(&server.url(), grants).await;
    let as_role = |role: &str| format!("{}?schema=jobs", server.url().replace("punctual@", &format!("{role}@")));
    works(&as_role("worker")).await;
    // One that may only look is told so, by the doctor and in words.
    run(&server.url(), "grant usage on schema jobs to reader; grant select on all tables in schema jobs to reader")
        .await;
    let reader = Punctual::connect(&as_role("reader")).await.unwrap();
    let findings = reader.store().examine().await.unwrap();
    let rights = findings.iter().find(|finding| finding.check == "rights").unwrap();
    assert!(!rights.ok && rights.message.contains("punctual_jobs"), "{}", rights.message);
    let refused = reader.enqueue(Draft::new("noop", &1)).await.unwrap_err().to_string();
    assert!(refused.contains("docs/operations.md"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_ended_and_said_to_be() {
    let server = Postgres::start(Care::None).unwrap();
    let punctual = Punctual::connect(&format!("{}?statement_timeout=1", server.url())).await.unwrap();
    let job = punctual.enqueue(Draft::new("noop", &1)).await.unwrap();
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    sqlx::query("lock table punctual_jobs in access exclusive mode").execute(&mut *transaction).await.unwrap();
    let ended = punctual.job(job.id).await.unwrap_err().to_string();
    assert!(ended.contains("statement_timeout"), "{ended}");
    transaction.rollback().await.unwrap();
    assert_eq!(punctual.job(job.id).await.unwrap().status, Status::Queued);
}
