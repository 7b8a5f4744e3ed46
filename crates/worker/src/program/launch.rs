//! Starts processes that cannot outlive this process, each as the leader of a process group.

#![allow(unsafe_code)]

use std::{
    io,
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use nix::{
    sys::resource::{Resource, setrlimit},
    unistd::{Pid, getpid, getppid},
};
use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::oneshot,
};

use super::{ProgramLimits, mark::Mark};
use crate::isolation;

struct LaunchRequest {
    command: Command,
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// One thread starts all processes, since the kernel takes the end of that thread for the end of the parent.
static LAUNCHER: LazyLock<mpsc::Sender<LaunchRequest>> = LazyLock::new(|| {
    let (sender, requests) = mpsc::channel::<LaunchRequest>();
    let launch = move || {
        for LaunchRequest { mut command, runtime, answer } in requests {
            let _inside = runtime.enter();
            // If the caller has stopped waiting, the child is dropped and thereby killed.
            let _ = answer.send(command.spawn());
        }
    };
    if let Err(error) = thread::Builder::new().name("punctual-launcher".into()).spawn(launch) {
        tracing::error!(%error, "cannot start a thread; no program can be started");
    }
    sender
});

/// Starts a process with these limits and this mark.
pub(super) async fn launch(mut command: Command, limits: ProgramLimits, mark: Mark) -> io::Result<Child> {
    command.process_group(0).kill_on_drop(true);
    // The program is not a worker process of our supervisor, even if it runs a worker.
    command.env_remove(isolation::VARIABLE);
    let ours = getpid();
    // SAFETY: between fork and exec the closure only makes system calls; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(move || prepare(ours, limits, mark)) };
    let (answer, child) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts programs has ended");
    LAUNCHER.send(LaunchRequest { command, runtime: Handle::current(), answer }).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

/// Runs in the new process before it executes the program.
fn prepare(parent: Pid, limits: ProgramLimits, mark: Mark) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    if getppid() != parent {
        // The parent ended before its death signal was requested.
        return Err(io::Error::from(io::ErrorKind::BrokenPipe));
    }
    mark.set();
    if let Some(seconds) = limits.cpu_time.map(|time: Duration| time.as_secs()) {
        // If it ignores the signal at the soft limit, it is killed one second later.
        setrlimit(Resource::RLIMIT_CPU, seconds, seconds + 1)?;
    }
    if let Some(files) = limits.open_files {
        setrlimit(Resource::RLIMIT_NOFILE, files, files)?;
    }
    if let Some(processes) = limits.processes {
        setrlimit(Resource::RLIMIT_NPROC, processes.into(), processes.into())?;
    }
    Ok(())
}
