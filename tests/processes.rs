//! Worker processes under a supervisor: whichever process dies, and however it dies, no job is lost and no process is
//! left behind.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{future, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use punctual::{Draft, JobId, Punctual, RunningSupervisor, Status, Supervisor};
use punctual_tests::{
    Helper, Holder, Role, TestStore, helper, on_each_engine, processes_called, roles::supervised::daemon_seconds, until,
};
use tokio::process::Command;

on_each_engine! {
    a_killed_process_is_replaced_and_its_jobs_run_elsewhere
    a_job_that_kills_its_process_ends_dead_and_takes_no_other_job_with_it
    daemons_of_programs_of_a_killed_process_are_killed
    a_process_without_heartbeats_is_killed_and_replaced
    a_stop_lets_running_jobs_end
    a_stop_that_cannot_wait_gives_jobs_back_at_once
    nothing_is_left_of_a_supervisor_that_is_killed
    messages_of_worker_processes_reach_subscribers_of_the_supervisor
}

const HELPER: Helper = helper!();

/// A supervisor in this process, and its workers.
struct Fleet {
    test_store: TestStore,
    punctual: Punctual,
    supervisor: RunningSupervisor,
}

impl Fleet {
    async fn start(test_store: TestStore, workers: usize, silence: Duration) -> Self {
        let punctual = test_store.connect().await;
        let args = Role::SupervisedWorker.args(&test_store.url, &test_store.ledger());
        let command = move || {
            let mut command = Command::new(HELPER.program());
            command.args(&args).stdout(Stdio::null());
            command
        };
        let supervisor = Supervisor::new(punctual.clone(), workers, command).silence(silence).start().unwrap();
        until("all processes to work", async || supervisor.working() == workers).await;
        Self { test_store, punctual, supervisor }
    }

    /// The process ids of the registered workers.
    async fn pids(&self) -> Vec<Pid> {
        let workers = self.punctual.admin("test").workers().await.unwrap();
        workers.iter().map(|worker| Pid::from_raw(worker.heartbeat.pid as i32)).collect()
    }

    /// The process that runs a job.
    async fn pid_of(&self, job: JobId) -> Pid {
        let worker = self.punctual.job(job).await.unwrap().worker_id.unwrap();
        let workers = self.punctual.admin("test").workers().await.unwrap();
        Pid::from_raw(workers.iter().find(|one| one.heartbeat.id == worker).unwrap().heartbeat.pid as i32)
    }

    async fn enqueue(&self, name: &str) -> JobId {
        self.punctual.enqueue(Draft::new(name, &()).max_crashes(100)).await.unwrap().id
    }

    /// Waits until a run of a job has reported that it started.
    async fn until_runs(&self, job: JobId, run: u32) {
        let admin = self.punctual.admin("test");
        until("the job to run", async || admin.job(job).await.unwrap().logs.iter().any(|line| line.run == run)).await;
    }
}

/// Long enough that no process is killed on a slow machine.
const PATIENT: Duration = Duration::from_secs(60);

async fn a_killed_process_is_replaced_and_its_jobs_run_elsewhere(new_store: impl Fn() -> TestStore) {
    let fleet = Fleet::start(new_store(), 3, PATIENT).await;
    let endless = fleet.enqueue("endless").await;
    let program = fleet.enqueue("program").await;
    let short = fleet.punctual.enqueue_all((0..500).map(|_| Draft::new("short", &()).max_crashes(100))).await.unwrap();
    fleet.until_runs(endless, 1).await;
    fleet.until_runs(program, 1).await;
    let (first, programs) = (fleet.pid_of(endless).await, programs_of(fleet.pid_of(program).await));
    assert!(!programs.is_empty());
    kill(fleet.pid_of(program).await, Signal::SIGKILL).unwrap();
    // It may be the same process, and have ended by now.
    let _ = kill(first, Signal::SIGKILL);
    // No lease expires, so that only the supervisor can have released the jobs.
    fleet.until_runs(endless, 2).await;
    fleet.until_runs(program, 2).await;
    assert!(programs.iter().all(|pid| !is_running(*pid)), "the first execution is gone before the second begins");
    for job in short {
        let job = fleet.punctual.wait(job.id, Duration::from_secs(120)).await.unwrap();
        assert_eq!(job.status, Status::Succeeded);
    }
    until("the killed ones to be replaced", async || fleet.supervisor.working() == 3).await;
    assert_eq!(fleet.punctual.job(endless).await.unwrap().crash_count, 1);
    assert!(!fleet.pids().await.contains(&first), "a dead worker is not on the register");
    fleet.supervisor.stop(future::ready(())).await;
}

