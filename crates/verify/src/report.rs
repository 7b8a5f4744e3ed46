//! What was verified, and what was found.

use punctual::core::Diagnostic;
use serde::Serialize;

/// So many violations of one guarantee are described; the others are counted.
const VIOLATIONS_MAX: usize = 5;

/// The result of a verification.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The engine.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// What `punctual doctor` checks of the server.
    pub checks: Vec<Diagnostic>,
    /// The server's settings that matter.
    pub settings: Vec<Setting>,
    /// How many behaviours of the conformance suite were checked; none if it was skipped.
    pub behaviours: usize,
    /// Those that the server does not have.
    pub failed_behaviours: Vec<FailedBehaviour>,
    /// The seed of the chaos run.
    pub seed: u64,
    /// Its duration.
    pub chaos_seconds: u64,
    /// How many jobs were acknowledged in it.
    pub jobs: usize,
    /// What was done to the worker processes.
    pub faults: Vec<FaultCount>,
    /// What was judged.
    pub guarantees: Vec<Guarantee>,
}

impl Report {
    /// Whether everything held.
    pub fn ok(&self) -> bool {
        self.failed_behaviours.is_empty() && self.guarantees.iter().all(Guarantee::held)
    }
}

/// A setting of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What the value puts at risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<&'static str>,
}

/// A behaviour that the server does not have.
#[derive(Debug, Clone, Serialize)]
pub struct FailedBehaviour {
    /// The behaviour, as a sentence.
    pub behaviour: String,
    /// What was found instead.
    pub message: String,
}

/// How often something was done.
#[derive(Debug, Clone, Serialize)]
pub struct FaultCount {
    /// What.
    pub fault: &'static str,
    /// How often.
    pub count: u64,
}

/// A guarantee, how often the run depended on it, and how it was broken.
#[derive(Debug, Clone, Serialize)]
pub struct Guarantee {
    /// The guarantee, as a sentence.
    pub guarantee: &'static str,
    /// How often the run depended on it.
    pub exercised: u64,
    /// How often it was broken.
    pub violated: u64,
    /// The first of these.
    pub violations: Vec<String>,
}

impl Guarantee {
    pub(crate) fn new(guarantee: &'static str) -> Self {
        Self { guarantee, exercised: 0, violated: 0, violations: Vec::new() }
    }

    /// The run depended on it once more, and it was broken if there is a problem.
    pub(crate) fn exercised(&mut self, problem: Option<String>) {
        self.exercised += 1;
        if let Some(problem) = problem {
            self.violated += 1;
            if self.violations.len() < VIOLATIONS_MAX {
                self.violations.push(problem);
            }
        }
    }

    /// Whether it was never broken.
    pub fn held(&self) -> bool {
        self.violated == 0
    }
}

/// Values that put acknowledged jobs at risk.
const RISKS: [(&str, &str, &str); 5] = [
    ("fsync", "off", "acknowledged jobs may be lost when the server's machine crashes"),
    ("synchronous_commit", "off", "acknowledged jobs of the last moments may be lost when the server crashes"),
    ("full_page_writes", "off", "pages may be torn when the server's machine crashes"),
    ("synchronous", "normal", "acknowledged jobs of the last moments may be lost when the machine loses power"),
    ("delayed_durability", "forced", "acknowledged jobs of the last moments may be lost when the server crashes"),
];

/// Settings that are given as `name=value, name=value`.
pub(crate) fn settings(text: &str) -> Vec<Setting> {
    let setting = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, "on"));
        let risk = RISKS.iter().find(|(risky, bad, _)| *risky == name && *bad == value);
        Setting { name: name.to_owned(), value: value.to_owned(), warning: risk.map(|(_, _, warning)| *warning) }
    };
    text.split(", ").filter(|part| !part.is_empty()).map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_puts_jobs_at_risk_has_a_warning() {
        let found = settings("fsync=off, synchronous_commit=on, wal");
        let values: Vec<_> = found.iter().map(|setting| (setting.name.as_str(), setting.value.as_str())).collect();
        assert_eq!(values, [("fsync", "off"), ("synchronous_commit", "on"), ("wal", "on")]);
        assert_eq!(found.iter().filter(|setting| setting.warning.is_some()).count(), 1);
    }
}
