//! The statements of the shared operations, which are sent as their files show them, and the types of their parameters.
//!
//! A text names the type of a parameter where it uses it first: `$1::text`. An array takes the values of many rows.

use std::sync::LazyLock;

use crate::{db::Statement, ops::statements::shared_statements, sections::texts};

shared_statements!(texts);

/// The type of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamType {
    Bool,
    Int8,
    Text,
    Bytea,
    /// From the microseconds since 1970.
    Timestamptz,
    /// From the 16 bytes of an id.
    Uuid,
}

/// A parameter of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) of: ParamType,
    /// Whether it is an array with the values of many rows.
    pub(crate) is_array: bool,
}

static PARAMS: LazyLock<Vec<Vec<Param>>> = LazyLock::new(|| ALL.iter().map(|(_, text)| params_of(text)).collect());

/// The text of a statement.
pub(crate) fn text(Statement(index, _): Statement) -> &'static str {
    ALL[index].1
}

/// The parameters of a statement.
pub(crate) fn params(Statement(index, _): Statement) -> &'static [Param] {
    &PARAMS[index]
}

fn params_of(text: &str) -> Vec<Param> {
    (1..).map_while(|number| param(text, number)).collect()
}

fn param(text: &str, number: usize) -> Option<Param> {
    let (_, typed) = text.split_once(format!("${number}::").as_str())?;
    let end = typed.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(typed.len());
    let (name, rest) = typed.split_at(end);
    let of = match name {
        "bool" => ParamType::Bool,
        "int8" => ParamType::Int8,
        "text" => ParamType::Text,
        "bytea" => ParamType::Bytea,
        "timestamptz" => ParamType::Timestamptz,
        "uuid" => ParamType::Uuid,
        _ => return None,
    };
    Some(Param { of, is_array: rest.starts_with("[]") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_parameters_are_those_that_the_text_names() {
        let of = |of, is_array| Param { of, is_array };
        let text = "select $2::uuid, $1::text[] where $3::int8 < $1::text[] and $2";
        assert_eq!(
            params_of(text),
            [of(ParamType::Text, true), of(ParamType::Uuid, false), of(ParamType::Int8, false)]
        );
        assert!(params_of("select 1").is_empty());
    }

    /// The highest number of a parameter.
    fn highest(text: &str, mark: char) -> usize {
        let numbers = text.split(mark).skip(1).filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().ok()
        });
        numbers.max().unwrap_or_default()
    }

    #[test]
    fn every_parameter_has_a_type() {
        for (name, text) in ALL {
            assert_eq!(params_of(text).len(), highest(text, '$'), "{name}");
        }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn no_statement_takes_more_values_than_operations_give_it() {
        for ((name, text), (same, theirs)) in ALL.iter().zip(crate::sqlite::texts()) {
            assert_eq!(name, same);
            assert!(highest(text, '$') <= highest(theirs, '?'), "{name}");
        }
    }
}
