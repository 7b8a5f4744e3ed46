//! `sqlserver://` addresses.

use std::{str::FromStr, time::Duration};

use punctual_core::StoreError;
use tiberius::{AuthMethod, Config, EncryptionLevel};
use url::Url;

use super::Options;

impl FromStr for Options {
    type Err = StoreError;

    /// Reads `sqlserver://user:password@host:1433/database`, with the settings that docs/operations.md lists.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let bad = |reason: &str| StoreError::Unreachable { store: "sqlserver".to_owned(), reason: reason.to_owned() };
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "sqlserver" | "mssql") {
            return Err(bad("expected sqlserver://user:password@host/database"));
        }
        let decoded =
            |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
        let decoded = |text: &str| decoded(text).map_err(|_| bad("holds bytes that are no text"));
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("names no host"))?;
        let database = decoded(url.path().trim_start_matches('/'))?;
        let mut config = Config::new();
        config.host(host.trim_matches(['[', ']']));
        config.port(url.port().unwrap_or(1433));
        config.application_name("punctual");
        // Longer than anybody waits for a lock.
        config.command_timeout(Some(Duration::from_secs(120)));
        if !database.is_empty() {
            config.database(&database);
        }
        let user = decoded(url.username())?;
        if user.is_empty() {
            return Err(bad("names no user; write sqlserver://user:password@host/database"));
        }
        config.authentication(AuthMethod::sql_server(&user, decoded(url.password().unwrap_or_default())?));
        let location = format!("sqlserver://{user}@{host}:{}/{database}", url.port().unwrap_or(1433));
        let mut options =
            Self { config, location, max_connections: 8, connect_timeout: Duration::from_secs(15), clock: None };
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
            _ => Err(format!("{name}: `{value}` is no number from {least} on")),
        };
        match (name, value) {
            ("encrypt", "on") => self.config.encryption(EncryptionLevel::Required),
            ("encrypt", "off") => self.config.encryption(EncryptionLevel::NotSupported),
            ("encrypt", "strict") => self.config.encryption(EncryptionLevel::Strict),
            ("encrypt", _) => return Err(format!("encrypt: `{value}` is none of on, off, strict")),
            ("trust_server_certificate", "true") => self.config.trust_cert(),
            ("trust_server_certificate", "false") => {}
            ("ca", file) => self.config.trust_cert_ca(file),
            ("max_connections", _) => self.max_connections = number(2)? as usize,
            ("connect_timeout", _) => self.connect_timeout = Duration::from_secs(number(1)?),
            _ => return Err(format!("no setting is called {name}")),
        }
        Ok(())
    }
}