async fn a_job_that_kills_its_process_ends_dead_and_takes_no_other_job_with_it(new_store: impl Fn() -> TestStore) {
    let fleet = Fleet::start(new_store(), 2, PATIENT).await;
    let drafts = (0..400).map(|number| Draft::new(if number % 100 == 50 { "kills" } else { "short" }, &()));
    for job in fleet.punctual.enqueue_all(drafts).await.unwrap() {
        let job = fleet.punctual.wait(job.id, Duration::from_secs(300)).await.unwrap();
        if job.spec.name == "short" {
            assert!(job.status == Status::Succeeded && job.crash_count <= 1, "{}: {:?}", job.crash_count, job.error);
            continue;
        }
        let kills = fleet.test_store.ledger_lines().iter().filter(|line| line.starts_with(&job.id.to_string())).count();
        // Its first crash may have been caused by another job: while Redis loads jobs, it loads those of one name after
        // the other, and a process may claim several killers at once.
        assert!((job.status, job.crash_count) == (Status::Dead, 3) && (2..=3).contains(&kills), "{kills}: {job:?}");
        let evidence = job.error.unwrap().message;
        assert!(evidence.contains("signal: 9") && evidence.ends_with("quarantined"), "{evidence}");
    }
    fleet.supervisor.stop(future::ready(())).await;
}

async fn daemons_of_programs_of_a_killed_process_are_killed(new_store: impl Fn() -> TestStore) {
    let fleet = Fleet::start(new_store(), 1, PATIENT).await;
    let job = fleet.enqueue("daemon").await;
    fleet.until_runs(job, 1).await;
    let daemons = || processes_called(&daemon_seconds(&fleet.test_store.url));
    until("its daemon to be there", async || daemons().len() == 1).await;
    let first = daemons();
    kill(fleet.pid_of(job).await, Signal::SIGKILL).unwrap();
    fleet.until_runs(job, 2).await;
    assert!(!is_running(first[0]), "the first execution is gone before the second begins");
    fleet.punctual.admin("test").cancel(job, None).await.unwrap();
    until("the second to be gone", async || daemons().is_empty()).await;
    fleet.supervisor.stop(future::ready(())).await;
}

