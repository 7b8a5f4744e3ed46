//! A connection to a file, as used by the shared operations.

use std::{cell::RefCell, ops::Range};

use punctual_core::StoreResult;
use rusqlite::{
    CachedStatement, Connection, ToSql,
    types::{ToSqlOutput, ValueRef},
};

use super::{error::store_error, statements};
use crate::{
    db::{Db, GoOn, JobDb, Row, Rows, Statement, Value},
    ops::statements::NEXT_EVENT,
};

/// A connection within a transaction.
pub(crate) struct SqliteDb<'c> {
    connection: &'c Connection,
    /// Prepared statements by index; rusqlite's own cache would compare their whole texts.
    prepared: RefCell<Vec<Option<CachedStatement<'c>>>>,
}

impl<'c> SqliteDb<'c> {
    pub(crate) const fn new(connection: &'c Connection) -> Self {
        Self { connection, prepared: RefCell::new(Vec::new()) }
    }

    /// Binds these values to a statement and runs `work` with it.
    fn with<T>(
        &self,
        Statement(index, _): Statement,
        params: &[Value<'_>],
        work: impl FnOnce(&mut CachedStatement<'c>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        // Removed from the list meanwhile: a callback for a row may use the same statement.
        let kept = self.prepared.borrow_mut().get_mut(index).and_then(Option::take);
        let prepare = || self.connection.prepare_cached(statements::ALL[index].1);
        let mut statement = kept.map_or_else(prepare, Ok).map_err(store_error)?;
        for (index, value) in params.iter().enumerate() {
            statement.raw_bind_parameter(index + 1, value).map_err(store_error)?;
        }
        let done = work(&mut statement);
        let mut prepared = self.prepared.borrow_mut();
        if prepared.is_empty() {
            prepared.resize_with(statements::ALL.len(), || None);
        }
        prepared[index] = Some(statement);
        done
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Row for rusqlite::Row<'_> {
    fn value(&self, column: usize) -> StoreResult<Value<'_>> {
        let value = self.get_ref(column).map_err(store_error)?;
        Ok(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Text(_) => Value::Text(value.as_str().map_err(|error| store_error(error.into()))?),
            ValueRef::Blob(bytes) => Value::Bytes(bytes),
            // No table has floating-point values.
            ValueRef::Real(_) => Value::Null,
        })
    }
}

impl Db for SqliteDb<'_> {
    fn execute(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<usize> {
        self.with(statement, params, |statement| statement.raw_execute().map_err(store_error))
    }

    fn read(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>,
    ) -> StoreResult<()> {
        self.with(statement, params, |statement| {
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(store_error)? {
                if !each(row)? {
                    break;
                }
            }
            Ok(())
        })
    }
}

impl JobDb for SqliteDb<'_> {
    fn insert_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<Vec<Option<i64>>> {
        let mut numbers = Vec::new();
        rows(&mut |row| {
            numbers.push((self.execute(statement, row)? > 0).then(|| self.connection.last_insert_rowid()));
            Ok(())
        })?;
        Ok(numbers)
    }

    /// All numbers from the next one on, because there is only one writer.
    fn event_numbers(&self, _: usize) -> StoreResult<Vec<Range<i64>>> {
        let next = (self as &dyn Db).only(NEXT_EVENT, &[], |row| row.get(0))?;
        Ok(std::iter::once(next..i64::MAX).collect())
    }
}
