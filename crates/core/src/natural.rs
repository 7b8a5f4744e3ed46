//! The order of names that contain numbers.

use std::cmp::Ordering;

/// Compares names as people order them: digits count as whole numbers.
///
/// ```
/// let mut names = ["n10", "n2", "n1", "m"];
/// names.sort_by(|a, b| punctual_core::natural::compare(a, b));
/// assert_eq!(names, ["m", "n1", "n2", "n10"]);
/// ```
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) {
        let order = if x.is_ascii_digit() && y.is_ascii_digit() {
            let ((x, after_x), (y, after_y)) = (number(left), number(right));
            (left, right) = (after_x, after_y);
            // Of numbers without leading zeros, the longer one is larger.
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            (left, right) = (&left[x.len_utf8()..], &right[y.len_utf8()..]);
            x.cmp(&y)
        };
        if order.is_ne() {
            return order;
        }
    }
    // `1` and `01` are equal as numbers.
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The digits at the start of a text, without leading zeros, and what follows them.
fn number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (digits.trim_start_matches('0'), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_by_their_numbers() {
        let ordered =
            ["", "0", "01", "1", "2", "a", "a1b2", "a1b10", "a02", "a2", "a10", "a18446744073709551617", "é1"];
        for (index, name) in ordered.iter().enumerate() {
            for (other_index, other) in ordered.iter().enumerate() {
                assert_eq!(compare(name, other), index.cmp(&other_index), "{name} and {other}");
            }
        }
    }
}
