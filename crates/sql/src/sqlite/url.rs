//! `sqlite:` addresses.

use std::str::FromStr;

use punctual_core::StoreError;

use super::options::{Options, Synchronous};

impl FromStr for Options {
    type Err = StoreError;

    /// Reads `sqlite:FILE`, optionally with `?synchronous=full` (the default) or `?synchronous=normal`.
    fn from_str(url: &str) -> Result<Self, StoreError> {
        let bad = |reason: &str| StoreError::Unreachable { store: url.to_owned(), reason: reason.to_owned() };
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| bad("expected sqlite:FILE"))?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() || path == ":memory:" {
            return Err(bad("Punctual keeps jobs in a file; name one, such as sqlite:punctual.db"));
        }
        let mut options = Self::new(path);
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            options.synchronous = match setting {
                "synchronous=full" => Synchronous::Full,
                "synchronous=normal" => Synchronous::Normal,
                _ => return Err(bad("known settings are synchronous=full and synchronous=normal")),
            };
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_url_names_a_file_and_its_settings() {
        let path = |url: &str| url.parse::<Options>().unwrap().path;
        assert_eq!(path("sqlite:punctual.db"), Path::new("punctual.db"));
        assert_eq!(path("sqlite:///var/lib/p.db"), Path::new("/var/lib/p.db"));
        let relaxed: Options = "sqlite:p.db?synchronous=normal".parse().unwrap();
        assert_eq!(relaxed.synchronous, Synchronous::Normal);
        for bad in ["sqlite:", "sqlite::memory:", "p.db", "sqlite:p.db?cache=1"] {
            assert!(bad.parse::<Options>().is_err(), "{bad}");
        }
    }
}
