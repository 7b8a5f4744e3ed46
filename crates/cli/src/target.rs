//! What a command administers: a store, or a server over HTTP.

use std::{env, path::PathBuf, time::Duration};

use anyhow::Result;

use crate::{
    administer::Administer,
    args::{CA_FILE, CONTEXT, Cli, SERVER, ServerArgs, TOKEN},
    config::{Config, actor, environment::Environment},
    contexts::{Contexts, SavedContext},
    exit::Usage,
    local::Local,
    remote::{Remote, ServerSettings},
    secret::Secret,
    traces,
};

const STORE: &str = "PUNCTUAL_STORE";
const STORE_FILE: &str = "PUNCTUAL_STORE_FILE";
const DISPATCH: &str = "PUNCTUAL_DISPATCH";
/// Default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where a setting comes from; later ones override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Absent,
    Variable,
    Flag,
}

impl Origin {
    /// The origin of an option with a variable.
    fn of(value: Option<&str>, variable: &str) -> Self {
        match value.filter(|value| !value.is_empty()) {
            None => Self::Absent,
            Some(value) if env::var(variable).is_ok_and(|set| set == value) => Self::Variable,
            Some(_) => Self::Flag,
        }
    }

    /// The setting, as users write it.
    const fn name(self, flag: &'static str, variable: &'static str) -> &'static str {
        if matches!(self, Self::Variable) { variable } else { flag }
    }
}

/// The origins of the settings that name a store or a server.
struct Origins {
    store: Origin,
    /// The variable that names the store, or a file with its URL.
    store_variable: &'static str,
    dispatch: Origin,
    server: Origin,
    context: Origin,
}

impl Origins {
    fn of(cli: &Cli) -> Self {
        let ServerArgs { server, context, .. } = &cli.server;
        let is_in_file = env::var_os(STORE_FILE).is_some_and(|path| !path.is_empty());
        let (by_file, store_variable) =
            if is_in_file { (Origin::Variable, STORE_FILE) } else { (Origin::Absent, STORE) };
        Self {
            store: Origin::of(cli.store.as_deref(), STORE).max(by_file),
            store_variable,
            dispatch: Origin::of(cli.dispatch.as_deref(), DISPATCH),
            server: Origin::of(server.as_deref(), SERVER),
            context: Origin::of(context.as_deref(), CONTEXT),
        }
    }

    fn remote(&self) -> Origin {
        self.server.max(self.context)
    }

    /// The setting that names the server.
    fn remote_name(&self) -> &'static str {
        if self.context > self.server {
            self.context.name("--context", CONTEXT)
        } else {
            self.server.name("--server", SERVER)
        }
    }

    /// Refuses settings that contradict each other.
    fn check(&self) -> Result<(), Usage> {
        let remote = self.remote_name();
        if self.remote() == Origin::Absent {
            return Ok(());
        }
        if self.server == self.context {
            let context = self.context.name("--context", CONTEXT);
            return Err(Usage(format!("{remote} and {context} both name a server; give one of them")));
        }
        if self.store == self.remote() {
            let store = self.store.name("--store", self.store_variable);
            return Err(Usage(format!("{store} names a store and {remote} a server; give one of them")));
        }
        if self.dispatch == Origin::Flag && self.remote() > self.store {
            return Err(Usage(format!("--dispatch belongs to a store, but {remote} names a server; omit it")));
        }
        Ok(())
    }
}

/// What a command administers.
enum Destination {
    Store,
    Server(ServerSettings),
}

/// Connects to what the command line, the environment, the configuration or the current context names, in this order.
pub(crate) async fn administer(cli: &Cli, config: &Config) -> Result<Box<dyn Administer>> {
    match target(cli, config)? {
        Destination::Server(settings) => Ok(Box::new(Remote::connect(settings).await?)),
        Destination::Store => {
            let punctual = config.connect(cli).await?.continuing(traces::given());
            Ok(Box::new(Local::new(punctual, actor())))
        }
    }
}

