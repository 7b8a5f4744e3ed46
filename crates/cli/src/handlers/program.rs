//! `[handlers.NAME]` of the configuration: programs as handlers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use punctual::{
    Program, ProgramHandler, ProgramLimits, ResultFrom,
    core::{Invalid, LogLevel},
};
use serde::Deserialize;

use crate::{
    exit::Usage,
    format::{Bytes, Span},
};

/// The settings of a program, described in docs/programs.md.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProgramConfig {
    command: Vec<String>,
    shell: Option<String>,
    directory: Option<PathBuf>,
    env: BTreeMap<String, String>,
    inherit: Vec<String>,
    pool: Option<usize>,
    jobs_per_process: Option<u64>,
    result: ResultConfig,
    parent_results: bool,
    snooze: Option<Span>,
    fail_codes: Option<Vec<i32>>,
    snooze_codes: Option<Vec<i32>>,
    stop_grace: Option<Span>,
    memory: Option<Bytes>,
    processes: Option<u32>,
    cpu_time: Option<Span>,
    open_files: Option<u64>,
    user: Option<String>,
    log_level: Option<LogLevel>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResultConfig {
    #[default]
    Line,
    File,
    None,
}

impl ProgramConfig {
    /// The handler with this name; `folder` is that of the configuration file.
    pub(crate) fn handler(&self, name: &str, folder: &Path) -> Result<ProgramHandler, Usage> {
        let named = |invalid: Invalid| Usage(format!("handlers.{name}.{invalid}"));
        self.program(folder).and_then(Program::handler).map_err(named)
    }

    fn program(&self, folder: &Path) -> Result<Program, Invalid> {
        let own = self.clone();
        let mut program = match (own.shell, own.command) {
            (Some(line), command) if command.is_empty() => Program::shell(line),
            (Some(_), _) => return Err(Invalid::new("shell", "not allowed with command; expected one of them")),
            (None, command) => Program::new(command),
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        program.directory = Some(own.directory.map_or_else(|| folder.to_owned(), |directory| folder.join(directory)));
        program.env = own.env;
        program.inherit = own.inherit;
        program.pool = own.pool;
        program.jobs_per_process = own.jobs_per_process;
        program.result = match own.result {
            ResultConfig::Line => ResultFrom::Line,
            ResultConfig::File => ResultFrom::File,
            ResultConfig::None => ResultFrom::Nowhere,
        };
        program.parent_results = own.parent_results;
        program.limits = ProgramLimits {
            memory_bytes: own.memory.map(|bytes| bytes.0),
            processes: own.processes,
            cpu_time: own.cpu_time.map(|span| span.0),
            open_files: own.open_files,
        };
        program.user = own.user;
        program.snooze = own.snooze.map_or(program.snooze, |span| span.0);
        program.stop_grace = own.stop_grace.map_or(program.stop_grace, |span| span.0);
        program.fail_codes = own.fail_codes.unwrap_or(program.fail_codes);
        program.snooze_codes = own.snooze_codes.unwrap_or(program.snooze_codes);
        program.log_level = own.log_level.unwrap_or(program.log_level);
        Ok(program)
    }
}
