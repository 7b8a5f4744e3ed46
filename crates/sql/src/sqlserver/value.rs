//! Conversion of values to and from the driver's types.

use std::borrow::Cow;

use punctual_core::{StoreError, StoreResult};
use tiberius::{ColumnData, ToSql};

use crate::db::{Row, Value};

/// A value that can be sent to another thread.
#[derive(Debug, Clone)]
pub(crate) struct Owned(ColumnData<'static>);

impl From<&Value<'_>> for Owned {
    fn from(value: &Value<'_>) -> Self {
        Self(match value {
            // The server converts an integer null to every other type.
            Value::Null => ColumnData::I32(None),
            Value::Int(number) => ColumnData::I64(Some(*number)),
            Value::Text(text) => ColumnData::String(Some(Cow::Owned((*text).to_owned()))),
            Value::Bytes(bytes) => ColumnData::Binary(Some(Cow::Owned(bytes.to_vec()))),
        })
    }
}

impl From<String> for Owned {
    fn from(text: String) -> Self {
        Self(ColumnData::String(Some(Cow::Owned(text))))
    }
}

impl ToSql for Owned {
    fn to_sql(&self) -> ColumnData<'_> {
        self.0.clone()
    }
}

impl Row for tiberius::Row {
    fn value(&self, column: usize) -> StoreResult<Value<'_>> {
        let data = self.get_column_data(column).map_err(|error| StoreError::Other(error.to_string()))?;
        value_of(data)
    }
}

/// Converts a value from the driver's types.
fn value_of<'v>(data: &'v ColumnData<'_>) -> StoreResult<Value<'v>> {
    let int = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
    Ok(match data {
        ColumnData::U8(number) => int(number.map(i64::from)),
        ColumnData::I16(number) => int(number.map(i64::from)),
        ColumnData::I32(number) => int(number.map(i64::from)),
        ColumnData::I64(number) => int(*number),
        ColumnData::Bit(bit) => int(bit.map(i64::from)),
        // Sums of large numbers.
        ColumnData::Numeric(number) => int(number.map(|number| number.int_part() as i64)),
        ColumnData::String(text) => text.as_deref().map_or(Value::Null, Value::Text),
        ColumnData::Binary(bytes) => bytes.as_deref().map_or(Value::Null, Value::Bytes),
        other => return Err(StoreError::Other(format!("a column has a type that Punctual does not use: {other:?}"))),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tiberius::numeric::Numeric;

    use super::*;

    #[test]
    fn every_value_survives_the_drivers_types() {
        let bytes: [u8; 16] = std::array::from_fn(|index| index as u8);
        let (long, empty) = ("ö \u{1F600} \" \\ \u{1}".repeat(5_000), [0; 0]);
        let values = [
            Value::Null,
            Value::Int(0),
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
            Value::Text(""),
            Value::Text(&long),
            Value::Bytes(&bytes),
            Value::Bytes(&empty),
        ];
        for value in values {
            let owned = Owned::from(&value);
            assert_eq!(value_of(&owned.to_sql()).unwrap(), value);
        }
    }

    #[test]
    fn every_type_of_a_column_is_read() {
        let text = Cow::Borrowed("word");
        let cases = [
            (ColumnData::U8(Some(255)), Value::Int(255)),
            (ColumnData::I16(Some(-7)), Value::Int(-7)),
            (ColumnData::I32(Some(i32::MIN)), Value::Int(i64::from(i32::MIN))),
            (ColumnData::I64(Some(i64::MAX)), Value::Int(i64::MAX)),
            (ColumnData::Bit(Some(true)), Value::Int(1)),
            (ColumnData::Bit(Some(false)), Value::Int(0)),
            (ColumnData::Numeric(Some(Numeric::new_with_scale(-12, 0))), Value::Int(-12)),
            (ColumnData::String(Some(text)), Value::Text("word")),
            (ColumnData::Binary(Some(Cow::Borrowed(&[1, 2]))), Value::Bytes(&[1, 2])),
        ];
        for (data, expected) in cases {
            assert_eq!(value_of(&data).unwrap(), expected);
        }
        let nothing = [
            ColumnData::U8(None),
            ColumnData::I16(None),
            ColumnData::I32(None),
            ColumnData::I64(None),
            ColumnData::Bit(None),
            ColumnData::Numeric(None),
            ColumnData::String(None),
            ColumnData::Binary(None),
        ];
        for data in nothing {
            assert_eq!(value_of(&data).unwrap(), Value::Null);
        }
        assert!(value_of(&ColumnData::F64(Some(1.5))).is_err());
    }
}
