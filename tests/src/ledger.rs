//! What processes leave behind for the test that has started them.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::Mutex,
};

/// An external record of executions: one write per line, in append mode, so that lines of several processes never mix.
#[derive(Debug)]
pub struct Ledger(Mutex<File>);

impl Ledger {
    /// Opens the file, or creates it.
    pub fn open(path: &Path) -> Self {
        Self(Mutex::new(OpenOptions::new().create(true).append(true).open(path).unwrap()))
    }

    /// Appends a line, which contains its end.
    pub fn write(&self, line: &str) {
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }
}
