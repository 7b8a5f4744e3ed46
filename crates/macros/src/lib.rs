//! `#[derive(Job)]`, which the crate `punctual` re-exports and documents.
//!
//! | step | file |
//! |---|---|
//! | read the options of `#[job(…)]` | `options` |
//! | check names, and make one of the type's | `name` |
//! | read durations | `duration` |
//! | write the implementation | `expand` |

mod duration;
mod expand;
mod name;
mod options;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

/// Implements `Job` for a type, with the options of `#[job(…)]`.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::job(&input).unwrap_or_else(Error::into_compile_error).into()
}
