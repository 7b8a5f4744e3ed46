//! The model itself passes the suite.

use punctual_testkit::{Fixture, ModelStore, conformance};

async fn fixture() -> Fixture {
    let clock = Fixture::start();
    Fixture::new(ModelStore::new(clock.clone()), clock)
}

conformance!(fixture);
