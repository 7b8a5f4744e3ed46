//! Models of the protocols behind the guarantees, with all reachable states explored:
//! `docs/adr/0022-protocol-models.md` describes their scope.
//!
//! Each guard of a protocol is a switch of its model. With all guards, no reachable state violates a property; for each
//! guard there is a test that removes it and shows the property that is violated.

#![allow(clippy::panic, clippy::print_stdout)]

use std::{collections::BTreeSet, fmt::Debug, hash::Hash};

use stateright::{Checker, HasDiscoveries, Model};

mod dispatch;
mod dispatch_guards;
mod dispatch_recovery;
mod dispatch_steps;
mod lease;
mod lease_guards;
mod lease_steps;

/// Explores every reachable state: each `always` property holds in all of them, each `sometimes` property in at least
/// one.
fn assert_holds<M>(model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Debug + Clone + PartialEq + Send + Sync,
    M::Action: Debug + Clone + PartialEq + Send + Sync,
{
    let checker = model.checker().spawn_bfs().join();
    assert!(checker.is_done(), "the checker stopped before it had seen every state");
    println!("{} states, {} transitions", checker.unique_state_count(), checker.state_count());
    checker.assert_properties();
}

/// Explores every reachable state: one property holds in all of them, regardless of the others.
fn assert_keeps<M>(model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Debug + Clone + PartialEq + Send + Sync,
    M::Action: Debug + Clone + PartialEq + Send + Sync,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property]))).spawn_bfs().join();
    checker.assert_no_discovery(property);
}

/// Explores until a property is violated, and prints the steps that lead there.
fn assert_breaks<M>(model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Debug + Clone + PartialEq + Send + Sync,
    M::Action: Debug + Clone + PartialEq + Send + Sync,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property]))).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    let path =
        checker.discovery(property).unwrap_or_else(|| panic!("the property holds without the guard: {property}"));
    for action in path.into_actions() {
        println!("  {action:?}");
    }
}
