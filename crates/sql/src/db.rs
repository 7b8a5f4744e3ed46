//! A connection within a transaction, as the shared operations see it, whichever engine it is of.

use std::ops::Range;

use punctual_core::{StoreError, StoreResult};

/// A statement, by its place in the list of all, and by its name. Each engine has a text for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statement(pub(crate) usize, pub(crate) &'static str);

/// A value, on its way to a statement or from a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A row.
pub(crate) trait Row {
    /// What a column has.
    fn value(&self, column: usize) -> StoreResult<Value<'_>>;
}

impl dyn Row + '_ {
    /// What a column has, as this type.
    pub(crate) fn get<'r, T: FromValue<'r>>(&'r self, column: usize) -> StoreResult<T> {
        T::from_value(self.value(column)?)
            .ok_or_else(|| corrupt(format!("column {column} has another type than it should have")))
    }
}

/// Whether to go on with the next row.
pub(crate) type GoOn = bool;

/// Rows of values for a statement: calls what it is given with one after the other.
pub(crate) type Rows<'r> = &'r mut dyn FnMut(&mut dyn FnMut(&[Value<'_>]) -> StoreResult<()>) -> StoreResult<()>;

/// A connection within a transaction.
pub(crate) trait Db {
    /// Runs a statement; says how many rows it changed.
    fn execute(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<usize>;

    /// Runs a statement of which nobody needs to know how many rows it changed. An engine may do so later, for many at
    /// once, but before whatever is to see it.
    fn write(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<()> {
        self.execute(statement, params).map(drop)
    }

    /// Runs a statement for each of these; says how many rows were changed in all.
    fn execute_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<usize> {
        let mut changed = 0;
        rows(&mut |params| {
            changed += self.execute(statement, params)?;
            Ok(())
        })?;
        Ok(changed)
    }

    /// Runs a statement that stores a row, if it is not there, for each of these, of which none is another; returns the
    /// numbers that they got.
    fn insert_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<Vec<Option<i64>>>;

    /// Reads rows, one after the other, for as long as they are wanted.
    fn read(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>,
    ) -> StoreResult<()>;

    /// Reads for each of these, in any order; each row comes with the place of what it is for.
    fn read_each(
        &self,
        statement: Statement,
        rows: Rows<'_>,
        each: &mut dyn FnMut(usize, &dyn Row) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let mut places = 0..;
        rows(&mut |params| {
            let place = places.next().unwrap_or_default();
            self.read(statement, params, &mut |row| each(place, row).map(|()| true))
        })
    }

    /// Numbers for events, which no other gets; at least so many.
    fn event_numbers(&self, count: usize) -> StoreResult<Vec<Range<i64>>>;

    /// Whether nobody ever writes beside this.
    fn is_only_writer(&self) -> bool {
        true
    }

    /// From here on nobody else writes until the end of the transaction. Fails where that means to begin anew.
    fn be_alone(&self) -> StoreResult<()> {
        Ok(())
    }
}

impl dyn Db + '_ {
    /// All rows.
    pub(crate) fn all<T>(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        mut of: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let mut all = Vec::new();
        self.read(statement, params, &mut |row| {
            all.push(of(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    /// The first row, if there is one.
    pub(crate) fn one<T>(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        mut of: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        let mut one = None;
        self.read(statement, params, &mut |row| {
            one = Some(of(row)?);
            Ok(false)
        })?;
        Ok(one)
    }

    /// The row that is there in any case.
    pub(crate) fn only<T>(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        of: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.one(statement, params, of)?.ok_or_else(|| missing(statement))
    }

    /// The rows for each of these, in their order, each with the place of what it is for.
    pub(crate) fn all_each<T>(
        &self,
        statement: Statement,
        rows: Rows<'_>,
        mut of: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<(usize, T)>> {
        let mut found = Vec::new();
        self.read_each(statement, rows, &mut |place, row| {
            found.push((place, of(row)?));
            Ok(())
        })?;
        found.sort_by_key(|(place, _)| *place);
        Ok(found)
    }

    /// For each of these the row that is there in any case, in their order.
    pub(crate) fn only_each<T>(
        &self,
        statement: Statement,
        rows: Rows<'_>,
        of: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let mut count = 0;
        let mut counted = |row: &mut dyn FnMut(&[Value<'_>]) -> StoreResult<()>| {
            rows(&mut |params| {
                count += 1;
                row(params)
            })
        };
        let found = self.all_each(statement, &mut counted, of)?;
        if found.len() == count { Ok(found.into_iter().map(|(_, row)| row).collect()) } else { Err(missing(statement)) }
    }

    /// Runs a statement for as many rows as there must be. If somebody has taken some of them meanwhile, the operation
    /// is to begin anew.
    pub(crate) fn take_each(&self, statement: Statement, count: usize, rows: Rows<'_>) -> StoreResult<()> {
        if self.execute_each(statement, rows)? == count { Ok(()) } else { Err(StoreError::Busy { waited_ms: 0 }) }
    }
}

fn missing(Statement(_, name): Statement) -> StoreError {
    corrupt(format!("`{name}` found no row where one should be"))
}

/// A row that holds what was not written by an operation.
pub(crate) fn corrupt(reason: String) -> StoreError {
    StoreError::CorruptRow { row: "of an unknown id".to_owned(), reason }
}

/// Values for a statement, in its order.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::db::ToValue::to_value(&$value)),*]
    };
}
pub(crate) use params;

/// What a statement can be given.
pub(crate) trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl ToValue for $number {
            fn to_value(&self) -> Value<'_> {
                Value::Int(*self as i64)
            }
        }

        impl FromValue<'_> for $number {
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value {
                    Value::Int(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        })*
    };
}

numbers! { i64 u64 i32 u32 u16 u8 usize }

impl ToValue for bool {
    fn to_value(&self) -> Value<'_> {
        Value::Int(i64::from(*self))
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

/// What a column can be read as.
pub(crate) trait FromValue<'r>: Sized {
    /// Nothing if it is something else.
    fn from_value(value: Value<'r>) -> Option<Self>;
}

impl FromValue<'_> for bool {
    fn from_value(value: Value<'_>) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl<'r> FromValue<'r> for &'r str {
    fn from_value(value: Value<'r>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl FromValue<'_> for String {
    fn from_value(value: Value<'_>) -> Option<Self> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl FromValue<'_> for Box<str> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        <&str>::from_value(value).map(Into::into)
    }
}

impl<const N: usize> FromValue<'_> for [u8; N] {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => bytes.try_into().ok(),
            _ => None,
        }
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    fn from_value(value: Value<'r>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}
