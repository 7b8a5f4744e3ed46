//! Names of jobs and queues.

/// As `punctual_core::limits::NAME_MAX_CHARS` and `QUEUE_MAX_CHARS`.
pub(crate) const MAX_CHARS: usize = 128;
/// As `punctual_core::limits::LABEL_MAX_CHARS`, for keys of a payload.
pub(crate) const LABEL_MAX_CHARS: usize = 256;

/// What is wrong with a name, by the rules of `punctual_core::check::name`. A macro cannot use that crate without
/// compiling it, and all that it depends on, a second time.
pub(crate) fn problem(name: &str, max_chars: usize) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if name.trim() != name {
        return Some("begins or ends with white space".to_owned());
    }
    if let Some(bad) = name.chars().find(|c| c.is_control()) {
        return Some(format!("contains the control character U+{:04X}", u32::from(bad)));
    }
    let length = name.chars().count();
    (length > max_chars).then(|| format!("{length} characters, at most {max_chars} are allowed"))
}

/// The name of a type as that of a job: `SendEmail` is `send-email`, `HTTPRequest` is `http-request`.
pub(crate) fn kebab_case(type_name: &str) -> String {
    let chars: Vec<char> = type_name.chars().collect();
    let mut kebab = String::new();
    for (index, c) in chars.iter().enumerate() {
        if *c == '_' {
            kebab.push('-');
            continue;
        }
        let before = index.checked_sub(1).map(|before| chars[before]);
        let next_is_lowercase = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        let ends_word = |before: char| !before.is_uppercase() || next_is_lowercase;
        if c.is_uppercase() && before.is_some_and(ends_word) && !kebab.ends_with('-') {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use punctual_core::{check, limits};

    use super::*;

    #[test]
    fn a_name_has_the_problems_that_core_finds() {
        assert_eq!([MAX_CHARS; 2], [limits::NAME_MAX_CHARS, limits::QUEUE_MAX_CHARS]);
        assert_eq!(LABEL_MAX_CHARS, limits::LABEL_MAX_CHARS);
        let (longest, longer) = ("ä".repeat(MAX_CHARS), "ä".repeat(MAX_CHARS + 1));
        for name in ["send-email", "", " a", "a ", "a b", "a\u{7}b", "a\nb", "\u{a0}", &longest, &longer] {
            let expected = check::name("name", name, limits::NAME_MAX_CHARS).err().map(|invalid| invalid.problem);
            assert_eq!(problem(name, MAX_CHARS), expected, "{name:?}");
        }
    }

    #[test]
    fn the_words_of_a_type_are_joined_with_hyphens() {
        let named =
            ["SendEmail", "HTTPRequest", "SyncV2", "Sha256Sum", "A", "AB", "Snake_Case", "_Hidden", "ÜberÄnderung"]
                .map(kebab_case);
        let expected =
            ["send-email", "http-request", "sync-v2", "sha256-sum", "a", "ab", "snake-case", "hidden", "über-änderung"];
        assert_eq!(named, expected);
    }
}
