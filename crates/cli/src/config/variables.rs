//! Which key a variable sets, and how its value is read: `PUNCTUAL_` and the path of the key in upper case, with `__`
//! between its parts, such as `PUNCTUAL_RETENTION__SUCCEEDED`.

use super::{
    environment::PREFIX,
    keys::{self, Found, KEYS, Key, Kind},
};

/// What a variable sets.
#[derive(Debug)]
pub(crate) enum Target {
    /// A key.
    Value(Vec<String>, &'static Key),
    /// A key, by the variable of its flag.
    OfFlag(Vec<String>, &'static Key),
    /// A secret key, by a file.
    FileOf(Vec<String>, &'static Key),
    /// All keys of a table.
    Table(Vec<String>),
}

impl Target {
    pub(crate) fn path(&self) -> &[String] {
        let (Self::Value(path, _) | Self::OfFlag(path, _) | Self::FileOf(path, _) | Self::Table(path)) = self;
        path
    }
}

/// What a variable sets; `None` if no key. `names` are the names that the file uses in a table.
///
/// Queues, handlers, schedules and webhooks have names, of which shells allow only some in a variable. A part that
/// stands for a name denotes the one in the file that is equal to it but for case and punctuation. If there is none, it
/// is the name itself, in lower case if it has no lower-case letter.
pub(crate) fn target(variable: &str, names: impl Fn(&[String]) -> Vec<String>) -> Result<Option<Target>, String> {
    let of_flag = KEYS.iter().find(|key| key.flag.is_some_and(|(_, name)| name == variable));
    if let Some(key) = of_flag {
        return Ok(Some(Target::OfFlag(key.segments().map(str::to_owned).collect(), key)));
    }
    let parts: Vec<&str> = variable.trim_start_matches(PREFIX).split("__").collect();
    let mut path: Vec<String> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let (lower, is_last) = (part.to_lowercase(), index + 1 == parts.len());
        let fixed = keys::in_table(&path);
        let is_fixed = fixed.contains(&lower.as_str())
            || is_last && lower.strip_suffix("_file").is_some_and(|key| fixed.contains(&key));
        if is_fixed {
            path.push(lower);
        } else if part.is_empty() || !keys::takes_names(&path) {
            return Ok(None);
        } else if path.last().is_some_and(|table| table == "env") {
            // A variable of a program: case matters.
            path.push((*part).to_owned());
        } else {
            path.push(chosen(part, &names(&path))?);
        }
    }
    Ok(match keys::find(&path) {
        Found::Key(key) => Some(Target::Value(path, key)),
        Found::FileOf(key) => {
            if let Some(last) = path.last_mut() {
                last.truncate(last.len() - "_file".len());
            }
            Some(Target::FileOf(path, key))
        }
        Found::Table => Some(Target::Table(path)),
        Found::Unknown => None,
    })
}

/// The name that a part of a variable denotes.
fn chosen(part: &str, names: &[String]) -> Result<String, String> {
    let plain = |text: &str| text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "_");
    if names.iter().any(|name| name == part) {
        return Ok(part.to_owned());
    }
    let similar: Vec<&String> = names.iter().filter(|name| plain(name) == plain(part)).collect();
    match similar.as_slice() {
        [] if part.chars().any(char::is_lowercase) => Ok(part.to_owned()),
        [] => Ok(part.to_lowercase()),
        [name] => Ok((*name).clone()),
        [one, other, ..] => Err(format!("`{part}` may mean `{one}` or `{other}`; write the name as in the file")),
    }
}

/// The value that a text sets: TOML if it is TOML of the type of the key, otherwise the text, or a list with commas.
pub(crate) fn value(kind: Kind, text: &str) -> toml::Value {
    let own = || toml::Value::String(text.to_owned());
    let parsed = || text.trim().parse::<toml::Value>().ok();
    match kind {
        Kind::Text(_) => own(),
        Kind::Integer => parsed().filter(toml::Value::is_integer).unwrap_or_else(own),
        Kind::Boolean => parsed().filter(toml::Value::is_bool).unwrap_or_else(own),
        Kind::Texts(_) => parsed().filter(toml::Value::is_array).unwrap_or_else(|| listed(text)),
        Kind::Integers => {
            let number = |part: &str| part.trim().parse::<i64>().ok().map(toml::Value::Integer);
            let numbers = || text.split(',').map(number).collect::<Option<Vec<_>>>().map(toml::Value::Array);
            parsed().filter(toml::Value::is_array).or_else(numbers).unwrap_or_else(own)
        }
        Kind::Any => {
            let json = || toml::Value::try_from(serde_json::from_str::<serde_json::Value>(text).ok()?).ok();
            parsed().or_else(json).unwrap_or_else(own)
        }
    }
}

/// The value that the variable of a flag sets, as the flag does.
pub(crate) fn value_of_flag(kind: Kind, text: &str) -> toml::Value {
    if matches!(kind, Kind::Texts(_)) { listed(text) } else { value(kind, text) }
}

fn listed(text: &str) -> toml::Value {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    toml::Value::Array(parts.map(|part| toml::Value::String(part.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn path_of(variable: &str) -> Option<String> {
        let names = |path: &[String]| match path.join(".").as_str() {
            "queues" => vec!["e-mail".to_owned(), "Bulk".to_owned(), "bulk.old".to_owned(), "bulk-old".to_owned()],
            _ => Vec::new(),
        };
        target(variable, names).unwrap().map(|target| target.path().join(" "))
    }

    #[test]
    fn variables_set_keys_by_their_paths() {
        for (variable, path) in [
            ("PUNCTUAL_STORE", Some("store")),
            ("PUNCTUAL_STORE_FILE", Some("store")),
            ("PUNCTUAL_APPLICATION", Some("application")),
            ("PUNCTUAL_QUEUES", Some("worker queues")),
            ("PUNCTUAL_CONCURRENCY", Some("worker concurrency")),
            ("PUNCTUAL_WORKER__CONCURRENCY", Some("worker concurrency")),
            ("PUNCTUAL_RETENTION__SUCCEEDED", Some("retention succeeded")),
            ("PUNCTUAL_RETENTION", Some("retention")),
            ("PUNCTUAL_QUEUES__mail__LIMITS__RATE", Some("queues mail limits rate")),
            ("PUNCTUAL_QUEUES__MAIL__PRIORITY", Some("queues mail priority")),
            ("PUNCTUAL_QUEUES__E_MAIL__PRIORITY", Some("queues e-mail priority")),
            ("PUNCTUAL_QUEUES__BULK__PRIORITY", Some("queues Bulk priority")),
            ("PUNCTUAL_QUEUES__my-queue__PRIORITY", Some("queues my-queue priority")),
            ("PUNCTUAL_HANDLERS__resize__ENV__API_Key", Some("handlers resize env API_Key")),
            ("PUNCTUAL_ALERTS__LATE_AFTER_IN__bulk", Some("alerts late_after_in bulk")),
            ("PUNCTUAL_ALERTS__WEBHOOKS__OPS__URL_FILE", Some("alerts webhooks ops url")),
            ("PUNCTUAL_ALERTS__WEBHOOKS__OPS__SECRET_FILE", Some("alerts webhooks ops secret_file")),
            ("PUNCTUAL_RETENTION__SUCEEDED", None),
            ("PUNCTUAL_QUEUES__mail__PRIORTY", None),
            ("PUNCTUAL_WORKER__", None),
            ("PUNCTUAL_LISTEN", None),
        ] {
            assert_eq!(path_of(variable).as_deref(), path, "{variable}");
        }
        let names = |_: &[String]| vec!["bulk.old".to_owned(), "bulk-old".to_owned()];
        let problem = target("PUNCTUAL_QUEUES__BULK_OLD__PRIORITY", names).unwrap_err();
        assert!(problem.contains("`bulk.old` or `bulk-old`"), "{problem}");
    }

    #[test]
    fn values_are_read_by_the_type_of_their_key() {
        let text = |kind, text: &str| value(kind, text).to_string();
        assert_eq!(text(Kind::Text(""), "12"), "\"12\"");
        assert_eq!(text(Kind::Integer, " 12 "), "12");
        assert_eq!(text(Kind::Integer, "many"), "\"many\"");
        assert_eq!(text(Kind::Boolean, "true"), "true");
        assert_eq!(text(Kind::Texts(""), "a, b"), "[\"a\", \"b\"]");
        assert_eq!(text(Kind::Texts(""), "[\"a,b\"]"), "[\"a,b\"]");
        assert_eq!(text(Kind::Integers, "65,66"), "[65, 66]");
        assert_eq!(text(Kind::Integers, "[65]"), "[65]");
        assert_eq!(text(Kind::Integers, "65,x"), "\"65,x\"");
        assert_eq!(value(Kind::Any, "{ \"n\": [1, 2] }"), value(Kind::Any, "{ n = [1, 2] }"));
        assert_eq!(text(Kind::Any, "plain words"), "\"plain words\"");
        assert_eq!(value_of_flag(Kind::Texts(""), "a=5,b"), value(Kind::Texts(""), "[\"a=5\", \"b\"]"));
    }
}
