//! Runs the conformance suite on a server, one store per behaviour.

use anyhow::Result;
use futures_util::{StreamExt, stream};
use punctual::Punctual;
use punctual_bench::StoreFactory;
use punctual_testkit::{Fixture, Ties, conformance::Behaviour};

use crate::{FailedBehaviour, OnProgress, caught::caught};

/// Maximum number of behaviours checked concurrently: each store opens up to nine connections.
const AT_ONCE: usize = 3;

/// The result of the suite.
#[derive(Debug, Default)]
pub(crate) struct Suite {
    /// The number of behaviours that were checked.
    pub(crate) behaviours: usize,
    pub(crate) failed: Vec<FailedBehaviour>,
}

pub(crate) async fn run(stores: &StoreFactory, on_progress: OnProgress<'_>) -> Result<Suite> {
    let all = Behaviour::ALL;
    let checks = all.iter().enumerate().map(|(number, behaviour)| check(stores, number, *behaviour));
    let mut checks = stream::iter(checks).buffer_unordered(AT_ONCE);
    let (mut done, mut failed) = (0, Vec::new());
    on_progress("conformance", done, all.len() as u64);
    while let Some(checked) = checks.next().await {
        failed.extend(checked?);
        done += 1;
        on_progress("conformance", done, all.len() as u64);
    }
    Ok(Suite { behaviours: all.len(), failed })
}

/// Checks one behaviour on a store of its own.
async fn check(stores: &StoreFactory, number: usize, behaviour: Behaviour) -> Result<Option<FailedBehaviour>> {
    let name = format!("b{number:03}");
    let url = stores.fresh_url(&name).await?;
    let checked = caught(move || async move {
        let clock = Fixture::start();
        let punctual = Punctual::connect_with_clock(&url, clock.clone()).await.map_err(|error| error.to_string())?;
        let ties = if punctual.store().info().engine.starts_with("postgres") { Ties::Id } else { Ties::default() };
        behaviour.check(&Fixture::of(punctual.store().clone(), clock).ties(ties)).await;
        Ok(())
    })
    .await;
    stores.remove(&name).await?;
    let message = checked.unwrap_or_else(Err).err();
    Ok(message.map(|message| FailedBehaviour { behaviour: behaviour.name.replace('_', " "), message }))
}
