//! The options of `#[job(…)]`.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use proc_macro2::Span;
use syn::{
    Attribute, Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, meta::ParseNestedMeta, parenthesized,
    punctuated::Punctuated,
};

use crate::{duration, name};

const KEYS: [&str; 12] = [
    "name",
    "queue",
    "priority",
    "max_attempts",
    "timeout",
    "retry",
    "concurrency_key",
    "unique",
    "parent_results",
    "log_level",
    "redact",
    "crate",
];

/// As `punctual_core::limits::PRIORITY_MAX` and `ATTEMPTS_MAX_COUNT`.
const PRIORITY_MAX: u8 = 10;
const ATTEMPTS_MAX_COUNT: u32 = 1_000;
const LOG_LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// The options that a type sets.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    /// An expression for the policy.
    pub(crate) retry: Option<Expr>,
    /// A format string.
    pub(crate) concurrency_key: Option<LitStr>,
    pub(crate) unique: Option<UniqueBy>,
    pub(crate) parent_results: bool,
    /// The variant of `LogLevel`.
    pub(crate) log_level: Option<Ident>,
    pub(crate) redact: Vec<String>,
    /// The path of the crate `punctual`, if not its name.
    pub(crate) facade: Option<Path>,
}

/// What the unique key is made of.
pub(crate) enum UniqueBy {
    Payload,
    /// A format string.
    Key(LitStr),
}

impl Options {
    /// Reads the attributes of a type.
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let (mut options, mut seen) = (Self::default(), Vec::new());
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|meta| {
                let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                if seen.contains(&key) {
                    return Err(meta.error(format!("`{key}` is given twice")));
                }
                options.set(&key, &meta)?;
                seen.push(key);
                Ok(())
            })?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match key {
            "name" => self.name = Some(name_of(meta)?),
            "queue" => self.queue = Some(name_of(meta)?),
            "priority" => self.priority = Some(number(meta, 0..=PRIORITY_MAX)?),
            "max_attempts" => self.max_attempts = Some(number(meta, 1..=ATTEMPTS_MAX_COUNT)?),
            "timeout" => self.timeout = Some(timeout(meta)?),
            "retry" => self.retry = Some(meta.value()?.parse()?),
            "concurrency_key" => self.concurrency_key = Some(text(meta, "\"customer-{id}\"")?),
            "unique" if meta.input.peek(Token![=]) => self.unique = Some(UniqueBy::Key(text(meta, "\"order-{id}\"")?)),
            "unique" => self.unique = Some(UniqueBy::Payload),
            "parent_results" => self.parent_results = true,
            "log_level" => self.log_level = Some(log_level(meta)?),
            "redact" => self.redact = redacted(meta)?,
            "crate" => self.facade = Some(meta.value()?.parse()?),
            _ => return Err(meta.error(format!("unknown option: expected one of {}", KEYS.join(", ")))),
        }
        Ok(())
    }
}

/// Reads `= "text"`.
fn text(meta: &ParseNestedMeta<'_>, example: &str) -> Result<LitStr> {
    let value = meta.value()?;
    value.parse().map_err(|error| Error::new(error.span(), format!("expected a string, such as {example}")))
}

fn name_of(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let literal = text(meta, "\"mail\"")?;
    checked(literal.value(), literal.span(), name::MAX_CHARS)
}

/// A name that is valid; the error is at `span`.
pub(crate) fn checked(name: String, span: Span, max_chars: usize) -> Result<String> {
    match name::problem(&name, max_chars) {
        Some(problem) => Err(Error::new(span, format!("invalid name {name:?}: {problem}"))),
        None => Ok(name),
    }
}

