//! The pictures of the documentation, taken from the program as it runs: its demo in a browser and in a terminal.

use std::{env, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};
use punctual_servers::Browser;

use crate::{root, run as run_cargo};

/// Tests that take the pictures. The second one is ignored otherwise: it lasts as long as its recording.
const TESTS: [&[&str]; 2] =
    [&["every_page_is_drawn_light_and_dark_wide_and_on_a_phone"], &["top_is_recorded_as_a_picture", "--", "--ignored"]];

/// The pictures that pages show: names of files in the folder of the tests, and in `docs/images`.
const SHOWN: [(&str, &str); 7] = [
    ("overview-light-1280.png", "overview-light.png"),
    ("overview-dark-1280.png", "overview-dark.png"),
    ("job-light-1280.png", "job-light.png"),
    ("job-dark-1280.png", "job-dark.png"),
    ("workflow-light-1280.png", "workflow-light.png"),
    ("workflow-dark-1280.png", "workflow-dark.png"),
    ("top.svg", "top.svg"),
];

/// Takes the pictures and copies those that are shown.
pub(crate) fn run() -> Result<()> {
    Browser::find()?;
    for test in TESTS {
        run_cargo(
            Command::new(env!("CARGO"))
                .args(["test", "--quiet", "--package", "punctual-cli", "--test", "screens"])
                .args(test),
        )?;
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let images = root().join("docs/images");
    fs::create_dir_all(&images)?;
    for (taken, shown) in SHOWN {
        let from = target.join("screenshots").join(taken);
        fs::copy(&from, images.join(shown)).with_context(|| format!("cannot copy {}", from.display()))?;
        eprintln!("  docs/images/{shown}");
    }
    Ok(())
}
