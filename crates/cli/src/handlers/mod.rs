//! The built-in handlers, and those of the configuration.

mod builtin;
mod program;

pub(crate) use builtin::built_in;
pub(crate) use program::ProgramConfig;
