//! Parameters of a store's URL.

/// Maximum length of a parameter's name that is repeated in an error.
const NAME_MAX_CHARS: usize = 40;

/// The error text for a parameter that is not one of `known`: its name, the one that was probably meant, and all
/// others.
///
/// ```
/// use punctual_core::url_parameter::unknown;
///
/// let known = ["schema", "pooler"];
/// assert_eq!(unknown("schma", &known), "unknown parameter `schma`: did you mean `schema`? expected schema or pooler");
/// assert_eq!(unknown("colour", &known), "unknown parameter `colour`: expected schema or pooler");
/// ```
pub fn unknown(name: &str, known: &[&str]) -> String {
    let expected = alternatives(known);
    // A `?` in a password that is not encoded begins the parameters too early: they must not be repeated.
    if !is_name(name) {
        return format!("invalid parameter: expected NAME=VALUE, where NAME is {expected}; a `?` in a password is %3F");
    }
    match nearest(name, known) {
        Some(meant) => format!("unknown parameter `{name}`: did you mean `{meant}`? expected {expected}"),
        None => format!("unknown parameter `{name}`: expected {expected}"),
    }
}

fn alternatives(known: &[&str]) -> String {
    match known {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

fn is_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.[]".contains(c);
    !name.is_empty() && name.len() <= NAME_MAX_CHARS && name.chars().all(is_of_name)
}

/// The known name that differs in at most two characters, and in less than half of them.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let distances = known.iter().map(|candidate| (distance(&name, candidate), *candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 && 2 * distance < name.chars().count()).then_some(candidate)
}

/// The number of characters to insert, remove or replace until `a` equals `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_parameter_is_recognised() {
        let known = ["schema", "max_connections", "sslmode"];
        for (name, meant) in [("schma", "schema"), ("SCHEMA", "schema"), ("max_connection", "max_connections")] {
            assert_eq!(nearest(name, &known), Some(meant), "{name}");
        }
        for name in ["s", "x", "database", "ssl"] {
            assert_eq!(nearest(name, &known), None, "{name}");
        }
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("kitten", "sitting")), (3, 3, 3));
    }

    #[test]
    fn a_part_of_a_password_is_not_repeated() {
        for name in ["", "ter2@db/app", &"x".repeat(41)] {
            let text = unknown(name, &["schema"]);
            assert!(text.starts_with("invalid parameter: ") && !text.contains("ter2"), "{text}");
        }
    }
}
