//! Real processes: the program `punctual-test-process`, in one of its [roles](Role).

use std::process::{Child, Command, ExitStatus, Stdio};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::{
    roles::Role,
    test_store::{Holder, TestStore},
};

/// The program of the processes. Cargo names its path only to the tests themselves, hence a macro.
#[macro_export]
macro_rules! helper {
    () => {
        $crate::Helper::at(env!("CARGO_BIN_EXE_punctual-test-process"))
    };
}

/// The program that runs the processes of tests; `helper!()` finds it.
#[derive(Debug, Clone, Copy)]
pub struct Helper {
    program: &'static str,
}

impl Helper {
    /// The program at this path.
    pub const fn at(program: &'static str) -> Self {
        Self { program }
    }

    /// Its path.
    pub const fn program(self) -> &'static str {
        self.program
    }

    /// The command that starts a process on a store.
    pub fn command(self, role: Role, test_store: &TestStore) -> Command {
        let mut command = Command::new(self.program);
        command.args(role.args(&test_store.url, &test_store.ledger())).stdout(Stdio::null());
        command
    }

    /// Starts a process on a store.
    pub fn start(self, role: Role, test_store: &TestStore) -> Process {
        Process::start(&mut self.command(role, test_store))
    }

    /// Starts a worker whose lease has this duration in milliseconds.
    pub fn start_worker(self, test_store: &TestStore, lease_ms: u64) -> Process {
        self.start(Role::Worker { lease_ms }, test_store)
    }
}

/// A child process, killed on drop.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Suspends it, but never within a write to a file of SQLite, which would block all other writers of the file until
    /// the process continues.
    pub fn freeze(&self, test_store: &TestStore) {
        let between_writes = test_store.url.starts_with("sqlite:").then(|| Holder::start(test_store));
        self.signal(Signal::SIGSTOP);
        let stopped = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(self.pid(), Signal::SIGSTOP));
        if let Some(holder) = between_writes {
            holder.release();
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    /// Whether it has exited.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits until it exits.
    pub fn wait(mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }

    /// Kills it, and returns when it is gone.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
