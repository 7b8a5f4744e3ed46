//! A connection within a transaction, as the shared operations of all engines use it.

use std::ops::Range;

use punctual_core::{StoreError, StoreResult};

/// A statement: its index in the list of all statements, and its name. Each engine has its own SQL text for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statement(pub(crate) usize, pub(crate) &'static str);

/// A statement parameter or a column value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A result row.
pub(crate) trait Row {
    /// The value of a column.
    fn value(&self, column: usize) -> StoreResult<Value<'_>>;
}

impl dyn Row + '_ {
    /// The value of a column, converted to this type.
    pub(crate) fn get<'r, T: FromValue<'r>>(&'r self, column: usize) -> StoreResult<T> {
        T::from_value(self.value(column)?)
            .ok_or_else(|| corrupt(format!("column {column} has another type than it should have")))
    }
}

/// Whether to continue with the next row.
pub(crate) type GoOn = bool;

/// Parameter rows for a statement: the function calls its argument once for each row.
pub(crate) type Rows<'r> = &'r mut dyn FnMut(&mut dyn FnMut(&[Value<'_>]) -> StoreResult<()>) -> StoreResult<()>;

/// A connection within a transaction.
pub(crate) trait Db {
    /// Executes a statement; returns the number of rows changed.
    fn execute(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<usize>;

    /// Executes a statement without reporting the number of changed rows. An engine may delay it to execute many such
    /// statements as a batch, but executes it before any statement that must see its effect.
    fn write(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<()> {
        self.execute(statement, params).map(drop)
    }

    /// Executes a statement for each parameter row; returns the total number of rows changed.
    fn execute_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<usize> {
        let mut changed = 0;
        rows(&mut |params| {
            changed += self.execute(statement, params)?;
            Ok(())
        })?;
        Ok(changed)
    }

    /// Executes a statement for each parameter row; returns for each whether it changed a row.
    fn changed_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<Vec<bool>> {
        let mut changed = Vec::new();
        rows(&mut |params| {
            changed.push(self.execute(statement, params)? > 0);
            Ok(())
        })?;
        Ok(changed)
    }

    /// Reads rows one by one until the callback returns false.
    fn read(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>,
    ) -> StoreResult<()>;

    /// Reads rows for each parameter row, in any order; each result row is passed with the index of its parameter row.
    fn read_each(
        &self,
        statement: Statement,
        rows: Rows<'_>,
        each: &mut dyn FnMut(usize, &dyn Row) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let mut indexes = 0..;
        rows(&mut |params| {
            let index = indexes.next().unwrap_or_default();
            self.read(statement, params, &mut |row| each(index, row).map(|()| true))
        })
    }

    /// Whether this connection is the only writer of the database.
    fn is_only_writer(&self) -> bool {
        true
    }
}

/// A connection within a transaction of an engine whose jobs, too, are stored by the shared operations.
pub(crate) trait JobDb: Db {
    /// Executes, for each parameter row, a statement that inserts a row unless it exists. The rows must be distinct.
    /// Returns the generated numbers.
    fn insert_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<Vec<Option<i64>>>;

    /// Reserves at least this many event numbers, which are given to no other transaction.
    fn event_numbers(&self, count: usize) -> StoreResult<Vec<Range<i64>>>;

    /// Blocks other writers until the end of the transaction. Fails if the transaction must be restarted for that.
    fn be_alone(&self) -> StoreResult<()> {
        Ok(())
    }
}

impl dyn Db + '_ {
    /// Reads all rows.
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

    /// Reads the first row, if any.
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

    /// Reads a row that must exist.
    pub(crate) fn only<T>(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        of: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.one(statement, params, of)?.ok_or_else(|| missing(statement))
    }

    /// Reads the rows for each parameter row, in the order of the parameter rows, each with the index of its parameter
    /// row.
    pub(crate) fn all_each<T>(
        &self,
        statement: Statement,
        rows: Rows<'_>,
        mut of: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<(usize, T)>> {
        let mut found = Vec::new();
        self.read_each(statement, rows, &mut |index, row| {
            found.push((index, of(row)?));
            Ok(())
        })?;
        found.sort_by_key(|(index, _)| *index);
        Ok(found)
    }

    /// Reads, for each parameter row, the row that must exist, in the order of the parameter rows.
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

    /// Executes a statement that must change exactly `count` rows. If another transaction has taken some of them
    /// meanwhile, returns `Busy`: the operation must be restarted.
    pub(crate) fn take_each(&self, statement: Statement, count: usize, rows: Rows<'_>) -> StoreResult<()> {
        if self.execute_each(statement, rows)? == count { Ok(()) } else { Err(StoreError::Busy { waited_ms: 0 }) }
    }
}

fn missing(Statement(_, name): Statement) -> StoreError {
    corrupt(format!("`{name}` found no row where one should be"))
}

/// The error for a row whose content no operation can have written.
pub(crate) fn corrupt(reason: String) -> StoreError {
    StoreError::CorruptRow { row: "of an unknown id".to_owned(), reason }
}

/// Parameters for a statement, in its order.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::db::ToValue::to_value(&$value)),*]
    };
}
pub(crate) use params;

/// A type that can be a statement parameter.
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

/// A type that a column value can be converted to.
pub(crate) trait FromValue<'r>: Sized {
    /// `None` if the value has another type.
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

impl FromValue<'_> for Vec<u8> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
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
