//! The variables of flags, and whether their values are valid.

use std::collections::BTreeSet;

use clap::{
    Command, CommandFactory, Parser,
    error::{ContextKind, ContextValue},
};

use crate::args::Cli;

/// The variables of the flags of all commands.
pub(crate) fn variables() -> BTreeSet<String> {
    fn collect(command: &Command, names: &mut BTreeSet<String>) {
        let variables = command.get_arguments().filter_map(clap::Arg::get_env);
        names.extend(variables.map(|name| name.to_string_lossy().into_owned()));
        command.get_subcommands().for_each(|command| collect(command, names));
    }
    let mut names = BTreeSet::new();
    collect(&Cli::command(), &mut names);
    names
}

/// Problems of the variables that `serve`, `up` and `work` read as flags, without their values.
pub(crate) fn problems() -> BTreeSet<String> {
    let parsed = ["serve", "up", "work"].map(|command| Cli::try_parse_from(["punctual", command]));
    parsed.into_iter().filter_map(Result::err).map(|error| explained(&error)).collect()
}

fn explained(error: &clap::Error) -> String {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.clone(),
        Some(ContextValue::Strings(flags)) => flags.join(", "),
        _ => "a flag".to_owned(),
    };
    let variable = variable_of(&flag).map(|name| format!("{name}: ")).unwrap_or_default();
    format!("{variable}invalid or incomplete value of {flag}; see `punctual serve --help`")
}

/// The variable of a flag, given as `--flag <VALUE>`.
fn variable_of(flag: &str) -> Option<String> {
    let name = flag.split_whitespace().next()?.strip_prefix("--")?;
    let command = Cli::command();
    let mut all = command.get_subcommands().flat_map(Command::get_arguments);
    let found = all.find(|argument| argument.get_long() == Some(name) && argument.get_env().is_some());
    Some(found?.get_env()?.to_string_lossy().into_owned())
}
