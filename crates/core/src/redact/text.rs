//! Secrets in prose: error messages and log lines.

use std::{borrow::Cow, ops::Range};

use super::{REDACTED, is_secret, normal};

/// Headers whose value follows a colon without quotes. After other words a colon introduces prose: `invalid token:
/// expired`.
const SECRET_HEADERS: [&str; 4] = ["authorization", "proxyauthorization", "cookie", "setcookie"];
/// Words that precede the secret in such a header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "digest"];

/// The text with its secrets redacted: the password of `scheme://user:password@host`, and the values of secret keys,
/// the same as in [previews](super::preview), where they are written as `key=value`, `"key": value`, `key: "value"` or,
/// as in YAML, `key: value`.
///
/// ```
/// use punctual_core::redact;
/// let shown = redact::text("cannot reach postgres://ada:hunter2@db/app?sslmode=off with api_key=k-1", &[]);
/// assert_eq!(shown, "cannot reach postgres://ada:[redacted]@db/app?sslmode=off with api_key=[redacted]");
/// ```
pub fn text<'a>(text: &'a str, own_keys: &[String]) -> Cow<'a, str> {
    let own: Vec<String> = own_keys.iter().map(|key| normal(key)).collect();
    let (mut shown, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(mark) = text[at..].find(['=', ':']).map(|index| at + index) {
        at = mark + 1;
        if let Some(secret) = secret_at(text, mark, &own).filter(|secret| secret.start >= copied) {
            shown.push_str(&text[copied..secret.start]);
            shown.push_str(REDACTED);
            (copied, at) = (secret.end, secret.end);
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[copied..]);
    Cow::Owned(shown)
}

/// The secret that the `=` or `:` at this position introduces.
fn secret_at(text: &str, mark: usize, own: &[String]) -> Option<Range<usize>> {
    if let Some(rest) = text[mark..].strip_prefix("://") {
        return password(rest).map(|found| found.start + mark + 3..found.end + mark + 3);
    }
    let (key, key_is_quoted) = key_before(&text[..mark]);
    if key.is_empty() || !is_secret(key, own) {
        return None;
    }
    let is_assigned = text[mark..].starts_with('=');
    let rest = text[mark..].trim_start_matches(['=', ':', '>']).trim_start_matches([' ', '\t']);
    let start = text.len() - rest.len();
    if rest.starts_with(REDACTED) {
        return None;
    }
    let takes_any = is_assigned || key_is_quoted || SECRET_HEADERS.contains(&normal(key).as_str());
    let takes_word = || takes_any || is_entry(&text[..mark], key, rest);
    let found = quoted(rest).or_else(|| takes_word().then(|| unquoted(rest)))?;
    (!found.is_empty()).then(|| found.start + start..found.end + start)
}

/// Whether a key and its value are written as in a document: the key at the beginning of its line or list, and a single
/// word as the value.
fn is_entry(before: &str, key: &str, rest: &str) -> bool {
    let before = before.rfind(key).map_or("", |start| before[..start].trim_end_matches([' ', '\t', '-']));
    let after = rest[unquoted(rest).end..].trim_start_matches([' ', '\t', '\r']);
    let begins = before.is_empty() || before.ends_with(['\n', ',', ';', '{', '(', '[']);
    begins && (after.is_empty() || after.starts_with(['\n', ',', ';', '}', ')', ']']))
}

/// The password of a URL, given the part after its scheme.
fn password(rest: &str) -> Option<Range<usize>> {
    let address = &rest[..rest.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(rest.len())];
    let authority = address.find(['/', '?', '#']).map_or(address, |end| &address[..end]);
    // A password may contain an unescaped slash.
    let user_info = authority.rsplit_once('@').or_else(|| address.rsplit_once('@'))?.0;
    let start = user_info.find(':')? + 1;
    (start < user_info.len() && &user_info[start..] != REDACTED).then_some(start..user_info.len())
}

/// The key at the end of a text, and whether it is quoted.
fn key_before(text: &str) -> (&str, bool) {
    let text = text.trim_end_matches([' ', '\t']);
    let bare = text.trim_end_matches(['"', '\'', '`', '\\']);
    let start = bare.rfind(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
    let key = start.map_or(bare, |index| bare[index..].trim_start_matches(|c: char| !c.is_alphanumeric()));
    (key, bare.len() < text.len())
}

/// The text within the quotes at the beginning of a text.
fn quoted(text: &str) -> Option<Range<usize>> {
    let quote = text.trim_start_matches('\\').chars().next().filter(|c| "\"'`".contains(*c))?;
    let escape = text.find(quote)?;
    let start = escape + 1;
    if escape > 0 {
        // Escaped quotes: a document within a document.
        let end = text[start..].find(&text[..start]).map_or(text.len(), |end| start + end);
        return Some(start..end);
    }
    let mut escaped = false;
    let end = text[start..].find(|c: char| {
        let is_end = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    });
    Some(start..end.map_or(text.len(), |end| start + end))
}

/// A word, with the next word if the first only names the scheme of the secret; or a whole list or object.
fn unquoted(text: &str) -> Range<usize> {
    if text.starts_with(['{', '[']) {
        return 0..bracketed(text);
    }
    let word = |text: &str| text.find(|c: char| c.is_whitespace() || "\"'`,;&)]}<>|".contains(c)).unwrap_or(text.len());
    let end = word(text);
    let next = text[end..].trim_start_matches(' ');
    if SCHEMES.contains(&text[..end].to_ascii_lowercase().as_str()) && !next.is_empty() {
        return 0..text.len() - next.len() + word(next);
    }
    0..end
}

/// The end of the bracket at the beginning of a text.
fn bracketed(text: &str) -> usize {
    let mut depth = 0usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn secrets_are_hidden_in_every_way_of_writing_them() {
        for (original, shown) in [
            ("redis://:pw@h:6379/0 refused", "redis://:[redacted]@h:6379/0 refused"),
            ("`amqp://u:p/w#x@h/v`", "`amqp://u:[redacted]@h/v`"),
            ("https://u:pw@h/a?token=abc&x=1", "https://u:[redacted]@h/a?token=[redacted]&x=1"),
            ("password=hunter2, user=ada", "password=[redacted], user=ada"),
            ("DB_PASSWORD = 'hunter 2' set", "DB_PASSWORD = '[redacted]' set"),
            (r#"{"password": "a\"b", "ok": 1}"#, r#"{"password": "[redacted]", "ok": 1}"#),
            (r#"{"pin":1234,"x":{"secret":{"a":"b"}}}"#, r#"{"pin":[redacted],"x":{"secret":[redacted]}}"#),
            (r#"sent {\"apiKey\":\"k-1\",\"n\":1}"#, r#"sent {\"apiKey\":\"[redacted]\",\"n\":1}"#),
            (r#"Login { password: "x y" }"#, r#"Login { password: "[redacted]" }"#),
            ("password: hunter2", "password: [redacted]"),
            ("db:\n  user: ada\n  - password: hunter2 \n", "db:\n  user: ada\n  - password: [redacted] \n"),
            ("Login(user: ada, password: hunter2)", "Login(user: ada, password: [redacted])"),
            ("Authorization: Bearer abc.def next", "Authorization: [redacted] next"),
            ("authorization=Basic eDp5", "authorization=[redacted]"),
            ("customer-name=Ada", "customer-name=[redacted]"),
        ] {
            assert_eq!(text(original, &["customerName".into()]), shown);
            assert_eq!(text(shown, &["customerName".into()]), shown, "once hidden, it stays as it is");
        }
    }

    #[test]
    fn prose_and_harmless_addresses_are_shown() {
        for harmless in [
            "",
            "=",
            "://",
            "invalid token: expired at 12:30",
            "secret: not found",
            "the user gave no password: refused",
            "https://host:8080/path?author=ada",
            "author=ada pinned=1 é=ü password=",
            "mailto:ada@example.com, http://h/x@y",
        ] {
            assert_eq!(text(harmless, &[]), harmless);
        }
    }
}
