//! `sqlite:` addresses.

use std::str::FromStr;

use punctual_core::{StoreError, url_parameter};

use super::options::{Options, Synchronous};

/// The parameters of a URL.
const PARAMETERS: [&str; 1] = ["synchronous"];

impl FromStr for Options {
    type Err = StoreError;

    /// Reads `sqlite:FILE`, optionally with `?synchronous=full` (the default) or `?synchronous=normal`.
    fn from_str(url: &str) -> Result<Self, StoreError> {
        let address = url.split('?').next().unwrap_or(url);
        let bad = |reason: &str| StoreError::InvalidUrl { store: address.to_owned(), reason: reason.to_owned() };
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| bad("expected sqlite:FILE"))?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() || path == ":memory:" {
            return Err(bad("Punctual keeps jobs in a file; name one, such as sqlite:punctual.db"));
        }
        let mut options = Self::new(path);
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            options.synchronous = match setting.split_once('=').unwrap_or((setting, "")) {
                ("synchronous", "full") => Synchronous::Full,
                ("synchronous", "normal") => Synchronous::Normal,
                ("synchronous", value) => {
                    return Err(bad(&format!("synchronous: invalid value `{value}`: expected full or normal")));
                }
                (name, _) => return Err(bad(&url_parameter::unknown(name, &PARAMETERS))),
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
        for (bad, problem) in [
            ("sqlite:", "name one, such as sqlite:punctual.db"),
            ("sqlite::memory:", "name one, such as sqlite:punctual.db"),
            ("p.db", "expected sqlite:FILE"),
            ("sqlite:p.db?cache=1", "unknown parameter `cache`: expected synchronous"),
            ("sqlite:p.db?synchronos=full", "unknown parameter `synchronos`: did you mean `synchronous`?"),
            ("sqlite:p.db?synchronous=off", "synchronous: invalid value `off`: expected full or normal"),
        ] {
            let error = bad.parse::<Options>().unwrap_err();
            assert!(matches!(error, StoreError::InvalidUrl { .. }), "{bad}: {error}");
            assert!(error.to_string().contains(problem), "{bad}: {error}");
        }
    }
}
