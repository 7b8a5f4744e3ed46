//! Layers around the enqueue of jobs.

use std::{fmt, sync::Arc};

use punctual_core::{Invalid, NewJob};

use crate::{Draft, Punctual};

/// A function around the acceptance of every job.
type Layer = dyn Fn(Draft, EnqueueNext<'_>) -> Result<NewJob, Invalid> + Send + Sync;

/// What a [layer](Punctual::layer) around the enqueue surrounds: the further layers, and the check of the job.
pub struct EnqueueNext<'a> {
    layers: &'a [Arc<Layer>],
    accept: &'a dyn Fn(Draft) -> Result<NewJob, Invalid>,
}

impl EnqueueNext<'_> {
    /// Checks the job and assigns its id. It is stored, with the other jobs of its batch, when all layers have
    /// returned.
    pub fn run(self, draft: Draft) -> Result<NewJob, Invalid> {
        match self.layers.split_first() {
            Some((layer, layers)) => layer(draft, EnqueueNext { layers, ..self }),
            None => (self.accept)(draft),
        }
    }
}

/// The layers of a client, the outermost first.
#[derive(Clone, Default)]
pub(crate) struct EnqueueLayers(Arc<[Arc<Layer>]>);

impl EnqueueLayers {
    /// Passes a job through the layers to `accept`.
    pub(crate) fn around(
        &self,
        draft: Draft,
        accept: &dyn Fn(Draft) -> Result<NewJob, Invalid>,
    ) -> Result<NewJob, Invalid> {
        EnqueueNext { layers: &self.0, accept }.run(draft)
    }
}

impl fmt::Debug for EnqueueLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} layers", self.0.len())
    }
}

impl Punctual {
    /// A client on the same connection that surrounds the enqueue of every job with a function, which calls the rest by
    /// [`EnqueueNext::run`]: it may change the job, refuse it, or look at what became of it. The first layer is the
    /// outermost.
    ///
    /// Layers apply to single jobs, batches, workflows, and jobs in transactions of your own, for which SQLite's
    /// functions are synchronous: so are the layers. Deliveries of alerts, which are jobs named `punctual.alert`, pass
    /// through them, too. They do not apply to schedules, whose jobs the store creates.
    /// [`operation_latencies`](Self::operation_latencies) measures the store.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// use punctual_client::{Draft, Punctual};
    /// tokio::task_local! { static TENANT: String; }
    ///
    /// let punctual = Punctual::connect(&url)
    ///     .await?
    ///     // Metrics.
    ///     .layer(|draft, next| {
    ///         let name = draft.spec().name.clone();
    ///         let accepted = next.run(draft);
    ///         println!("{name}: {}", if accepted.is_ok() { "accepted" } else { "refused" });
    ///         accepted
    ///     })
    ///     // The context of a tenant: a layer of the worker restores it.
    ///     .layer(|draft, next| match TENANT.try_with(Clone::clone) {
    ///         Ok(tenant) => next.run(draft.user(tenant)),
    ///         Err(_) => next.run(draft),
    ///     });
    ///
    /// let job = TENANT.scope("acme".into(), punctual.enqueue(Draft::new("greet", &()))).await?;
    /// assert_eq!(punctual.job(job.id).await?.spec.user_id.as_deref(), Some("acme"));
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(Draft, EnqueueNext<'_>) -> Result<NewJob, Invalid> + Send + Sync + 'static,
    ) -> Self {
        let layer: Arc<Layer> = Arc::new(layer);
        self.layers = EnqueueLayers(self.layers.0.iter().cloned().chain([layer]).collect());
        self
    }
}
