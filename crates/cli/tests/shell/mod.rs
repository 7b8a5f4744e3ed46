//! A shell to run the program in, as its users do.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A folder to run the program in.
pub struct Shell(pub TempDir);

impl Shell {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(args).current_dir(self.0.path()).env_remove("PUNCTUAL_STORE");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["--json"]].concat();
        serde_json::from_str(&self.ok(&args)).unwrap()
    }

    /// Runs what must fail; returns its exit code and what it says.
    pub fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} should fail");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        (output.status.code().unwrap(), said)
    }
}
