//! `postgres://` addresses.

use std::{str::FromStr, time::Duration};

use punctual_core::{StoreError, url_parameter};
use sqlx::postgres::PgConnectOptions;

use super::options::Options;

/// The parameters of a URL: Punctual's own, then those of the driver.
const PARAMETERS: [&str; 21] = [
    "schema",
    "max_connections",
    "statement_timeout",
    "answer_timeout",
    "pooler",
    "dispatch",
    "locks",
    "lock_jobs",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "statement-cache-capacity",
];
/// Other spellings that the driver accepts.
const ALIASES: [&str; 5] = ["ssl-mode", "ssl-root-cert", "ssl-ca", "ssl-cert", "ssl-key"];

impl FromStr for Options {
    type Err = StoreError;

    /// Parses `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with any of PostgreSQL's own settings (`sslmode`,
    /// `sslrootcert`, …) and these: `schema`, `max_connections`, `statement_timeout` and `answer_timeout` (seconds),
    /// `pooler=transaction`.
    fn from_str(url: &str) -> Result<Self, StoreError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let shown = without_password(address);
        let bad = |reason: String| StoreError::InvalidUrl { store: shown.clone(), reason };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            match key {
                "schema" | "max_connections" | "statement_timeout" | "answer_timeout" | "pooler" => {
                    ours.push((key, value))
                }
                // The driver would only log a warning, and a misspelt schema would fill `public`.
                _ if !is_of_driver(key) => return Err(bad(url_parameter::unknown(key, &PARAMETERS))),
                _ => theirs.push(setting),
            }
        }
        let connect = PgConnectOptions::from_str(&format!("{address}?{}", theirs.join("&")))
            .map_err(|error| bad(format!("{error}; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE")))?;
        let mut options = Self::new(connect);
        for (key, value) in ours {
            let number = || value.parse::<u32>().ok().filter(|number| *number > 0);
            let wrong = |wanted: &str| bad(format!("{key}={value}: expected {wanted}"));
            match key {
                "schema" => {
                    options.schema = check_schema(value).ok_or_else(|| wrong("a name of letters, digits and _"))?
                }
                "max_connections" => {
                    options.max_connections = number().filter(|n| *n >= 2).ok_or_else(|| wrong("a number from 2"))?;
                }
                "statement_timeout" | "answer_timeout" => {
                    let seconds = number().ok_or_else(|| wrong("a number of seconds"))?;
                    let timeout = Duration::from_secs(u64::from(seconds));
                    let of_answers = key == "answer_timeout";
                    *(if of_answers { &mut options.answer_timeout } else { &mut options.statement_timeout }) = timeout;
                }
                _ if value == "transaction" => options.transaction_pooler = true,
                _ => return Err(wrong("transaction")),
            }
        }
        Ok(options)
    }
}

/// Whether the driver has a parameter of this name. Those of the dispatcher were taken out of the URL before.
fn is_of_driver(key: &str) -> bool {
    let is_of_dispatcher = ["dispatch", "locks", "lock_jobs"].contains(&key);
    let is_option = ["options[", "options%5B", "options%5b"].iter().any(|prefix| key.starts_with(prefix));
    !is_of_dispatcher && (PARAMETERS.contains(&key) || ALIASES.contains(&key) || is_option)
}

/// Accepts schema names that need no quotes.
fn check_schema(name: &str) -> Option<String> {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let plain = name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit()) && name.len() <= 48;
    plain.then(|| name.to_owned())
}

fn without_password(address: &str) -> String {
    match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) => {
            let user = rest.split([':', '@']).next().unwrap_or_default();
            format!("{scheme}://{user}@{host}")
        }
        // A port that is none is the beginning of a password.
        (Some((scheme, rest)), None) => match rest.split('/').next().and_then(|host| host.rsplit_once(':')) {
            Some((host, port)) if !port.chars().all(|c| c.is_ascii_digit()) => format!("{scheme}://{host}"),
            _ => address.to_owned(),
        },
        (None, _) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_database_and_its_settings() {
        let options: Options =
            "postgres://ada:secret@db:5433/shop?schema=jobs&max_connections=4&statement_timeout=9&answer_timeout=3&pooler=transaction"
                .parse()
                .unwrap();
        assert_eq!((options.schema.as_str(), options.max_connections), ("jobs", 4));
        assert_eq!((options.statement_timeout, options.transaction_pooler), (Duration::from_secs(9), true));
        assert_eq!(options.answer_timeout, Duration::from_secs(3));
        assert_eq!(options.location(), "postgres://ada@db:5433/shop?schema=jobs");
    }

    #[test]
    fn a_bad_url_is_refused_without_its_password() {
        for bad in [
            "postgres://ada:secret@db/shop?schema=Jobs;drop",
            "postgres://ada:secret@db/shop?max_connections=1",
            "postgres://ada:secret@db/shop?pooler=session",
            "postgres://ada:secret@db:port/shop",
            "postgres://ada:se?cret@db/shop",
        ] {
            let error = bad.parse::<Options>().unwrap_err();
            assert!(matches!(error, StoreError::InvalidUrl { .. }), "{error}");
            let error = error.to_string();
            assert!(!error.contains(":se") && !error.contains("cret"), "{error}");
        }
    }

    #[test]
    fn an_unknown_parameter_is_refused_and_those_of_the_driver_are_not() {
        for (setting, problem) in [
            ("schma=jobs", "unknown parameter `schma`: did you mean `schema`? expected schema, max_connections"),
            ("colour=red", "unknown parameter `colour`: expected schema, max_connections"),
            ("schema", "schema=: expected a name of letters, digits and _"),
        ] {
            let error = format!("postgres://ada@db/shop?{setting}").parse::<Options>().unwrap_err().to_string();
            assert!(error.contains(problem), "{setting}: {error}");
        }
        for setting in ["sslmode=disable", "ssl-mode=disable", "options[work_mem]=8MB", "application_name=shop"] {
            assert!(format!("postgres://ada@db/shop?{setting}").parse::<Options>().is_ok(), "{setting}");
        }
    }
}
