//! `sqlserver://` URLs.

use std::{str::FromStr, time::Duration};

use punctual_core::{Create, StoreError, url_parameter};
use tiberius::{AuthMethod, Config, EncryptionLevel};
use url::Url;

use super::options::Options;

/// The parameters of a URL.
const PARAMETERS: [&str; 6] =
    ["encrypt", "trust_server_certificate", "ca", "max_connections", "answer_timeout", "connect_timeout"];

impl FromStr for Options {
    type Err = StoreError;

    /// Parses `sqlserver://user:password@host:1433/database`, with the settings that docs/sql-server.md lists.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let bad = |reason: &str| StoreError::InvalidUrl { store: "sqlserver".to_owned(), reason: reason.to_owned() };
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "sqlserver" | "mssql") {
            return Err(bad("expected sqlserver://user:password@host/database"));
        }
        let decoded =
            |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
        let decoded = |text: &str| decoded(text).map_err(|_| bad("is not valid UTF-8 after decoding"));
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("no host given"))?;
        let database = decoded(url.path().trim_start_matches('/'))?;
        let mut config = Config::new();
        config.host(host.trim_matches(['[', ']']));
        config.port(url.port().unwrap_or(1433));
        config.application_name("punctual");
        if !database.is_empty() {
            config.database(&database);
        }
        let user = decoded(url.username())?;
        if user.is_empty() {
            return Err(bad("no user given; expected sqlserver://user:password@host/database"));
        }
        config.authentication(AuthMethod::sql_server(&user, decoded(url.password().unwrap_or_default())?));
        let location = format!("sqlserver://{user}@{host}:{}/{database}", url.port().unwrap_or(1433));
        let (connect_timeout, answer_timeout) = (Duration::from_secs(15), Duration::from_secs(15));
        let create = Create::default();
        let mut options =
            Self { config, location, max_connections: 8, connect_timeout, answer_timeout, create, clock: None };
        for (name, value) in url.query_pairs() {
            options.set(&name, &value).map_err(|reason| bad(&reason))?;
        }
        Ok(options)
    }
}

impl Options {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |least: u64| match value.parse() {
            Ok(number) if number >= least => Ok(number),
            _ => Err(format!("{name}: invalid value `{value}`: expected a number of at least {least}")),
        };
        match (name, value) {
            ("encrypt", "on") => self.config.encryption(EncryptionLevel::Required),
            ("encrypt", "off") => self.config.encryption(EncryptionLevel::NotSupported),
            ("encrypt", "strict") => self.config.encryption(EncryptionLevel::Strict),
            ("encrypt", _) => return Err(format!("encrypt: invalid value `{value}`: expected on, off or strict")),
            ("trust_server_certificate", "true") => self.config.trust_cert(),
            ("trust_server_certificate", "false") => {}
            ("trust_server_certificate", _) => {
                return Err(format!("{name}: `{value}` is invalid: expected true or false"));
            }
            ("ca", file) => self.config.trust_cert_ca(file),
            ("max_connections", _) => self.max_connections = number(2)? as usize,
            ("answer_timeout", _) => self.answer_timeout = Duration::from_secs(number(1)?),
            ("connect_timeout", _) => self.connect_timeout = Duration::from_secs(number(1)?),
            _ => return Err(url_parameter::unknown(name, &PARAMETERS)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_address_names_a_server_a_user_and_settings() {
        let options: Options =
            "sqlserver://ada:p%40ss@db.example.com/shop?encrypt=strict&max_connections=20&connect_timeout=5&answer_timeout=3"
                .parse()
                .unwrap();
        assert_eq!(options.location, "sqlserver://ada@db.example.com:1433/shop");
        assert_eq!(options.config.get_addr(), "db.example.com:1433");
        assert_eq!((options.max_connections, options.connect_timeout), (20, Duration::from_secs(5)));
        assert_eq!(options.answer_timeout, Duration::from_secs(3));
        let shown = format!("{options:?}");
        assert!(!shown.contains("p@ss") && !shown.contains("p%40ss"), "{shown}");
        let other: Options = "mssql://ada@[::1]:1499?encrypt=off&trust_server_certificate=false".parse().unwrap();
        assert_eq!(other.config.get_addr(), "::1:1499");
        assert_eq!(other.in_database("jobs").location, "sqlserver://ada@[::1]:1499/jobs");
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_reason_and_without_its_password() {
        let cases = [
            (
                "sqlserver://ada:secret@db/shop?encrypt=maybe",
                "encrypt: invalid value `maybe`: expected on, off or strict",
            ),
            (
                "sqlserver://ada:secret@db/shop?max_connections=1",
                "max_connections: invalid value `1`: expected a number of at least 2",
            ),
            (
                "sqlserver://ada:secret@db/shop?connect_timeout=soon",
                "connect_timeout: invalid value `soon`: expected a number of at least 1",
            ),
            (
                "sqlserver://ada:secret@db/shop?answer_timeout=0",
                "answer_timeout: invalid value `0`: expected a number of at least 1",
            ),
            (
                "sqlserver://ada:secret@db/shop?trust_server_certificate=1",
                "trust_server_certificate: `1` is invalid: expected true or false",
            ),
            ("sqlserver://ada:secret@db/shop?schema=jobs", "unknown parameter `schema`: expected encrypt, "),
            (
                "sqlserver://ada:secret@db/shop?encrypted=on",
                "unknown parameter `encrypted`: did you mean `encrypt`? expected encrypt, ",
            ),
            ("sqlserver://ada:secret@db:port/shop", "invalid port number"),
            ("sqlserver://:secret@db/shop", "no user given"),
            ("sqlserver:///shop", "no host given"),
            ("sqlserver://ada:%ff@db/shop", "is not valid UTF-8 after decoding"),
        ];
        for (bad, expected) in cases {
            let error = bad.parse::<Options>().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{bad}: {error}");
        }
    }
}
