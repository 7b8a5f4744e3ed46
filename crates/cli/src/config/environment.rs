//! The variables that begin with `PUNCTUAL_`, and secrets in files.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use super::keys::{self, KEYS};

/// The prefix of all variables of Punctual.
pub(crate) const PREFIX: &str = "PUNCTUAL_";
/// The secret of the first token.
pub(crate) const BOOTSTRAP_TOKEN: &str = "PUNCTUAL_BOOTSTRAP_TOKEN";

/// Variables that are neither keys nor flags.
const OTHERS: [&str; 8] = [
    "PUNCTUAL_LOG",
    "PUNCTUAL_LOG_FORMAT",
    BOOTSTRAP_TOKEN,
    "PUNCTUAL_BOOTSTRAP_TOKEN_FILE",
    "PUNCTUAL_ALERT_SECRET",
    "PUNCTUAL_ALERT_URL_FILE",
    "PUNCTUAL_TOKEN_FILE",
    // Of clients of the API.
    "PUNCTUAL_URL",
];

/// Variables that processes of Punctual set for each other and for programs, and those of tests: never suggested.
const INTERNAL: [&str; 15] = [
    "PUNCTUAL_ISOLATION",
    "PUNCTUAL_VERIFY_FOLDER",
    "PUNCTUAL_JOB_ID",
    "PUNCTUAL_JOB_NAME",
    "PUNCTUAL_QUEUE",
    "PUNCTUAL_ATTEMPT",
    "PUNCTUAL_MAX_ATTEMPTS",
    "PUNCTUAL_USER_ID",
    "PUNCTUAL_CORRELATION_ID",
    "PUNCTUAL_WORKER_ID",
    "PUNCTUAL_PROTOCOL",
    "PUNCTUAL_RESULT_FILE",
    "PUNCTUAL_PARENT_RESULTS",
    "PUNCTUAL_BLESS",
    "PUNCTUAL_FUZZ_SEED",
];
const OF_TESTS: &str = "PUNCTUAL_TEST_";

/// The variables that begin with `PUNCTUAL_` and are not empty: an empty one counts as not set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let ours = |(name, value): &(String, String)| name.starts_with(PREFIX) && !value.is_empty();
        Self(variables.into_iter().filter(ours).collect())
    }
}

impl Environment {
    /// The variables of this process.
    pub(crate) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        env::vars_os().filter_map(text).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A secret: the value of a variable, or the content of the file that the variable with `_FILE` at its end names.
    /// An error names the variable and the file, never the secret.
    pub(crate) fn secret(&self, name: &str) -> Result<Option<String>, String> {
        let of_file = format!("{name}_FILE");
        match (self.get(name), self.get(&of_file)) {
            (Some(_), Some(_)) => Err(both(name, &of_file)),
            (Some(secret), None) => Ok(Some(secret.to_owned())),
            (None, Some(path)) => read_secret(Path::new(path)).map(Some).map_err(|why| format!("{of_file}: {why}")),
            (None, None) => Ok(None),
        }
    }
}

/// Two variables that exclude each other.
pub(crate) fn both(one: &str, other: &str) -> String {
    format!("{one} and {other} are both set; set one of them")
}

/// The content of a file, without the line break at its end.
pub(crate) fn read_secret(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    Ok(text.to_owned())
}

/// What a variable sets, if it is not a key of the configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// A flag, or something that is read elsewhere.
    Known,
    /// Nothing; maybe a similar name was meant.
    Unknown { nearest: Option<String> },
}

/// What a variable means that sets no key; `flags` are the variables of flags.
pub(crate) fn other(name: &str, value: &str, flags: &BTreeSet<String>) -> Other {
    let is_known = flags.contains(name)
        || OTHERS.contains(&name)
        || INTERNAL.contains(&name)
        || name.starts_with(OF_TESTS)
        || is_of_kubernetes(name, value);
    if is_known {
        return Other::Known;
    }
    let given: Vec<&str> = name.trim_start_matches(PREFIX).split("__").collect();
    let keys = KEYS.iter().filter(|key| key.segments().count() == given.len()).map(|key| {
        let part = |(part, given): (&str, &&str)| if part == "*" { (*given).to_owned() } else { part.to_uppercase() };
        let parts: Vec<_> = key.segments().zip(&given).map(part).collect();
        format!("{PREFIX}{}", parts.join("__"))
    });
    let known = flags.iter().cloned().chain(OTHERS.map(str::to_owned)).chain(keys);
    // The prefix, which all have, must not make names similar.
    let known = known.map(|name| name.trim_start_matches(PREFIX).to_owned());
    let nearest = keys::nearest(name.trim_start_matches(PREFIX), known);
    Other::Unknown { nearest: nearest.map(|name| format!("{PREFIX}{name}")) }
}