fn number<N>(meta: &ParseNestedMeta<'_>, range: RangeInclusive<N>) -> Result<N>
where
    N: std::str::FromStr<Err: Display> + PartialOrd + Display,
{
    let (min, max) = (range.start(), range.end());
    let expected = |span| Error::new(span, format!("expected a number between {min} and {max}"));
    let literal: LitInt = meta.value()?.parse().map_err(|error: Error| expected(error.span()))?;
    literal.base10_parse::<N>().ok().filter(|number| range.contains(number)).ok_or_else(|| expected(literal.span()))
}

fn timeout(meta: &ParseNestedMeta<'_>) -> Result<Duration> {
    let literal = text(meta, "\"30s\"")?;
    let invalid =
        |problem: &str| Error::new(literal.span(), format!("invalid duration {:?}: {problem}", literal.value()));
    let timeout = duration::parse(&literal.value())
        .ok_or_else(|| invalid("expected a number and a unit, such as 1500ms, 90s, 5m, 1h 30m or 7d"))?;
    if !(duration::TIMEOUT_MIN..=duration::TIMEOUT_MAX).contains(&timeout) {
        return Err(invalid("a timeout must be between 1ms and 7d"));
    }
    Ok(timeout)
}

fn log_level(meta: &ParseNestedMeta<'_>) -> Result<Ident> {
    let literal = text(meta, "\"debug\"")?;
    let level = literal.value();
    if !LOG_LEVELS.contains(&level.as_str()) {
        return Err(Error::new(literal.span(), format!("unknown level: expected one of {}", LOG_LEVELS.join(", "))));
    }
    let (first, rest) = level.split_at(1);
    Ok(Ident::new(&format!("{}{rest}", first.to_uppercase()), literal.span()))
}

/// Reads `("key", "key")`.
fn redacted(meta: &ParseNestedMeta<'_>) -> Result<Vec<String>> {
    let content;
    parenthesized!(content in meta.input);
    let keys = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?;
    keys.iter().map(|key| checked(key.value(), key.span(), name::LABEL_MAX_CHARS)).collect()
}

#[cfg(test)]
mod tests {
    use punctual_core::limits;
    use syn::{DeriveInput, parse_quote};

    use super::*;

    fn refusal(input: &DeriveInput) -> String {
        Options::of(&input.attrs).err().unwrap().to_string()
    }

    #[test]
    fn the_limits_are_those_of_core() {
        assert_eq!((PRIORITY_MAX, ATTEMPTS_MAX_COUNT), (limits::PRIORITY_MAX, limits::ATTEMPTS_MAX_COUNT));
    }

    #[test]
    fn all_options_are_read_from_one_attribute_or_several() {
        let input: DeriveInput = parse_quote! {
            #[job(name = "mail", queue = "bulk", priority = 9, max_attempts = 5, timeout = "1h 30m")]
            #[job(retry = RetryPolicy::fixed(Duration::from_secs(3)), unique, parent_results, log_level = "warn")]
            #[job(concurrency_key = "customer-{id}", redact("token", "card"), crate = other::punctual)]
            struct Mail { id: u32 }
        };
        let options = Options::of(&input.attrs).unwrap();
        assert_eq!((options.name.as_deref(), options.queue.as_deref()), (Some("mail"), Some("bulk")));
        assert_eq!((options.priority, options.max_attempts), (Some(9), Some(5)));
        assert_eq!(options.timeout, Some(Duration::from_secs(5_400)));
        assert!(options.retry.is_some() && options.parent_results && options.facade.is_some());
        assert!(matches!(options.unique, Some(UniqueBy::Payload)));
        assert_eq!(options.log_level.unwrap(), "Warn");
        assert_eq!(options.redact, ["token", "card"]);
        assert_eq!(options.concurrency_key.unwrap().value(), "customer-{id}");
    }

    #[test]
    fn an_invalid_option_is_refused_with_what_is_expected() {
        for (input, expected) in [
            (
                parse_quote!(
                    #[job(qeue = "mail")]
                    struct A;
                ),
                "unknown option: expected one of name, queue, priority",
            ),
            (
                parse_quote!(
                    #[job(queue = "a", queue = "b")]
                    struct A;
                ),
                "`queue` is given twice",
            ),
            (
                parse_quote!(
                    #[job(queue = 5)]
                    struct A;
                ),
                "expected a string, such as \"mail\"",
            ),
            (
                parse_quote!(
                    #[job(name = " a")]
                    struct A;
                ),
                "invalid name \" a\": begins or ends with white space",
            ),
            (
                parse_quote!(
                    #[job(priority = 11)]
                    struct A;
                ),
                "expected a number between 0 and 10",
            ),
            (
                parse_quote!(
                    #[job(priority = "high")]
                    struct A;
                ),
                "expected a number between 0 and 10",
            ),
            (
                parse_quote!(
                    #[job(max_attempts = 0)]
                    struct A;
                ),
                "expected a number between 1 and 1000",
            ),
            (
                parse_quote!(
                    #[job(timeout = "soon")]
                    struct A;
                ),
                "invalid duration \"soon\": expected a number and a unit",
            ),
            (
                parse_quote!(
                    #[job(timeout = "8d")]
                    struct A;
                ),
                "invalid duration \"8d\": a timeout must be between",
            ),
            (
                parse_quote!(
                    #[job(log_level = "loud")]
                    struct A;
                ),
                "unknown level: expected one of debug, info, warn, error",
            ),
            (
                parse_quote!(
                    #[job(redact(""))]
                    struct A;
                ),
                "invalid name \"\": must not be empty",
            ),
        ] {
            let refusal = refusal(&input);
            assert!(refusal.starts_with(expected), "{refusal}");
        }
    }
}
