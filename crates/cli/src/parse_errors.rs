//! What is wrong with a JSON or YAML file, with its line and column, in words of our own: messages of parsers quote
//! values, and name types of the program.

use serde::de::DeserializeOwned;

/// Parses YAML, or JSON if the text begins with `{`.
pub(crate) fn from_yaml_or_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    // JSON is valid YAML, but then an error is one of JSON.
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| of_json(&error));
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let at = error.location().map(|at| position(at.line(), at.column())).unwrap_or_default();
        let is_yaml = serde_saphyr::from_str::<serde_json::Value>(text).is_ok();
        let message = error.without_snippet().to_string();
        let wrong = match is_yaml {
            true => explained(&message),
            false if message.contains("duplicate mapping key") => "a key is given twice".to_owned(),
            false => SYNTAX.to_owned(),
        };
        format!("{at}{wrong}")
    })
}

/// Beginnings of the messages of our own types.
const OWN: [&str; 4] = ["invalid duration `", "invalid time `", "unknown policy `", "unknown status `"];
const SYNTAX: &str = "not valid YAML; check indentation, colons and quotes";

/// What is wrong with JSON.
fn of_json(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let wrong = match error.classify() {
        Category::Eof => "the JSON ends too early; a bracket or a quote is not closed".to_owned(),
        Category::Syntax | Category::Io => "not valid JSON; check commas, quotes and brackets".to_owned(),
        Category::Data => explained(&error.to_string()),
    };
    format!("{}{wrong}", position(error.line() as u64, error.column() as u64))
}

fn position(line: u64, column: u64) -> String {
    if line == 0 { String::new() } else { format!("line {line}, column {column}: ") }
}

/// What is wrong with a value of valid syntax, from the message of the deserializer: keys are repeated, values are not.
fn explained(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let between = |start: &str| message.split_once(start)?.1.split_once('`').map(|(name, _)| name);
    // A serializer appends the position, which is shown already.
    let end = |text: &str| text.split(" at line ").next().unwrap_or_default().trim_end_matches('.').to_owned();
    if let Some(key) = between("unknown field `") {
        let expected = message.split_once(", expected ").map(|(_, names)| format!("; expected {}", end(names)));
        return format!("unknown key `{key}`{}", expected.unwrap_or_default());
    }
    if let Some(key) = between("missing field `") {
        return format!("key `{key}` is missing");
    }
    if let Some(key) = between("duplicate field `") {
        return format!("key `{key}` is given twice");
    }
    // Messages of our own types, about values that are no secrets.
    if let Some(own) = OWN.iter().find_map(|start| Some(&message[message.find(start)?..])) {
        return end(own);
    }
    match message.rsplit_once(", expected ").or_else(|| message.rsplit_once(": expected ")) {
        Some((_, expected)) => format!("invalid value: expected {}", plain(&end(expected))),
        None => "invalid value".to_owned(),
    }
}

/// A type, in plain words.
fn plain(expected: &str) -> String {
    let word = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[allow(dead_code, reason = "only parsed")]
        name: String,
        #[allow(dead_code, reason = "only parsed")]
        #[serde(default)]
        counts: BTreeMap<String, u32>,
    }

    #[test]
    fn problems_have_a_position_and_no_value() {
        for (text, expected) in [
            ("{\"name\": \"hunter2\"", "ends too early"),
            ("{\"name\": hunter2}", "not valid JSON"),
            ("{\"nam\": \"hunter2\"}", "unknown key `nam`; expected `name` or `counts`"),
            ("{\"counts\": {}}", "key `name` is missing"),
            ("{\"name\": \"x\", \"counts\": {\"a\": \"hunter2\"}}", "invalid value: expected a whole number"),
            ("name: x\nnam: hunter2\n", "line 2"),
            ("name: x\ncounts:\n  a: hunter2\n", "line 3"),
            ("name: 'hunter2\n", "not valid YAML"),
            ("name: hunter2\nname: hunter2\n", "line 2"),
        ] {
            let problem = from_yaml_or_json::<Sample>(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
            assert!(!problem.contains("hunter2"), "{text}: {problem}");
        }
    }
}
