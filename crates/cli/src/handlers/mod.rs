//! The handlers that the program brings, and those that the configuration names.

mod builtin;
mod program;

pub(crate) use builtin::built_in;
pub(crate) use program::ProgramConfig;
