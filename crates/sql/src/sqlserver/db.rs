//! A connection to a server, as the shared operations see it.

use std::{borrow::Cow, cell::RefCell};

use punctual_core::{StoreError, StoreResult};
use tiberius::{ColumnData, ToSql};
use tokio::runtime::Handle;

use super::{error::store_error, session::Client, statements};
use crate::db::{Db, GoOn, Row, Statement, Value};

/// A connection within a transaction, on a thread where waiting is allowed.
pub(crate) struct ServerDb<'c> {
    client: RefCell<&'c mut Client>,
    runtime: &'c Handle,
    /// Where the server is, for errors.
    store: &'c str,
}

impl<'c> ServerDb<'c> {
    pub(crate) const fn new(client: &'c mut Client, runtime: &'c Handle, store: &'c str) -> Self {
        Self { client: RefCell::new(client), runtime, store }
    }

    fn rows(&self, Statement(place): Statement, params: &[Value<'_>]) -> StoreResult<Vec<tiberius::Row>> {
        let params: Vec<&dyn ToSql> = params.iter().map(|value| value as &dyn ToSql).collect();
        let mut client = self.client.borrow_mut();
        let read = async { client.query(statements::ALL[place].1, &params).await?.into_results().await };
        // One that stores a row if there is none may answer in the second part.
        self.runtime
            .block_on(read)
            .map(|results| results.into_iter().flatten().collect())
            .map_err(|error| store_error(self.store, &error))
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> ColumnData<'_> {
        match self {
            // The server makes every other type of this one.
            Value::Null => ColumnData::I32(None),
            Value::Int(number) => ColumnData::I64(Some(*number)),
            Value::Text(text) => ColumnData::String(Some(Cow::Borrowed(text))),
            Value::Bytes(bytes) => ColumnData::Binary(Some(Cow::Borrowed(bytes))),
        }
    }
}

impl Row for tiberius::Row {
    fn value(&self, column: usize) -> StoreResult<Value<'_>> {
        let broken = |error: tiberius::error::Error| StoreError::Other(error.to_string());
        let int = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
        Ok(match self.get_column_data(column).map_err(broken)? {
            ColumnData::U8(number) => int(number.map(i64::from)),
            ColumnData::I16(number) => int(number.map(i64::from)),
            ColumnData::I32(number) => int(number.map(i64::from)),
            ColumnData::I64(number) => int(*number),
            ColumnData::Bit(bit) => int(bit.map(i64::from)),
            ColumnData::Numeric(number) => int(number.map(|number| number.int_part() as i64)),
            ColumnData::String(text) => text.as_deref().map_or(Value::Null, Value::Text),
            ColumnData::Binary(bytes) => bytes.as_deref().map_or(Value::Null, Value::Bytes),
            other => {
                return Err(StoreError::Other(format!("a column has a type that Punctual does not use: {other:?}")));
            }
        })
    }
}

impl Db for ServerDb<'_> {
    fn execute(&self, Statement(place): Statement, params: &[Value<'_>]) -> StoreResult<usize> {
        let params: Vec<&dyn ToSql> = params.iter().map(|value| value as &dyn ToSql).collect();
        let mut client = self.client.borrow_mut();
        let done = self.runtime.block_on(client.execute(statements::ALL[place].1, &params));
        done.map(|done| done.total() as usize).map_err(|error| store_error(self.store, &error))
    }

    fn insert(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<Option<i64>> {
        self.rows(statement, params)?.first().map(|row| (row as &dyn Row).get(0)).transpose()
    }

    fn read(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>,
    ) -> StoreResult<()> {
        for row in self.rows(statement, params)? {
            if !each(&row)? {
                break;
            }
        }
        Ok(())
    }
}
