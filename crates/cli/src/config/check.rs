//! Everything that can be wrong with the configuration and that shows without connecting to anything.

use std::{fs::File, path::Path};

use anyhow::{Context, Result};
use punctual::{
    Punctual,
    admin::check_secret,
    core::{Clock, SystemClock, queue},
};

use super::{
    Config, OWNER_REQUIRED,
    environment::{self, BOOTSTRAP_TOKEN, Environment},
    flags,
};
use crate::{
    alerts::{AlertArgs, alerts},
    args::Cli,
    exit::Usage,
};

impl Config {
    /// What is wrong with a configuration whose types were checked; errors do not contain secrets.
    pub(crate) fn problems(&self, cli: &Cli, environment: &Environment) -> Vec<String> {
        let mut problems: Vec<String> = flags::problems().into_iter().collect();
        let mut check = |checked: Result<()>| problems.extend(checked.err().map(|error| format!("{error:#}")));
        check(Punctual::check_url(&self.store_url(cli)).map_err(Into::into));
        self.queues.keys().for_each(|name| check(self.check_queue(name)));
        self.schedules.iter().flatten().for_each(|(name, _)| check(self.check_schedule(name)));
        check(self.check_owner(cli));
        for (name, program) in &self.handlers {
            check(program.handler(name, &self.folder).map(drop).map_err(Into::into));
            check(program.check_exists(name, &self.folder).map_err(Into::into));
        }
        check(alerts(self.alerts.as_ref(), &AlertArgs::of(environment), &self.folder).map(drop).map_err(Into::into));
        check(bootstrap_token(environment).map(drop));
        for (name, path) in environment::named_files(environment) {
            check(check_readable(name, &path));
        }
        problems
    }

    /// Schedules need an owner in a store that several programs share.
    fn check_owner(&self, cli: &Cli) -> Result<()> {
        let is_owned = self.schedules.is_none() || self.application.is_some();
        if is_owned || self.store_url(cli).starts_with("sqlite:") {
            return Ok(());
        }
        Err(Usage(format!("application: {OWNER_REQUIRED}")).into())
    }

    fn check_queue(&self, name: &str) -> Result<()> {
        let Some(queue) = self.queues.get(name) else { return Ok(()) };
        let section = || format!("[queues.{name}] of the configuration");
        queue::check_name(name).with_context(section)?;
        queue.defaults().input().defaults().with_context(section)?;
        queue.limits.iter().try_for_each(|limits| limits.check()).with_context(section)
    }

    fn check_schedule(&self, name: &str) -> Result<()> {
        let Some(schedule) = self.schedules.as_ref().and_then(|schedules| schedules.get(name)) else { return Ok(()) };
        let section = || format!("[schedules.{name}] of the configuration");
        let recurring = schedule.clone().recurring(name).with_context(section)?;
        recurring.check_defined(SystemClock.now()).map(drop).with_context(section)
    }
}

/// The secret of the first token, if the environment contains one.
pub(crate) fn bootstrap_token(environment: &Environment) -> Result<Option<String>> {
    let Some(secret) = environment.secret(BOOTSTRAP_TOKEN).map_err(Usage)? else { return Ok(None) };
    check_secret(&secret).map_err(|invalid| Usage(format!("{BOOTSTRAP_TOKEN} {}", invalid.problem)))?;
    Ok(Some(secret))
}

fn check_readable(name: &str, path: &Path) -> Result<()> {
    let unreadable = |error| Usage(format!("{name}: cannot read {}: {error}", path.display()));
    File::open(path).map(drop).map_err(unreadable)?;
    Ok(())
}
