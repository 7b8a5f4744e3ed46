//! The slots of a worker that an execution occupies until its handler has ended.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::shared::Shared;

/// The permits that an execution holds.
pub(crate) struct ExecutionSlot {
    _permit: OwnedSemaphorePermit,
    _suspect: Option<SuspectSlot>,
}

impl ExecutionSlot {
    pub(crate) fn new(permit: OwnedSemaphorePermit, suspect: Option<SuspectSlot>) -> Self {
        Self { _permit: permit, _suspect: suspect }
    }
}

/// The additional permit of a suspect. When it is dropped, the next suspect can be claimed at once.
pub(crate) struct SuspectSlot {
    permit: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
}

impl SuspectSlot {
    pub(crate) fn new(permit: OwnedSemaphorePermit, shared: Arc<Shared>) -> Self {
        Self { permit: Some(permit), shared }
    }
}

impl Drop for SuspectSlot {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.shared.claim_now.notify_one();
    }
}
