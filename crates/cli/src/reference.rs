//! docs/reference/cli.md, from the definition of the command line.

use std::{fmt::Write as _, path::Path};

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::args::Cli;

const HEAD: &str = "# The command line

The commands of the program `punctual`, and their options. `punctual COMMAND --help` prints the same; `punctual
completions SHELL` prints completions for a shell. `cargo xtask docs` writes this page from the definition of the
command line.

Flags override `PUNCTUAL_*` variables, which override [`punctual.toml`](../configuration.md). [Exit
codes](errors.md#exit-codes) are the same for all commands.

## Options of every command

";

#[test]
fn the_reference_in_docs_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let page = page();
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page, "docs/reference/cli.md is outdated; write it with `cargo xtask docs`");
}

fn page() -> String {
    let program = Cli::command();
    let mut page = HEAD.to_owned();
    table(&mut page, &program.get_arguments().collect::<Vec<_>>());
    // The hidden ones are for packages.
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        section(&mut page, (2, "punctual"), command);
    }
    page
}

/// A command and its subcommands; the level of its heading, and the command that it belongs to.
fn section(page: &mut String, (level, parent): (usize, &str), command: &Command) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n{} {name}\n\n{about}.\n", "#".repeat(level));
    let own: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_global_set()).collect();
    if !own.is_empty() {
        page.push('\n');
        table(page, &own);
    }
    if let Some(more) = command.get_after_help() {
        let _ = write!(page, "\n```text\n{}\n```\n", more.to_string().trim_end());
    }
    for command in command.get_subcommands() {
        section(page, (level + 1, name.as_str()), command);
    }
}

fn table(page: &mut String, args: &[&Arg]) {
    page.push_str("| option | meaning |\n|---|---|\n");
    for arg in args {
        let _ = writeln!(page, "| `{}` | {} |", spelled(arg), meaning(arg).replace('|', "\\|"));
    }
}

/// An argument as it is written: `NAME`, `[NAME]`, `-n, --count N`.
fn spelled(arg: &Arg) -> String {
    let values: Vec<String> = arg.get_value_names().into_iter().flatten().map(ToString::to_string).collect();
    let values = values.join(" ");
    if arg.is_positional() {
        let more = if matches!(arg.get_action(), ArgAction::Append) { "…" } else { "" };
        return if arg.is_required_set() { format!("{values}{more}") } else { format!("[{values}]{more}") };
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let names: Vec<String> = short.into_iter().chain(arg.get_long().map(|long| format!("--{long}"))).collect();
    let names = names.join(", ");
    if arg.get_action().takes_values() { format!("{names} {values}") } else { names }
}

/// The help of an argument, with its default, its possible values and its variable.
fn meaning(arg: &Arg) -> String {
    let mut meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let texts = |values: Vec<String>| (!values.is_empty()).then(|| values.join(", "));
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let is_shown = arg.get_action().takes_values();
    if let Some(default) = texts(defaults).filter(|_| is_shown) {
        let _ = write!(meaning, " [default: {default}]");
    }
    let possible = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if let Some(possible) = texts(possible).filter(|_| is_shown && !arg.is_hide_possible_values_set()) {
        let _ = write!(meaning, " [possible values: {possible}]");
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(meaning, " [env: {}]", variable.to_string_lossy());
    }
    meaning
}
