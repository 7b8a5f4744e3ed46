//! The lines of `enqueue --file`, and the options of the command line as their defaults.

use std::collections::BTreeMap;

use punctual::input::{JobInput, UniqueInput};
use serde::de::IgnoredAny;

/// Reads a line; fields that it does not have are those of `defaults`. An error begins with the column.
pub(crate) fn parse(text: &str, defaults: &JobInput) -> Result<JobInput, String> {
    let line: JobInput = serde_json::from_str(text).map_err(|error| in_words(&error))?;
    let fields: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).map_err(|error| in_words(&error))?;
    Ok(merged(line, defaults.clone(), |field| fields.contains_key(field)))
}

/// An error without the number of the line, which is always 1 to the parser.
fn in_words(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let position = format!(" at line {} column {column}", error.line());
    format!("column {column}: {}", text.strip_suffix(&position).unwrap_or(&text))
}

fn merged(line: JobInput, defaults: JobInput, has: impl Fn(&str) -> bool) -> JobInput {
    let has_time = has("in") || has("at");
    let has_key = line.key.is_some();
    let derives_key = line.unique.as_ref().is_some_and(|unique| !unique.by.is_empty());
    // A key is either given or derived.
    let scope = |unique: UniqueInput| if has_key { UniqueInput { by: Vec::new(), ..unique } } else { unique };
    let defaults = JobInput { unique: defaults.unique.map(scope), ..defaults };
    macro_rules! merge {
        ($($field:ident: $has:expr),*) => {
            JobInput { $($field: if $has { line.$field } else { defaults.$field },)* ..line }
        };
    }
    merge!(
        queue: has("queue"),
        priority: has("priority"),
        delay: has_time,
        at: has_time,
        key: has("key") || derives_key,
        unique: has("unique"),
        concurrency_key: has("concurrency_key"),
        user: has("user"),
        tags: has("tags"),
        correlation: has("correlation"),
        description: has("description"),
        metadata: has("metadata"),
        log_level: has("log_level"),
        max_attempts: has("max_attempts"),
        max_crashes: has("max_crashes"),
        timeout: has("timeout"),
        retry: has("retry"),
        keep_for: has("keep_for"),
        ephemeral: has("ephemeral"),
        after: has("after"),
        on_parent_failure: has("on_parent_failure")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_options_of_the_command_line_unless_it_has_its_own() {
        let defaults = r#"{"name": "", "queue": "mail", "priority": 9, "in": "1h", "tags": ["a"], "ephemeral": true,
            "unique": {"by": ["/id"], "period": "1h"}}"#;
        let defaults: JobInput = serde_json::from_str(defaults).unwrap();
        let line = |text: &str| parse(text, &defaults).unwrap();
        let plain = line(r#"{"name": "x"}"#);
        assert_eq!((plain.queue.as_deref(), plain.priority, plain.tags), (Some("mail"), Some(9), vec!["a".to_owned()]));
        assert!(plain.delay.is_some() && plain.ephemeral && plain.unique.unwrap().by == ["/id"]);
        let own = r#"{"name": "x", "queue": null, "priority": 1, "at": "2026-03-01T12:00:00Z", "tags": [],
            "ephemeral": false, "key": "k"}"#;
        let own = line(own);
        assert_eq!((own.queue, own.priority, own.tags.len()), (None, Some(1), 0));
        assert!(own.delay.is_none() && own.at.is_some() && !own.ephemeral);
        let unique = own.unique.unwrap();
        assert!(unique.by.is_empty() && unique.period.is_some(), "a key is given; its period is the default");
    }

    #[test]
    fn an_error_names_the_column() {
        let problem = parse(r#"{"name": "x", "prioritiy": 1}"#, &JobInput::default()).unwrap_err();
        assert!(problem.starts_with("column 2") && problem.contains(": unknown field `prioritiy`, "), "{problem}");
        assert!(!problem.contains("at line"), "{problem}");
    }
}
