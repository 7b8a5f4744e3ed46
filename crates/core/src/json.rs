//! JSON documents that are kept as text.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, ser};
use serde_json::value::RawValue;

use crate::{error::Invalid, limits};

/// A JSON document as text: validated once on input, and not parsed again until its handler reads it.
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

    /// Text that an engine stored, and that was validated before.
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

    /// Rejects a document that is larger than `max_bytes`, is nested too deeply, or contains values that not every JSON
    /// parser accepts: a number beyond the range of a 64-bit float, or half of a surrogate pair.
    pub fn check(&self, field: &'static str, max_bytes: usize) -> Result<(), Invalid> {
        if self.0.len() > max_bytes {
            return Err(Invalid::too_long(field, self.0.len(), max_bytes, "bytes"));
        }
        let depth = Scan::new(&self.0).depth().map_err(|problem| Invalid::new(field, problem))?;
        if depth > limits::JSON_MAX_DEPTH {
            return Err(Invalid::too_long(field, depth, limits::JSON_MAX_DEPTH, "levels of nesting"));
        }
        Ok(())
    }
}

/// A single pass over well-formed JSON, from the first byte to the last.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    const fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0 }
    }

    /// The nesting depth of brackets, or the problem of an invalid number or string.
    fn depth(mut self) -> Result<usize, String> {
        let (mut depth, mut deepest) = (0usize, 0);
        while let Some(byte) = self.next() {
            match byte {
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                b'{' | b'[' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok(deepest)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied();
        self.at += 1;
        byte
    }

    /// Reads the rest of a string.
    fn string(&mut self) -> Result<(), String> {
        while let Some(byte) = self.next() {
            match byte {
                b'"' => return Ok(()),
                b'\\' if self.next() == Some(b'u') => self.escape()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the digits of `\u`, and the second half of a surrogate pair.
    fn escape(&mut self) -> Result<(), String> {
        let unit = self.unit();
        let lone = Err(format!(
            "\\u{unit:04x} is half of a surrogate pair; expected a pair such as \\ud83d\\ude00, or the character itself"
        ));
        match unit {
            0xD800..=0xDBFF if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(b"\\u")) => {
                self.at += 2;
                if (0xDC00..=0xDFFF).contains(&self.unit()) { Ok(()) } else { lone }
            }
            0xD800..=0xDFFF => lone,
            _ => Ok(()),
        }
    }

    fn unit(&mut self) -> u32 {
        let digits = self.text.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        self.at += 4;
        digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
    }

    /// Reads the rest of a number. Only a long one, or one with an exponent, can be out of range.
    fn number(&mut self) -> Result<(), String> {
        const SHOWN_MAX_CHARS: usize = 32;
        let start = self.at - 1;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let rest = &self.text[start..];
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        self.at = start + length;
        let number = std::str::from_utf8(&rest[..length]).unwrap_or_default();
        let may_be_large = length > f64::MAX_10_EXP as usize || number.contains(['e', 'E']);
        if may_be_large && number.parse::<f64>().is_ok_and(f64::is_infinite) {
            let shown: String = number.chars().take(SHOWN_MAX_CHARS).collect();
            return Err(format!("the number {shown} is out of range; expected at most 1.7976931348623157e308"));
        }
        Ok(())
    }
}

impl FromStr for Json {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Ok(Self(raw.get().into()))
    }
}

impl fmt::Debug for Json {
    /// Prints only the size: payloads never reach a log or an error by way of `{:?}`.
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
        assert_eq!(Scan::new(r#"{"a": ["[[[", "\"[[", -1.5e3]}"#).depth().unwrap(), 2);
        let deep = "[".repeat(101) + &"]".repeat(101);
        let refused = deep.parse::<Json>().unwrap().check("payload", 1 << 20).unwrap_err();
        assert_eq!(refused.to_string(), "payload: 101 levels of nesting, at most 100 are allowed");
    }

    #[test]
    fn numbers_out_of_range_and_half_pairs_are_refused() {
        let check = |text: &str| text.parse::<Json>().unwrap().check("payload", 1 << 20);
        for fine in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#"{"\u00e9": [1e308, -1E-400, 0.1]}"#, r#""1e400""#, "true"]
        {
            assert!(check(fine).is_ok(), "{fine}");
        }
        let long = "9".repeat(400);
        for (wrong, problem) in [
            (r#""\ud800""#, "\\ud800 is half of a surrogate pair"),
            (r#"{"\uDC00": 1}"#, "\\udc00 is half of a surrogate pair"),
            (r#"["\ud83dx"]"#, "\\ud83d is half of a surrogate pair"),
            (r#""\ud83d\u0041""#, "\\ud83d is half of a surrogate pair"),
            ("[1, 1e400]", "the number 1e400 is out of range"),
            ("-1E+999", "the number -1E+999 is out of range"),
            (&long, "the number 99999999999999999999999999999999 is out of range"),
        ] {
            let refused = check(wrong).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("payload: {problem}")), "{refused}");
        }
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
