//! Moving from one store to another.

use crate::{
    JobId,
    store::StoreResult,
    transfer::{Dependency, ExportBatch},
};

port! {
    /// Moving from one store to another.
    pub trait TransferStore {
        /// Which jobs some wait for, or waited for.
        async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>>;

        /// Takes over a part of what another store knows; says how much of it was new here.
        async fn import(&self, parcel: ExportBatch) -> StoreResult<usize>;
    }
}
