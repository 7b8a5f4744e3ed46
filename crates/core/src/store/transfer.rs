//! Moving jobs from one store to another.

use crate::{
    JobId,
    store::StoreResult,
    transfer::{Dependency, ExportBatch},
};

port! {
    /// Moving jobs from one store to another.
    pub trait TransferStore {
        /// The dependencies of these jobs on their parents, current and former.
        async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>>;

        /// Imports a batch from another store; returns how many of its records were new.
        async fn import(&self, batch: ExportBatch) -> StoreResult<usize>;
    }
}
