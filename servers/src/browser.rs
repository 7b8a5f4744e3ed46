//! A browser controlled by WebDriver.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{debian, watchdog::Watchdog};

/// Maximum number of drivers started until one has found a free port.
const TRIES_MAX: usize = 5;

/// A running WebDriver for Chromium. It ends when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub struct Browser {
    port: u16,
    chromium: String,
    watchdog: Watchdog,
    driver: Child,
    folder: TempDir,
}

impl Browser {
    /// Finds Chromium and its driver, or installs them.
    pub fn find() -> Result<(PathBuf, PathBuf)> {
        let chromium = debian::program_on_path("chromium", "chromium")?;
        Ok((chromium, debian::program_on_path("chromedriver", "chromium-driver")?))
    }

    /// Starts the driver; installs missing programs.
    ///
    /// The driver listens on the same port of IPv4 and IPv6. The system chooses it for one of them, and it may be in
    /// use for the other: then the driver exits, and another one is started.
    pub fn start() -> Result<Self> {
        let mut tries = 1;
        loop {
            match Self::try_start() {
                Err(_) if tries < TRIES_MAX => tries += 1,
                result => return result,
            }
        }
    }

    fn try_start() -> Result<Self> {
        let (chromium, program) = Self::find()?;
        let chromium = chromium.display().to_string();
        let folder = tempfile::Builder::new().prefix("punctual-browser-").tempdir()?;
        let mut driver = Command::new(&program)
            .arg("--port=0")
            .env("TMPDIR", folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        fs::write(folder.path().join("pid"), format!("{}\n", driver.id()))?;
        let watchdog = Watchdog::start(folder.path(), "pid", "TERM")?;
        let reader = BufReader::new(driver.stdout.take().context("the driver has no output")?);
        let (mut port, mut output) = (None, Vec::new());
        for line in reader.lines().map_while(Result::ok) {
            port = line
                .rsplit_once("started successfully on port ")
                .and_then(|(_, port)| port.trim_end_matches('.').parse().ok());
            if port.is_some() {
                break;
            }
            output.push(line);
        }
        let Some(port) = port else {
            let status = driver.wait()?;
            bail!("chromedriver ended before it listened: {status}\n{}", output.join("\n"));
        };
        Ok(Self { port, chromium, watchdog, driver, folder })
    }

    /// The URL of the driver.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The arguments for starting Chromium in a session, as the driver expects them.
    pub fn arguments(&self) -> Vec<String> {
        let profile = format!("--user-data-dir={}", self.folder.path().join("profile").display());
        let mut arguments = vec!["--headless".to_owned(), profile];
        let quiet = [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1280,900",
        ];
        arguments.extend(quiet.map(str::to_owned));
        arguments
    }

    /// The path of Chromium.
    pub fn chromium(&self) -> &str {
        &self.chromium
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.watchdog.end(&mut self.driver);
    }
}
