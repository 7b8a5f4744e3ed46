//! The first process of a container (PID 1): it runs the program as its child, passes signals on, and reaps orphans.
//!
//! The kernel makes it the parent of every process whose own parent has ended, such as the daemonised descendants of a
//! handler's program; without it they would stay in the table of processes. tokio waits for its own children only, and
//! a process that waits for all would take their exit statuses from it: hence a process of its own.

use std::{
    env, io,
    process::{self, Command, ExitCode},
};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getppid},
};

/// The signals that the program gets.
const FORWARDED: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// In the first process, runs the program to its end and returns its exit code; in any other, returns at once.
pub(crate) fn run_as_first_process() -> Option<ExitCode> {
    if process::id() == 1 {
        let failed = |error: io::Error| {
            eprintln!("error: the first process of the container cannot start the program: {error}");
            ExitCode::FAILURE
        };
        return Some(run_child().unwrap_or_else(failed));
    }
    if getppid() == Pid::from_raw(1) {
        // The first process has blocked them, and a child inherits that.
        let _ = signals().thread_unblock();
    }
    None
}

fn signals() -> SigSet {
    FORWARDED.into_iter().chain([Signal::SIGCHLD]).collect()
}

// The child is waited for, together with the orphans.
#[allow(clippy::zombie_processes)]
fn run_child() -> io::Result<ExitCode> {
    // Before the child starts, so that no signal is lost: the kernel drops those that a first process does not handle.
    signals().thread_block()?;
    let received = SignalFd::with_flags(&signals(), SfdFlags::SFD_CLOEXEC)?;
    let child = Command::new(env::current_exe()?).args(env::args_os().skip(1)).spawn()?;
    let child = Pid::from_raw(child.id() as i32);
    loop {
        let Some(info) = received.read_signal()? else { continue };
        let signal = Signal::try_from(info.ssi_signo as i32)?;
        // Signals of the terminal, which the kernel sends, reach the child without help.
        let is_from_process = info.ssi_code <= 0;
        if signal == Signal::SIGCHLD {
            if let Some(code) = reap(child) {
                return Ok(code);
            }
        } else if is_from_process {
            // It may have ended; then its exit code is read next.
            let _ = kill(child, signal);
        }
    }
}

/// Reaps all processes that have ended; returns the exit code of the child if it is one of them.
fn reap(child: Pid) -> Option<ExitCode> {
    let mut code = None;
    loop {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(process, status)) if process == child => code = Some(ExitCode::from(status as u8)),
            Ok(WaitStatus::Signaled(process, signal, _)) if process == child => {
                code = Some(ExitCode::from(128 + signal as u8));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return code,
            Ok(_) => {}
        }
    }
}
