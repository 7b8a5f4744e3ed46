//! A supervisor, and its worker processes.

use std::{env, future, path::Path, process::Stdio, sync::Arc, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use punctual::{Context, Program, Punctual, Supervised, Supervisor, Worker};
use tokio::process::Command;

use crate::ledger::Ledger;

/// The name of the role of the worker processes.
pub(super) const WORKER: &str = "supervised-worker";
/// Too long to expire during a test.
const LEASE: Duration = Duration::from_secs(3_600);

/// Runs jobs until the supervisor stops the process.
pub(super) async fn work(url: &str, ledger: &Path) {
    let link = Supervised::link().unwrap();
    let punctual = Punctual::connect(url).await.unwrap();
    let ledger = Arc::new(Ledger::open(ledger));
    let of_killers = Arc::clone(&ledger);
    let program = Program::shell("echo here >&2; sleep 600 & wait").handler().unwrap();
    let worker = Worker::builder(punctual.clone())
        .handler("short", move |ctx: Context| {
            ledger.write(&format!("{} {}\n", ctx.id(), ctx.claim().job.run));
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(None)
            }
        })
        .handler("endless", |ctx: Context| async move {
            ctx.info("here");
            future::pending::<()>().await;
            Ok(None)
        })
        .handler("kills", move |ctx: Context| {
            of_killers.write(&format!("{} {}\n", ctx.id(), ctx.claim().job.run));
            kill(Pid::this(), Signal::SIGKILL).unwrap();
            future::pending()
        })
        .handler("notifies", |ctx: Context| async move {
            ctx.notify("ada", &"hello").await?;
            ctx.broadcast(&"all").await?;
            Ok(None)
        })
        .handler("program", program)
        .handler("daemon", Program::shell(daemon(url)).handler().unwrap())
        .concurrency(20)
        .lease(LEASE)
        .start()
        .await
        .unwrap();
    link.work(&punctual, worker, future::pending()).await.unwrap();
}

/// The duration that the daemon of a test's programs sleeps, which identifies it: no other test uses the same.
pub fn daemon_seconds(url: &str) -> String {
    let digits = url.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("600.{digits}")
}

/// A command that starts a process detached from its parent, group, session and environment.
fn daemon(url: &str) -> String {
    let seconds = daemon_seconds(url);
    format!("(setsid env -i sleep {seconds} < /dev/null > /dev/null 2>&1 &); echo here >&2; sleep 600")
}

/// Supervises two worker processes until the process is killed.
pub(super) async fn supervise(url: &str, ledger: &Path) {
    let punctual = Punctual::connect(url).await.unwrap();
    let (program, url, ledger) = (env::current_exe().unwrap(), url.to_owned(), ledger.to_owned());
    let command = move || {
        let mut command = Command::new(&program);
        command.arg(WORKER).arg(&url).arg(&ledger).stdout(Stdio::null());
        command
    };
    let _supervisor = Supervisor::new(punctual, 2, command).start().unwrap();
    future::pending::<()>().await;
}
