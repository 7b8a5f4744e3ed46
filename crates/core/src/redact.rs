//! Payload previews, error messages and log lines without secrets.

mod text;

use serde_json::Value;

pub use self::text::text;
use crate::Json;

/// Replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Words that mark a key as secret, anywhere in the key. Compared without case and separators.
const SECRET_WORDS: [&str; 18] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "credential",
    "authorization",
    "cookie",
    "session",
    "creditcard",
    "cardnumber",
    "cvv",
    "ssn",
];

/// Keys that are secret only as a whole: short words that are part of harmless ones.
const SECRET_KEYS: [&str; 6] = ["auth", "pin", "pwd", "cvc", "iban", "jwt"];

/// Maximum size of a preview.
const PREVIEW_MAX_BYTES: usize = 8 << 10;
/// Maximum length of a text within a preview.
const TEXT_MAX_CHARS: usize = 256;
/// Maximum number of members of one array or object within a preview.
const MEMBERS_MAX_COUNT: usize = 50;

/// The document with the values of secret keys redacted at any depth, and long parts cut.
///
/// `own_keys` are additional keys to redact, from the definition of the job.
///
/// ```
/// use punctual_core::{Json, redact};
/// let payload: Json = r#"{"user": {"email": "ada@example.com", "api_key": "k-1"}}"#.parse().unwrap();
/// let preview = redact::preview(&payload, &["email".into()]);
/// assert_eq!(preview.to_string(), r#"{"user":{"api_key":"[redacted]","email":"[redacted]"}}"#);
/// ```
pub fn preview(document: &Json, own_keys: &[String]) -> Value {
    let own: Vec<String> = own_keys.iter().map(|key| normal(key)).collect();
    let Ok(value) = document.read::<Value>() else {
        return Value::String("[not readable]".into());
    };
    let shown = hide(value, &own);
    if shown.to_string().len() > PREVIEW_MAX_BYTES {
        return Value::String(format!("[{} bytes, too large to show]", document.as_str().len()));
    }
    shown
}

fn hide(value: Value, own: &[String]) -> Value {
    match value {
        Value::Object(members) => {
            let left_out = members.len().saturating_sub(MEMBERS_MAX_COUNT);
            let mut shown: serde_json::Map<_, _> = members
                .into_iter()
                .take(MEMBERS_MAX_COUNT)
                .map(|(key, value)| {
                    let value = if is_secret(&key, own) { REDACTED.into() } else { hide(value, own) };
                    (key, value)
                })
                .collect();
            if left_out > 0 {
                shown.insert("…".into(), format!("{left_out} more").into());
            }
            Value::Object(shown)
        }
        Value::Array(items) => {
            let left_out = items.len().saturating_sub(MEMBERS_MAX_COUNT);
            let mut shown: Vec<_> = items.into_iter().take(MEMBERS_MAX_COUNT).map(|item| hide(item, own)).collect();
            if left_out > 0 {
                shown.push(format!("… {left_out} more").into());
            }
            Value::Array(shown)
        }
        Value::String(text) => Value::String(cut_chars(text)),
        plain => plain,
    }
}

fn is_secret(key: &str, own: &[String]) -> bool {
    let key = normal(key);
    SECRET_KEYS.contains(&key.as_str()) || SECRET_WORDS.iter().any(|word| key.contains(word)) || own.contains(&key)
}

/// Lower case, letters and digits only: `API-Key`, `api_key` and `apiKey` are equal.
fn normal(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn cut_chars(text: String) -> String {
    let length = text.chars().count();
    if length <= TEXT_MAX_CHARS {
        return text;
    }
    let kept: String = text.chars().take(TEXT_MAX_CHARS).collect();
    format!("{kept}… ({} more characters)", length - TEXT_MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        preview(&text.parse().unwrap(), &["customerName".into()]).to_string()
    }

    #[test]
    fn secrets_are_hidden_at_any_depth_and_in_any_spelling() {
        let text = r#"[{"a":{"b":[{"API-Key":1,"userPassword":{"x":"y"},"customer_name":"Ada","ok":true}]}}]"#;
        assert_eq!(
            shown(text),
            r#"[{"a":{"b":[{"API-Key":"[redacted]","customer_name":"[redacted]","ok":true,"userPassword":"[redacted]"}]}}]"#
        );
    }

    #[test]
    fn harmless_keys_that_contain_a_short_secret_word_are_shown() {
        assert_eq!(
            shown(r#"{"author":"Ada","shipping":1,"pin":"1234"}"#),
            r#"{"author":"Ada","pin":"[redacted]","shipping":1}"#
        );
    }

    #[test]
    fn long_parts_are_cut_with_a_note() {
        let text = format!("[\"{}\"]", "é".repeat(300));
        assert!(shown(&text).contains("… (44 more characters)"));
        let many: Vec<u32> = (0..60).collect();
        assert!(shown(&serde_json::to_string(&many).unwrap()).contains("… 10 more"));
    }

    #[test]
    fn a_preview_is_bounded_whatever_the_payload() {
        let text = format!("[{}]", vec![format!("\"{}\"", "x".repeat(250)); 49].join(","));
        assert_eq!(shown(&text), format!("\"[{} bytes, too large to show]\"", text.len()));
    }
}
