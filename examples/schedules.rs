//! A schedule: one report per second, with the time that it is for.
//!
//! `cargo run -p examples --example schedules`

use std::time::Duration;

use punctual::{Context, Draft, Overlap, Punctual, Recurring, Worker};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?;
    let every_second =
        Recurring::new("every-second", "* * * * * *", Draft::new("report", &"all")).overlap(Overlap::Skip);
    let worker = Worker::builder(punctual.clone())
        .handler("report", |ctx: Context| async move {
            let occurrence = ctx.occurrence().map(|occurrence| occurrence.at.to_string());
            println!("the report of {}", occurrence.unwrap_or_default());
            Ok(None)
        })
        .schedules("example", [every_second])
        .start()
        .await?;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let ran = worker.stop().await.succeeded;
    println!("{ran} reports");
    Ok(())
}
