//! `punctual man`: the manual pages, made from the same definitions as the help.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::Cli;

pub(crate) fn run(folder: &Path) -> Result<()> {
    let cannot = || format!("cannot write manual pages to {}", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(cannot)
}
