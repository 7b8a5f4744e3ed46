//! A process of a test. Its arguments are its role, the URL of the store, the path of its ledger, and those of the
//! role.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{env, path::PathBuf};

use punctual_tests::Role;
use tokio::runtime::Runtime;

fn main() {
    let mut args = env::args().skip(1);
    let mut next = || args.next().expect("expected ROLE STORE LEDGER");
    let (name, url, ledger) = (next(), next(), PathBuf::from(next()));
    let role = Role::parse(&name, args).unwrap_or_else(|| panic!("unknown role or missing argument: {name}"));
    Runtime::new().unwrap().block_on(role.run(&url, &ledger));
}