/// Kubernetes sets such variables in every container beside a service whose name begins with `punctual`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_address = value.split_once("://").is_some_and(|(scheme, _)| ["tcp", "udp", "sctp"].contains(&scheme));
    let has_number = name.split("_PORT_").nth(1).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT") && is_address
        || has_number
}

/// The files that other variables name, which must be readable.
pub(crate) fn named_files(environment: &Environment) -> impl Iterator<Item = (&'static str, PathBuf)> {
    ["PUNCTUAL_TLS_CERT", "PUNCTUAL_TLS_KEY"]
        .into_iter()
        .filter_map(move |name| Some((name, PathBuf::from(environment.get(name)?))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_secret_is_in_a_variable_or_in_a_file_but_not_in_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "hunter2\r\n").unwrap();
        let path = path.to_str().unwrap();
        let secret = |variables: &[(&str, &str)]| environment(variables).secret("PUNCTUAL_STORE");
        assert_eq!(secret(&[]), Ok(None));
        assert_eq!(secret(&[("PUNCTUAL_STORE", "")]), Ok(None), "an empty variable is not set");
        assert_eq!(secret(&[("PUNCTUAL_STORE_FILE", path)]), Ok(Some("hunter2".into())));
        let problem = secret(&[("PUNCTUAL_STORE_FILE", path), ("PUNCTUAL_STORE", "hunter2")]).unwrap_err();
        assert_eq!(problem, "PUNCTUAL_STORE and PUNCTUAL_STORE_FILE are both set; set one of them");
        let problem = secret(&[("PUNCTUAL_STORE_FILE", "/nowhere/secret")]).unwrap_err();
        assert!(problem.starts_with("PUNCTUAL_STORE_FILE: cannot read /nowhere/secret"), "{problem}");
    }

    #[test]
    fn unknown_variables_have_a_suggestion() {
        let flags = crate::config::flags::variables();
        let other = |name: &str| other(name, "", &flags);
        for known in ["PUNCTUAL_LISTEN", "PUNCTUAL_LOG", "PUNCTUAL_JOB_ID", "PUNCTUAL_TEST_SEED", "PUNCTUAL_WORKERS"] {
            assert_eq!(other(known), Other::Known, "{known}");
        }
        for (name, suggestion) in [
            ("PUNCTUAL_STOER", Some("PUNCTUAL_STORE")),
            ("PUNCTUAL_RETENTION__SUCEEDED", Some("PUNCTUAL_RETENTION__SUCCEEDED")),
            ("PUNCTUAL_QUEUES__mail__PRIORTY", Some("PUNCTUAL_QUEUES__mail__PRIORITY")),
            ("PUNCTUAL_LOGFORMAT", Some("PUNCTUAL_LOG_FORMAT")),
            ("PUNCTUAL_SOMETHING_ELSE", None),
        ] {
            assert_eq!(other(name), Other::Unknown { nearest: suggestion.map(str::to_owned) }, "{name}");
        }
    }

    #[test]
    fn variables_of_kubernetes_are_not_ours() {
        for (name, value) in [
            ("PUNCTUAL_SERVICE_HOST", "10.0.0.1"),
            ("PUNCTUAL_SERVICE_PORT_HTTP", "7878"),
            ("PUNCTUAL_PORT", "tcp://10.0.0.1:7878"),
            ("PUNCTUAL_DB_PORT_5432_TCP_ADDR", "10.0.0.1"),
        ] {
            assert!(is_of_kubernetes(name, value), "{name}");
        }
        assert!(!is_of_kubernetes("PUNCTUAL_PORT", "7878"));
    }
}