/// The child processes of a worker process, and theirs.
fn programs_of(worker: Pid) -> Vec<Pid> {
    let mut found = vec![worker];
    for at in 0.. {
        let Some(parent) = found.get(at) else { break };
        let children = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap().flatten();
        let children = children.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<Pid> = children
            .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>())
            .map(Pid::from_raw)
            .collect();
        found.extend(children);
    }
    found.split_off(1)
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn a_process_without_heartbeats_is_killed_and_replaced(new_store: impl Fn() -> TestStore) {
    let fleet = Fleet::start(new_store(), 2, Duration::from_secs(3)).await;
    let endless = fleet.enqueue("endless").await;
    fleet.until_runs(endless, 1).await;
    let frozen = fleet.pid_of(endless).await;
    // Not within a write, which would block all other writers of the file until the process continues.
    let between_writes = fleet.test_store.url.starts_with("sqlite:").then(|| Holder::start(&fleet.test_store));
    kill(frozen, Signal::SIGSTOP).unwrap();
    until("the process to be suspended", async || {
        let stat = std::fs::read_to_string(format!("/proc/{frozen}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    })
    .await;
    if let Some(holder) = between_writes {
        holder.release();
    }
    fleet.until_runs(endless, 2).await;
    assert!(!is_running(frozen));
    fleet.supervisor.stop(future::ready(())).await;
}

async fn a_stop_lets_running_jobs_end(new_store: impl Fn() -> TestStore) {
    let fleet = Fleet::start(new_store(), 2, PATIENT).await;
    let jobs = fleet.punctual.enqueue_all((0..200).map(|_| Draft::new("short", &()))).await.unwrap();
    until("some to have run", async || fleet.test_store.ledger_lines().len() > 20).await;
    let stats = fleet.supervisor.stop(future::pending()).await;
    let mut succeeded = 0;
    for job in &jobs {
        let job = fleet.punctual.job(job.id).await.unwrap();
        assert!([Status::Succeeded, Status::Queued].contains(&job.status), "{:?}", job.status);
        assert_eq!(job.crash_count, 0);
        succeeded += u64::from(job.status == Status::Succeeded);
    }
    assert_eq!((stats.succeeded, stats.running), (succeeded, 0));
    assert_eq!(fleet.test_store.ledger_lines().len() as u64, succeeded, "what had begun has ended");
    assert!(fleet.punctual.admin("test").workers().await.unwrap().is_empty());
}

async fn a_stop_that_cannot_wait_gives_jobs_back_at_once(new_store: impl Fn() -> TestStore) {
    let fleet = Fleet::start(new_store(), 2, PATIENT).await;
    let endless = fleet.enqueue("endless").await;
    fleet.until_runs(endless, 1).await;
    let pids = fleet.pids().await;
    fleet.supervisor.stop(future::ready(())).await;
    assert!(pids.into_iter().all(|pid| !is_running(pid)));
    let job = fleet.punctual.job(endless).await.unwrap();
    assert_eq!((job.status, job.crash_count), (Status::Queued, 1), "its end was not awaited");
}

async fn nothing_is_left_of_a_supervisor_that_is_killed(new_store: impl Fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let supervisor = HELPER.start(Role::Supervisor, &test_store);
    let draft = |name| Draft::new(name, &()).max_crashes(100);
    let jobs = punctual.enqueue_all([draft("endless"), draft("program")]).await.unwrap();
    let admin = punctual.admin("test");
    for job in &jobs {
        until("the job to run", async || !admin.job(job.id).await.unwrap().logs.is_empty()).await;
    }
    let all = async || {
        let workers = admin.workers().await.unwrap();
        let mut pids: Vec<Pid> = workers.iter().map(|worker| Pid::from_raw(worker.heartbeat.pid as i32)).collect();
        pids.extend(pids.clone().into_iter().flat_map(programs_of));
        pids
    };
    until("three workers, a program and what it started", async || all().await.len() >= 5).await;
    let pids = all().await;
    supervisor.kill();
    until("all of them to end", async || !pids.iter().any(|pid| is_running(*pid))).await;
    for job in jobs {
        let job = punctual.job(job.id).await.unwrap();
        assert_eq!((job.status, job.attempt), (Status::Queued, 0), "it was given back, which spends no attempt");
    }
}

async fn messages_of_worker_processes_reach_subscribers_of_the_supervisor(new_store: impl Fn() -> TestStore) {
    let fleet = Fleet::start(new_store(), 2, PATIENT).await;
    let (mut ada, mut bob) =
        (fleet.punctual.subscribe("ada", None).await.unwrap(), fleet.punctual.subscribe("bob", Some(0)).await.unwrap());
    fleet.enqueue("notifies").await;
    assert_eq!(ada.next().await.unwrap().message.as_str(), "\"hello\"");
    assert_eq!(ada.next().await.unwrap().message.as_str(), "\"all\"");
    assert_eq!(bob.next().await.unwrap().message.as_str(), "\"all\"");
    fleet.supervisor.stop(future::pending()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_cannot_start_is_given_up_with_its_last_output() {
    let punctual = TestStore::new().connect().await;
    let command = || {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no luck today >&2; exit 3"]);
        command
    };
    let mut supervisor = Supervisor::new(punctual.clone(), 2, command).start().unwrap();
    assert_eq!(supervisor.given_up().await, "it ended with exit status: 3: no luck today");
    let mut supervisor = Supervisor::new(punctual.clone(), 1, || Command::new("/no/such/program")).start().unwrap();
    assert!(supervisor.given_up().await.starts_with("it cannot be started: "));
    let refused = Supervisor::new(punctual, 0, || Command::new("true")).start().unwrap_err();
    assert_eq!(refused.to_string(), "workers: must be between 1 and 1000, not 0");
}
