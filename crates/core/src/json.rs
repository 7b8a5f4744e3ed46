//! JSON documents kept as the text they came in.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, ser};
use serde_json::value::RawValue;

use crate::{error::Invalid, limits};

/// A JSON document as text: checked once when it enters, never parsed again on the way to its handler.
///
/// ```
/// use punctual_core::Json;
/// let json: Json = r#"{"to": "ada@example.com"}"#.parse().unwrap();
/// assert_eq!(json.as_str(), r#"{"to": "ada@example.com"}"#);
/// assert!("{to: 1}".parse::<Json>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

impl Json {
    /// The document `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Writes `value` as JSON.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Text that an engine stored and that was checked before it did.
    pub fn trusted(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the document as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Refuses a document that is larger than `max_bytes` or nested too deeply.
    pub fn check(&self, field: &'static str, max_bytes: usize) -> Result<(), Invalid> {
        if self.0.len() > max_bytes {
            return Err(Invalid::too_long(field, self.0.len(), max_bytes, "bytes"));
        }
        let depth = depth(&self.0);
        if depth > limits::JSON_MAX_DEPTH {
            return Err(Invalid::too_long(field, depth, limits::JSON_MAX_DEPTH, "levels of nesting"));
        }
        Ok(())
    }
}

/// How deeply brackets are nested, outside of strings.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

impl FromStr for Json {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Ok(Self(raw.get().into()))
    }
}

impl fmt::Debug for Json {
    /// Payloads never reach a log or an error by way of `{:?}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.0.len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_outside_of_strings() {
        assert_eq!(depth(r#"{"a": ["[[[", "\"[["]}"#), 2);
        let deep = "[".repeat(101) + &"]".repeat(101);
        let refused = deep.parse::<Json>().unwrap().check("payload", 1 << 20).unwrap_err();
        assert_eq!(refused.to_string(), "payload: 101 levels of nesting, at most 100 are allowed");
    }

    #[test]
    fn malformed_documents_are_refused() {
        for text in ["", "{", "{'a': 1}", "nul", "[1,]", "\"\0\"", "1 2"] {
            assert!(text.parse::<Json>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn debug_output_hides_the_content() {
        assert_eq!(format!("{:?}", Json::trusted("\"secret\"")), "Json(8 bytes)");
    }
}
