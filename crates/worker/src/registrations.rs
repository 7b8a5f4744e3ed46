//! The handlers, states and layers that a worker is given, until they become its registry.

use std::{fmt, sync::Arc};

use punctual_client::Job;
use punctual_core::{Invalid, check, limits};

use crate::{
    job_handler::{JobHandler, Typed},
    layer::Layers,
    registry::{Handler, Registry},
    states::States,
};

/// Makes a handler once all states are known: the order of the builder's calls does not matter.
type Bind = Box<dyn Fn(&States) -> Result<Arc<dyn Handler>, Invalid> + Send + Sync>;

/// What a worker is given to run its jobs.
#[derive(Default)]
pub(crate) struct Registrations {
    handlers: Vec<(String, Bind)>,
    pub(crate) states: States,
    pub(crate) layers: Layers,
}

impl Registrations {
    /// Adds a handler by the name of its jobs.
    pub(crate) fn add(&mut self, name: impl Into<String>, handler: Arc<dyn Handler>) {
        self.handlers.push((name.into(), Box::new(move |_: &States| Ok(Arc::clone(&handler)))));
    }

    /// Adds the handler of a type of jobs.
    pub(crate) fn add_job<H: JobHandler<Args>, Args: 'static>(&mut self, function: H) {
        let function = Arc::new(function);
        let name = <H::Job as Job>::NAME;
        let bind = move |states: &States| -> Result<Arc<dyn Handler>, Invalid> {
            Ok(Arc::new(Typed::<H, Args>::new(Arc::clone(&function), states.of(name)?)))
        };
        self.handlers.push((name.to_owned(), Box::new(bind)));
    }

    /// Checks the registrations and makes the registry of them.
    pub(crate) fn registry(&self) -> Result<Registry, Invalid> {
        self.states.check()?;
        let mut registry = Registry::default();
        for (name, bind) in &self.handlers {
            check::name("name", name, limits::NAME_MAX_CHARS)?;
            registry.add(name, self.layers.around(bind(&self.states)?))?;
        }
        Ok(registry)
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers.iter().map(|(name, _)| name)).finish()
    }
}
