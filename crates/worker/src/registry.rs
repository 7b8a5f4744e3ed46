//! Handlers by job name.

use std::{collections::BTreeMap, fmt, future::Future, marker::PhantomData, pin::Pin, sync::Arc};

use futures_util::future::join_all;
use punctual_client::{Context, Failure, Job};
use punctual_core::{JobError, Json, Retry, job::E_DATA, limits};

/// The result of a handler: the job's result, if it has one.
pub type HandlerResult = Result<Option<Json>, Failure>;

/// Runs the jobs of one name. Usually created from a [`Job`]; implement it directly for jobs without a payload type.
pub trait Handler: Send + Sync + 'static {
    /// Runs the job of this context.
    fn run(&self, ctx: Context) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

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
    fn run(&self, ctx: Context) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> {
        Box::pin(self(ctx))
    }
}

/// The handler of a typed job.
struct Typed<J: Job> {
    state: J::State,
    job: PhantomData<fn() -> J>,
}

impl<J: Job> Handler for Typed<J> {
    fn run(&self, ctx: Context) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> {
        let state = self.state.clone();
        Box::pin(async move {
            // An invalid payload will not become valid: no retry.
            let job: J =
                ctx.claim().job.spec.payload.read().map_err(|error| invalid_data("payload", &error.to_string()))?;
            let output = job.run(ctx, state).await?;
            let result = Json::of(&output).map_err(|error| invalid_data("result", &error.to_string()))?;
            Ok((result.as_str() != "null").then_some(result))
        })
    }

    fn wants_parent_results(&self) -> bool {
        J::PARENT_RESULTS
    }
}

/// Checks a result before it is stored.
pub(crate) fn check_result(result: Option<Json>) -> HandlerResult {
    if let Some(result) = &result {
        result.check("result", limits::RESULT_MAX_BYTES).map_err(|invalid| invalid_data("result", &invalid.problem))?;
    }
    Ok(result)
}

fn invalid_data(field: &str, problem: &str) -> Failure {
    Failure::of(JobError::coded(E_DATA, format!("invalid {field}: {problem}")), Retry::Never)
}

/// All handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct Registry(BTreeMap<String, Arc<dyn Handler>>);

impl Registry {
    pub(crate) fn add_job<J: Job>(&mut self, state: J::State) {
        self.add(J::NAME, Arc::new(Typed::<J> { state, job: PhantomData }));
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, handler: Arc<dyn Handler>) {
        self.0.insert(name.into(), handler);
    }

    pub(crate) fn add_all(&mut self, others: Self) {
        self.0.extend(others.0);
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
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
