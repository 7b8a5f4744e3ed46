//! `punctual context`: servers and tokens under names.

use std::path::{Path, absolute};

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::{
    args::{Cli, ContextCommand},
    contexts::{Contexts, SavedContext},
    exit::Usage,
    format::DIM,
    output::print_json,
    table::{Cell, Table},
    target,
};

pub(crate) fn run(cli: &Cli, args: &ContextCommand) -> Result<()> {
    let mut contexts = Contexts::read()?;
    let (name, done) = match args {
        ContextCommand::List => return list(cli, &contexts),
        ContextCommand::Add { name } => (name, add(cli, &mut contexts, name)?),
        ContextCommand::Use { name } => {
            contexts.find(name)?;
            contexts.current = Some(name.clone());
            (name, "current")
        }
        ContextCommand::Remove { name } => {
            contexts.find(name)?;
            contexts.by_name.remove(name);
            contexts.current = contexts.current.filter(|current| current != name);
            (name, "removed")
        }
    };
    contexts.write()?;
    if cli.json {
        return print_json(&json!({ "context": name, "done": done }));
    }
    println!("{name} {}", if done == "current" { "is the current context" } else { done });
    Ok(())
}

/// Saves the server of the command line; returns whether the context is new.
fn add(cli: &Cli, contexts: &mut Contexts, name: &str) -> Result<&'static str> {
    if name.trim() != name || name.is_empty() || name.contains(char::is_control) {
        return Err(Usage(format!("invalid name `{name}` of a context: expected a word such as prod")).into());
    }
    let args = &cli.server;
    let server = args.server.clone().filter(|url| !url.is_empty());
    let server = server.ok_or_else(|| Usage("--server: the URL of the server is missing".into()))?;
    let full = |file: &Path| absolute(file).with_context(|| format!("--ca-file {}", file.display()));
    let ca_file = args.ca_file.as_deref().map(full).transpose()?;
    let context = SavedContext { server, token: target::token(args)?, ca_file };
    target::check(&context)?;
    let known = contexts.by_name.insert(name.to_owned(), context);
    if contexts.by_name.len() == 1 {
        contexts.current = Some(name.to_owned());
    }
    Ok(if known.is_some() { "changed" } else { "added" })
}

fn list(cli: &Cli, contexts: &Contexts) -> Result<()> {
    let is_current = |name: &String| contexts.current.as_ref() == Some(name);
    if cli.json {
        let shown = contexts.by_name.iter().map(|(name, context)| {
            let (server, has_token) = (&context.server, context.token.is_some());
            json!({ "name": name, "server": server, "has_token": has_token, "current": is_current(name) })
        });
        return print_json(&json!({ "contexts": shown.collect::<Vec<_>>() }));
    }
    if contexts.by_name.is_empty() {
        anstream::println!("{DIM}no contexts; add one with: punctual context add NAME --server URL{DIM:#}");
        return Ok(());
    }
    let mut table = Table::new(["NAME", "SERVER", "TOKEN", "CURRENT"]);
    for (name, context) in &contexts.by_name {
        table.row([
            Cell::new(name.clone()),
            Cell::new(context.server.clone()),
            Cell::new(if context.token.is_some() { "yes" } else { "no" }),
            Cell::new(if is_current(name) { "yes" } else { "" }),
        ]);
    }
    table.print();
    Ok(())
}
