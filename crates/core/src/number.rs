//! Formatting of numbers.

/// A whole number with thousands separators.
///
/// ```
/// assert_eq!(punctual_core::number::in_thousands(1_234_567), "1,234,567");
/// assert_eq!(punctual_core::number::in_thousands(999), "999");
/// ```
pub fn in_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