fn target(cli: &Cli, config: &Config) -> Result<Destination> {
    let origins = Origins::of(cli);
    origins.check()?;
    let args = &cli.server;
    if origins.remote() > origins.store {
        return Ok(Destination::Server(match (&args.server, &args.context) {
            (Some(url), _) if origins.server > origins.context => given(url, args)?,
            (_, name) => saved(Contexts::read()?.find(name.as_deref().unwrap_or_default())?, args)?,
        }));
    }
    let has_store = origins.store > Origin::Absent || config.names_store();
    let contexts = if has_store { Contexts::default() } else { Contexts::read()? };
    if let Some(name) = &contexts.current {
        return Ok(Destination::Server(saved(contexts.find(name)?, args)?));
    }
    if token_origin(args) == Origin::Flag {
        return Err(Usage("--token is for a server; give --server or --context, too".into()).into());
    }
    Ok(Destination::Store)
}

/// The server of --server or PUNCTUAL_SERVER.
fn given(url: &str, args: &ServerArgs) -> Result<ServerSettings, Usage> {
    ServerSettings::new(url, token(args)?, args.ca_file.clone(), timeout(args))
}

/// The token of --token, of PUNCTUAL_TOKEN, or in the file that PUNCTUAL_TOKEN_FILE names.
pub(crate) fn token(args: &ServerArgs) -> Result<Option<Secret>, Usage> {
    if token_origin(args) == Origin::Flag {
        return Ok(args.token.clone());
    }
    Ok(Environment::of_process().secret(TOKEN).map_err(Usage)?.map(Secret))
}

fn token_origin(args: &ServerArgs) -> Origin {
    Origin::of(args.token.as_ref().map(|token| token.0.as_str()), TOKEN)
}

/// The server of a context. Only flags override its settings: variables may be meant for another server.
fn saved(context: &SavedContext, args: &ServerArgs) -> Result<ServerSettings, Usage> {
    let own_token = args.token.clone().filter(|_| token_origin(args) == Origin::Flag);
    let is_by_flag = |file: &PathBuf| Origin::of(file.to_str(), CA_FILE) == Origin::Flag;
    let own_file = args.ca_file.clone().filter(is_by_flag);
    let token = own_token.or_else(|| context.token.clone());
    let ca_file = own_file.or_else(|| context.ca_file.clone());
    ServerSettings::new(&context.server, token, ca_file, timeout(args))
}

/// Refuses a context with an invalid URL.
pub(crate) fn check(context: &SavedContext) -> Result<(), Usage> {
    ServerSettings::new(&context.server, None, None, TIMEOUT).map(drop)
}

fn timeout(args: &ServerArgs) -> Duration {
    args.request_timeout.map_or(TIMEOUT, |span| span.0)
}

/// Refuses a server for a command that needs the store itself, for the reason `why`.
pub(crate) fn require_store(cli: &Cli, config: &Config, (command, why): (&str, &str)) -> Result<(), Usage> {
    let origins = Origins::of(cli);
    let has_store = origins.store > Origin::Absent || config.names_store();
    let is_refused = match origins.remote() {
        Origin::Absent => false,
        Origin::Variable => origins.store == Origin::Absent,
        Origin::Flag => true,
    };
    if is_refused {
        let remote = origins.remote_name();
        let problem = format!("`{command}` needs the store itself, not a server: it {why}; run it with --store");
        return Err(Usage(format!("{remote}: {problem}")));
    }
    // A worker belongs to the store of its folder, but these may be expected to check the current context. A file of
    // contexts that cannot be read does not matter to a command that uses none.
    let may_mistake = !has_store && matches!(command, "doctor" | "migrate" | "backup" | "restore");
    if let Some(name) = Contexts::read().ok().and_then(|contexts| contexts.current).filter(|_| may_mistake) {
        eprintln!("note: `{command}` uses the store sqlite:punctual.db of this folder, not the context {name}");
    }
    Ok(())
}
