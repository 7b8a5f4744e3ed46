//! Stores in front of another store: a dispatcher, injected faults, measurement. Operations that a layer does not
//! change are passed on.

use std::future::Future;

use super::{Store, StoreResult};

/// A store in front of another one.
pub trait Layer: Send + Sync {
    /// The store behind this layer.
    fn inner(&self) -> &dyn Store;

    /// Wraps an operation that is passed on. `call` does nothing before it is polled.
    fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> impl Future<Output = StoreResult<T>> + Send;
}

/// A layer that passes on all operations of a port, each by way of [`Layer::around`].
///
/// `impl PassOn<dyn ScheduleStore> for MyLayer {}` is sufficient to implement [`ScheduleStore`](super::ScheduleStore).
pub trait PassOn<Port: ?Sized> {}

/// Declares a port: the trait, and its implementation for a [`Layer`] that passes it on. The only list of its
/// operations.
macro_rules! port {
    (
        $(#[$about:meta])*
        pub trait $Port:ident {
            $($(#[$doc:meta])* async fn $operation:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $answer:ty;)*
        }
    ) => {
        $(#[$about])*
        #[async_trait::async_trait]
        pub trait $Port: Send + Sync {
            $($(#[$doc])* async fn $operation(&self $(, $argument: $type)*) -> $answer;)*
        }

        impl dyn $Port {
            /// The names of its operations.
            pub const OPERATIONS: &'static [&'static str] = &[$(stringify!($operation)),*];
        }

        #[async_trait::async_trait]
        impl<L: $crate::store::Layer + $crate::store::PassOn<dyn $Port>> $Port for L {
            $(async fn $operation(&self $(, $argument: $type)*) -> $answer {
                self.around(stringify!($operation), self.inner().$operation($($argument),*)).await
            })*
        }
    };
}
