//! Common PostgreSQL setups: TLS, a connection pooler, a role with few privileges, a statement timeout. And servers
//! that answer but refuse writes.

use std::{sync::Arc, time::Duration};

use punctual::{
    Context, Draft, Error, Json, Punctual, Status, Worker,
    admin::Retention,
    core::StoreError,
    postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection},
};
use punctual_servers::{Care, DiskFault, FaultyDisk, PgBouncer, Postgres};
use punctual_testkit::conformance::audit_store;
use tokio::{sync::Semaphore, time};

const GENEROUS: Duration = Duration::from_secs(120);

/// Runs some jobs of every kind, and checks the store afterwards.
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
    punctual.store().maintain().await.unwrap();
    punctual.admin("test").cleanup(Retention::default(), |_| ()).await.unwrap();
    worker.stop().await;
    for diagnostic in punctual.store().check().await.unwrap() {
        assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
    }
    punctual
}

async fn run(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_used_and_checked_as_the_address_requires() {
    let server = Postgres::start_with_tls(Care::None).unwrap();
    let address = format!("postgres://punctual@localhost:{}/postgres", server.port());
    let authority = server.authority();
    let trusting = format!("{address}?sslmode=verify-full&sslrootcert={}", authority.display());
    works(&trusting).await;
    let mut connection = PgConnection::connect(&trusting).await.unwrap();
    let spoken =
        "select count(*) from pg_stat_ssl s join pg_stat_activity using (pid) where ssl and pid = pg_backend_pid()";
    assert_eq!(sqlx::query_scalar::<_, i64>(spoken).fetch_one(&mut connection).await.unwrap(), 1);
    // The system's certificates do not include this authority.
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
    // Fewer connections than are requested, so that transactions share them.
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
    // A read-only role gets an understandable error, also from the doctor.
    run(&server.url(), "grant usage on schema jobs to reader; grant select on all tables in schema jobs to reader")
        .await;
    let reader = Punctual::connect(&as_role("reader")).await.unwrap();
    let diagnostics = reader.store().check().await.unwrap();
    let privileges = diagnostics.iter().find(|diagnostic| diagnostic.check == "privileges").unwrap();
    assert!(!privileges.ok && privileges.message.contains("punctual_jobs"), "{}", privileges.message);
    let refused = reader.enqueue(Draft::new("noop", &1)).await.unwrap_err().to_string();
    assert!(refused.contains("docs/postgresql.md"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_cancelled_and_reported() {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_for_a_server_that_is_read_only() {
    let server = Postgres::start(Care::None).unwrap();
    run(&server.url(), "create role operator superuser login").await;
    let operator = server.url().replace("punctual@", "operator@");
    Punctual::connect(&server.url()).await.unwrap();
    run(&operator, "alter role punctual set default_transaction_read_only = on").await;
    let punctual = Punctual::connect(&server.url()).await.unwrap();
    let refused = punctual.enqueue(Draft::new("noop", &1)).await.unwrap_err();
    assert!(matches!(&refused, Error::Store(error @ StoreError::ReadOnlyServer { .. }) if error.is_transient()));
    let error = refused.to_string();
    assert!(error.contains("is read-only (standby?)") && !error.contains("permission"), "{error}");
    let worker = Worker::builder(punctual.clone()).handler("noop", |_: Context| async { Ok(None) });
    let mut started = tokio::spawn(worker.start());
    assert!(time::timeout(Duration::from_secs(2), &mut started).await.is_err(), "it waits");
    // The existing connections to a standby can write after its promotion; here, new ones are needed.
    let promote = "alter role punctual reset default_transaction_read_only;
        select pg_terminate_backend(pid) from pg_stat_activity where usename = 'punctual'";
    run(&operator, promote).await;
    let worker = time::timeout(Duration::from_secs(60), started).await.unwrap().unwrap().unwrap();
    let enqueued = time::timeout(GENEROUS, async {
        loop {
            match punctual.enqueue(Draft::new("noop", &1)).await {
                Ok(job) => break job,
                Err(error) => assert!(matches!(error, Error::Store(error) if error.is_transient())),
            }
        }
    });
    let job = enqueued.await.expect("enqueues still fail after the promotion");
    assert_eq!(punctual.wait(job.id, Duration::from_secs(60)).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
}

/// A time during which the server refuses writes.
struct Outage<'a, Begin, End> {
    /// Part of the errors during the outage.
    error: &'a str,
    begin: Begin,
    end: End,
}

/// Runs a worker during an outage: errors contain the reason, outcomes are stored afterwards, and acknowledged jobs
/// run.
async fn outlasts<Begin, End>(punctual: Punctual, payload: &str, outage: Outage<'_, Begin, End>)
where
    Begin: AsyncFnOnce(),
    End: AsyncFnOnce(),
{
    let Outage { error: reason, begin: begin_outage, end: end_outage } = outage;
    let (begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (begins, ends) = (begun.clone(), may_end.clone());
    let handler = move |ctx: Context| {
        let (begun, may_end) = (begins.clone(), ends.clone());
        async move {
            begun.add_permits(1);
            let _may_end = may_end.acquire().await.unwrap();
            Ok(Some(ctx.claim().job.spec.payload.clone()))
        }
    };
    let worker = Worker::builder(punctual.clone()).handler("x", handler).lease(GENEROUS).start().await.unwrap();
    let draft = || Draft::new("x", &payload);
    let mut acknowledged = vec![punctual.enqueue(draft()).await.unwrap().id];
    let _begun = begun.acquire().await.unwrap();
    begin_outage().await;
    may_end.add_permits(1);
    let refused = time::timeout(GENEROUS, async {
        loop {
            match punctual.enqueue(draft()).await {
                Ok(job) => acknowledged.push(job.id),
                Err(Error::Store(error)) => {
                    assert!(error.is_transient(), "{error}");
                    if error.to_string().contains(reason) {
                        break;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    refused.await.unwrap_or_else(|_| panic!("no error contains `{reason}`"));
    end_outage().await;
    let enqueued = time::timeout(GENEROUS, async {
        loop {
            match punctual.enqueue(draft()).await {
                Ok(job) => break job.id,
                Err(error) => assert!(matches!(&error, Error::Store(error) if error.is_transient()), "{error}"),
            }
        }
    });
    acknowledged.push(enqueued.await.expect("enqueues still fail after the outage"));
    for id in acknowledged {
        let ended = punctual.wait(id, GENEROUS).await.unwrap();
        assert_eq!(ended.status, Status::Succeeded);
        assert_eq!(ended.run, 1);
        assert_eq!(ended.result, Some(Json::of(&payload).unwrap()));
    }
    worker.stop().await;
    audit_store(&**punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_continue_after_a_server_was_read_only_or_out_of_connections() {
    let server = Postgres::start(Care::None).unwrap();
    let url = &server.url();
    let by_role = |role: &'static str, refuse: &'static str, accept: &'static str, error: &'static str| async move {
        run(url, &format!("create role {role} login; create schema {role} authorization {role}")).await;
        let address = format!("{}?schema={role}", url.replace("punctual@", &format!("{role}@")));
        let ends = format!("select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'");
        let change = async |change: &str| run(url, &format!("alter role {role} {change}; {ends}")).await;
        let punctual = Punctual::connect(&address).await.unwrap();
        let (begin, end) = (async || change(refuse).await, async || change(accept).await);
        outlasts(punctual, "small", Outage { error, begin, end }).await;
    };
    let (on, off) = ("set default_transaction_read_only = on", "reset default_transaction_read_only");
    tokio::join!(
        by_role("reads", on, off, "is read-only (standby?)"),
        by_role("connects", "connection limit 0", "connection limit -1", "too many connections"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_continue_after_the_disk_of_a_server_was_full() {
    let disk = FaultyDisk::new().unwrap();
    let server = Postgres::start_on(&disk, Care::None).unwrap();
    run(&server.url(), "create database jobs tablespace faulty").await;
    let punctual = Punctual::connect(&server.url().replace("/postgres", "/jobs")).await.unwrap();
    // It exceeds the space left for the tables.
    let large: String = std::iter::repeat_with(fastrand::alphanumeric).take(200_000).collect();
    let fill = async || disk.fail(DiskFault::Full).unwrap();
    let free = async || disk.mend(DiskFault::Full).unwrap();
    outlasts(punctual, &large, Outage { error: "No space left on device", begin: fill, end: free }).await;
}
