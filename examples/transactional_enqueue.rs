//! A job that exists if and only if your own transaction commits, and a job whose effect and end commit together.
//!
//! `cargo run -p examples --example transactional_enqueue`

use std::{path::PathBuf, time::Duration};

use punctual::{
    Context, Failure, Job, Punctual, Settled, Status, Worker,
    sqlite::rusqlite::{Connection, TransactionBehavior},
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct ShipOrder {
    order: i64,
}

async fn ship_order(job: ShipOrder, ctx: Context, path: PathBuf) -> Result<(), Failure> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("update orders set shipped = shipped + 1 where id = ?1", [job.order])?;
    // The row above and the job's end commit together: shipped exactly once, even after a crash.
    if ctx.complete_in(&transaction, &())? == Settled::Stale {
        return Err(Failure::new("another worker has taken over"));
    }
    transaction.commit()?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (folder, url) = examples::temporary_store()?;
    let path = folder.path().join("punctual.db");
    let punctual = Punctual::connect(&url).await?;
    let mut connection = Connection::open(&path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute("create table orders (id integer primary key, shipped integer not null default 0)", [])?;

    // Rolled back: neither the order nor its job exists.
    let transaction = connection.transaction()?;
    transaction.execute("insert into orders (id) values (1)", [])?;
    let lost = punctual.enqueue_in(&transaction, ShipOrder { order: 1 })?;
    transaction.rollback()?;
    assert!(punctual.job(lost.id).await.is_err());

    // Committed: both exist.
    let transaction = connection.transaction()?;
    transaction.execute("insert into orders (id) values (2)", [])?;
    let kept = punctual.enqueue_in(&transaction, ShipOrder { order: 2 })?;
    transaction.commit()?;

    let worker = Worker::builder(punctual.clone()).state(path).register(ship_order).start().await?;
    let done = punctual.wait(kept.id, Duration::from_secs(30)).await?;
    assert_eq!(done.status, Status::Succeeded);
    let shipped: i64 = connection.query_row("select shipped from orders where id = 2", [], |row| row.get(0))?;
    println!("order 2 was shipped {shipped} time");
    assert_eq!(shipped, 1);

    worker.stop().await;
    Ok(())
}
