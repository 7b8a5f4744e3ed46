//! The report of a verification.

use punctual::core::Diagnostic;
use serde::Serialize;

/// Maximum number of violations described per guarantee; the others are counted.
const VIOLATIONS_MAX: usize = 5;

/// The result of a verification.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The database engine.
    pub engine: String,
    /// The version of the engine.
    pub version: String,
    /// The results of the checks of `punctual doctor`.
    pub checks: Vec<Diagnostic>,
    /// The relevant settings of the server.
    pub settings: Vec<Setting>,
    /// The number of behaviours of the conformance suite that were checked; 0 if the suite was skipped.
    pub behaviours: usize,
    /// The behaviours that failed.
    pub failed_behaviours: Vec<FailedBehaviour>,
    /// The seed of the chaos run.
    pub seed: u64,
    /// The duration of the chaos run.
    pub chaos_seconds: u64,
    /// The number of jobs acknowledged in the chaos run.
    pub jobs: usize,
    /// The faults injected into the worker processes.
    pub faults: Vec<FaultCount>,
    /// The guarantees that were checked.
    pub guarantees: Vec<Guarantee>,
}

impl Report {
    /// Whether all behaviours passed and all guarantees held.
    pub fn ok(&self) -> bool {
        self.failed_behaviours.is_empty() && self.guarantees.iter().all(Guarantee::held)
    }
}

/// A setting of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The name of the setting.
    pub name: String,
    /// The value of the setting.
    pub value: String,
    /// What the value puts at risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<&'static str>,
}

/// A behaviour that failed on the server.
#[derive(Debug, Clone, Serialize)]
pub struct FailedBehaviour {
    /// The behaviour, as a sentence.
    pub behaviour: String,
    /// The message of the failure.
    pub message: String,
}

/// A kind of fault, and how often it was injected.
#[derive(Debug, Clone, Serialize)]
pub struct FaultCount {
    /// The kind of fault.
    pub fault: &'static str,
    /// The number of times it was injected.
    pub count: u64,
}

/// A guarantee, how often the run exercised it, and its violations.
#[derive(Debug, Clone, Serialize)]
pub struct Guarantee {
    /// The guarantee, as a sentence.
    pub guarantee: &'static str,
    /// How often the run exercised it.
    pub exercised: u64,
    /// How often it was violated.
    pub violated: u64,
    /// The first violations.
    pub violations: Vec<String>,
}

impl Guarantee {
    pub(crate) fn new(guarantee: &'static str) -> Self {
        Self { guarantee, exercised: 0, violated: 0, violations: Vec::new() }
    }

    /// Counts that the run exercised the guarantee, and a violation if there is a problem.
    pub(crate) fn exercised(&mut self, problem: Option<String>) {
        self.exercised += 1;
        if let Some(problem) = problem {
            self.violated += 1;
            if self.violations.len() < VIOLATIONS_MAX {
                self.violations.push(problem);
            }
        }
    }

    /// Whether it was never violated.
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

/// Parses settings in the form `name=value, name=value`.
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
