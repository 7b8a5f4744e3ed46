//! Functions that run typed jobs.

use std::{
    future::{Future, ready},
    marker::PhantomData,
    sync::Arc,
};

use punctual_client::{Context, Failure, IntoFailure, Job};
use punctual_core::Json;
use serde::Serialize;

use crate::registry::{Handler, HandlerFuture, HandlerResult, invalid_data};

/// A function that runs the jobs of a type: `async fn(Payload, Context) -> Result<T, E>`, or with a third argument, the
/// [state](crate::WorkerBuilder::state) that it needs. Added with [`register`](crate::WorkerBuilder::register).
///
/// - The payload implements [`Job`]. A payload that does not fit its type is a permanent failure.
/// - `T` becomes the job's result; `()` is none.
/// - `E` is [`Failure`], which can be permanent, retried at a given time, or a snooze. Any other [error](IntoFailure)
///   is retried by the job's policy.
///
/// The type parameter tells the forms apart and is inferred. Other functions are refused by the compiler:
///
/// ```compile_fail
/// # use punctual_client::{Context, Failure};
/// // `u32` is not a job.
/// async fn double(number: u32, _: Context) -> Result<u32, Failure> {
///     Ok(2 * number)
/// }
/// # fn example(builder: punctual_worker::WorkerBuilder) {
/// builder.register(double);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of a job",
    label = "expected an `async fn(Payload, Context) -> Result<T, E>`, or one with its state as a third argument",
    note = "the payload implements `Job`: `#[derive(Serialize, Deserialize, Job)]`",
    note = "`T` implements `Serialize`; `E` is `Failure`, an error type, `anyhow::Error` or a boxed error",
    note = "the state implements `Clone`, and is given to the worker with `WorkerBuilder::state`",
    note = "the future is `Send`: no `Rc` and no guard of a `std::sync::Mutex` may be held across an `.await`"
)]
pub trait JobHandler<Args>: Send + Sync + 'static {
    /// The type of the jobs.
    type Job: Job;
    /// The type of the state; `()` if the function takes none.
    type State: Clone + Send + Sync + 'static;

    /// Runs a job.
    fn run(&self, job: Self::Job, ctx: Context, state: Self::State) -> HandlerFuture;
}

impl<F, J, R, T, E> JobHandler<(J,)> for F
where
    F: Fn(J, Context) -> R + Send + Sync + 'static,
    J: Job,
    R: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: IntoFailure,
{
    type Job = J;
    type State = ();

    fn run(&self, job: J, ctx: Context, (): ()) -> HandlerFuture {
        let work = self(job, ctx);
        Box::pin(async move { result_of(work.await) })
    }
}

impl<F, J, S, R, T, E> JobHandler<(J, S)> for F
where
    F: Fn(J, Context, S) -> R + Send + Sync + 'static,
    J: Job,
    S: Clone + Send + Sync + 'static,
    R: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: IntoFailure,
{
    type Job = J;
    type State = S;

    fn run(&self, job: J, ctx: Context, state: S) -> HandlerFuture {
        let work = self(job, ctx, state);
        Box::pin(async move { result_of(work.await) })
    }
}

fn result_of<T: Serialize, E: IntoFailure>(returned: Result<T, E>) -> HandlerResult {
    let output = returned.map_err(IntoFailure::into_failure)?;
    let result = Json::of(&output).map_err(|error| invalid_data("result", &error.to_string()))?;
    Ok((result.as_str() != "null").then_some(result))
}

/// A function that runs typed jobs, with its state.
pub(crate) struct Typed<H: JobHandler<Args>, Args> {
    function: Arc<H>,
    state: H::State,
    args: PhantomData<fn() -> Args>,
}

impl<H: JobHandler<Args>, Args> Typed<H, Args> {
    pub(crate) const fn new(function: Arc<H>, state: H::State) -> Self {
        Self { function, state, args: PhantomData }
    }
}

impl<H: JobHandler<Args>, Args: 'static> Handler for Typed<H, Args> {
    fn run(&self, ctx: Context) -> HandlerFuture {
        match payload::<H::Job>(&ctx) {
            Ok(job) => <H as JobHandler<Args>>::run(&self.function, job, ctx, self.state.clone()),
            Err(failure) => Box::pin(ready(Err(failure))),
        }
    }

    fn wants_parent_results(&self) -> bool {
        <H::Job as Job>::PARENT_RESULTS
    }
}

/// The payload of a job. One that is invalid will not become valid: no retry.
fn payload<J: Job>(ctx: &Context) -> Result<J, Failure> {
    ctx.claim().job.spec.payload.read().map_err(|error| invalid_data("payload", &error.to_string()))
}
