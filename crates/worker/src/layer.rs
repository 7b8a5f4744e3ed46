//! Layers around handlers.

use std::{future::Future, pin::Pin, sync::Arc};

use punctual_client::Context;

use crate::registry::{Handler, HandlerFuture, HandlerResult};

/// A function around every handler.
type Layer = dyn Fn(Context, Next) -> HandlerFuture + Send + Sync;

/// What a [layer](crate::WorkerBuilder::layer) surrounds: the further layers, and the handler.
pub struct Next {
    layers: Arc<[Arc<Layer>]>,
    /// The position of the next layer.
    position: usize,
    handler: Arc<dyn Handler>,
}

impl Next {
    /// Runs the job of this context.
    pub fn run(mut self, ctx: Context) -> HandlerFuture {
        match self.layers.get(self.position).cloned() {
            Some(layer) => {
                self.position += 1;
                layer(ctx, self)
            }
            None => self.handler.run(ctx),
        }
    }
}

/// The layers of a worker, the outermost first.
#[derive(Default)]
pub(crate) struct Layers(Vec<Arc<Layer>>);

impl Layers {
    /// Adds a layer inside of the others.
    pub(crate) fn add<F, R>(&mut self, layer: F)
    where
        F: Fn(Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.0.push(Arc::new(move |ctx: Context, next: Next| -> HandlerFuture { Box::pin(layer(ctx, next)) }));
    }

    /// Surrounds a handler.
    pub(crate) fn around(&self, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        if self.0.is_empty() { handler } else { Arc::new(Layered { layers: self.0.clone().into(), handler }) }
    }
}

/// A handler with layers around it.
struct Layered {
    layers: Arc<[Arc<Layer>]>,
    handler: Arc<dyn Handler>,
}

impl Handler for Layered {
    fn run(&self, ctx: Context) -> HandlerFuture {
        Next { layers: Arc::clone(&self.layers), position: 0, handler: Arc::clone(&self.handler) }.run(ctx)
    }

    fn wants_parent_results(&self) -> bool {
        self.handler.wants_parent_results()
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.handler.stop()
    }
}
