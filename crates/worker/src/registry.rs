//! Handlers by job name.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
};

use futures_util::future::join_all;
use punctual_client::{Context, Failure};
use punctual_core::{Invalid, JobError, Json, Retry, job::E_DATA, limits};

/// The result of a handler: the job's result, if it has one.
pub type HandlerResult = Result<Option<Json>, Failure>;

/// The future of a handler.
pub type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// Runs the jobs of one name, whatever their payload: an `async fn(Context) -> HandlerResult`, or a program. Functions
/// that take a typed payload are [`JobHandler`](crate::JobHandler)s.
///
/// ```compile_fail
/// # fn example(builder: punctual_worker::WorkerBuilder) {
/// builder.handler("greet", 7);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot run jobs of a name",
    label = "expected an `async fn(Context) -> HandlerResult` or a `ProgramHandler`",
    note = "functions with a typed payload, `async fn(Payload, Context) -> Result<T, E>`, are added with `register`"
)]
pub trait Handler: Send + Sync + 'static {
    /// Runs the job of this context.
    fn run(&self, ctx: Context) -> HandlerFuture;

    /// Whether the handler needs the results of the job's parents.
    fn wants_parent_results(&self) -> bool {
        false
    }

    /// Called when the worker has stopped, to release resources that were kept for further jobs.
    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async {})
    }
}

impl<F, R> Handler for F
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = HandlerResult> + Send + 'static,
{
    fn run(&self, ctx: Context) -> HandlerFuture {
        Box::pin(self(ctx))
    }
}

/// Checks a result before it is stored.
pub(crate) fn check_result(result: Option<Json>) -> HandlerResult {
    if let Some(result) = &result {
        result.check("result", limits::RESULT_MAX_BYTES).map_err(|invalid| invalid_data("result", &invalid.problem))?;
    }
    Ok(result)
}

/// The failure of a job whose payload or result is invalid: a retry would not help.
pub(crate) fn invalid_data(field: &str, problem: &str) -> Failure {
    Failure::of(JobError::coded(E_DATA, format!("invalid {field}: {problem}")), Retry::Never)
}

/// All handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct Registry(BTreeMap<String, Arc<dyn Handler>>);

impl Registry {
    /// Adds a handler; a name has only one.
    pub(crate) fn add(&mut self, name: &str, handler: Arc<dyn Handler>) -> Result<(), Invalid> {
        match self.0.entry(name.to_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(handler);
                Ok(())
            }
            Entry::Occupied(_) => {
                let problem = format!("`{name}` is registered twice; expected one handler per job name");
                Err(Invalid::new("handlers", problem))
            }
        }
    }

    /// Adds the handlers of another worker.
    pub(crate) fn add_all(&mut self, others: Self) -> Result<(), Invalid> {
        others.0.into_iter().try_for_each(|(name, handler)| self.add(&name, handler))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Handler>> {
        self.0.get(name).cloned()
    }

    /// Stops all handlers: no more jobs will run.
    pub(crate) async fn stop(&self) {
        join_all(self.0.values().map(|handler| handler.stop())).await;
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
