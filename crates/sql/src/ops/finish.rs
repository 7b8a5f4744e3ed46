//! The end of every operation.

use punctual_core::StoreResult;

use super::{flow, queue_limits, tx::Tx};

/// Applies the consequences of finished jobs, re-evaluates the limits of the touched keys, and writes the counters. The
/// last step of every operation.
pub(crate) fn finish(tx: &mut Tx<'_>) -> StoreResult<()> {
    flow::follow(tx)?;
    queue_limits::evaluate_touched(tx)?;
    tx.write_counters()
}
