//! A connection as the shared operations use it.
//!
//! An operation runs on a blocking thread and sends its statements to the task that owns the connection.

use punctual_core::{StoreError, StoreResult};
use sqlx::{
    Decode, PgConnection, Postgres, Row as _, TypeInfo as _, ValueRef as _,
    error::BoxDynError,
    postgres::{PgArguments, PgRow, PgValueRef},
};
use tokio::{
    sync::{mpsc, oneshot},
    task,
};

use super::{arguments::StatementParams, error::refuse, shared_statements, value::At};
use crate::db::{Db, GoOn, Row, Rows, Statement, Value, corrupt};

/// A statement to execute.
struct StatementCall {
    text: &'static str,
    arguments: PgArguments,
    /// Whether the statement returns rows; otherwise only the number of changed rows.
    reads: bool,
    caller: oneshot::Sender<StatementAnswer>,
}

#[derive(Default)]
struct StatementAnswer {
    rows: Vec<PgRow>,
    changed: usize,
}

/// Runs an operation on a connection. If one of its statements fails, it cannot execute another one, and the result is
/// the error of that statement.
pub(crate) async fn serve<F, T>(connection: &mut PgConnection, operation: F) -> sqlx::Result<T>
where
    F: FnOnce(&dyn Db) -> StoreResult<T> + Send + 'static,
    T: Send + 'static,
{
    let (calls, mut received) = mpsc::unbounded_channel::<StatementCall>();
    let done = task::spawn_blocking(move || operation(&PostgresDb { calls }));
    let mut failed = None;
    while let Some(call) = received.recv().await {
        if let Err(error) = call.execute(connection).await {
            failed = Some(error);
            break;
        }
    }
    // An operation that waits for an answer would wait forever.
    drop(received);
    let done = done.await.map_err(|_| sqlx::Error::WorkerCrashed)?;
    match failed {
        Some(error) => Err(error),
        None => done.map_err(refuse),
    }
}

impl StatementCall {
    async fn execute(self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let query = sqlx::query_with(self.text, self.arguments);
        let answer = if self.reads {
            StatementAnswer { rows: query.fetch_all(connection).await?, ..StatementAnswer::default() }
        } else {
            let changed = query.execute(connection).await?.rows_affected() as usize;
            StatementAnswer { changed, ..StatementAnswer::default() }
        };
        // The calling thread waits for the answer.
        drop(self.caller.send(answer));
        Ok(())
    }
}

/// A connection, by way of the task that owns it.
struct PostgresDb {
    calls: mpsc::UnboundedSender<StatementCall>,
}

impl PostgresDb {
    fn call(&self, statement: Statement, params: StatementParams, reads: bool) -> StoreResult<StatementAnswer> {
        let (caller, answer) = oneshot::channel();
        let (text, arguments) = (shared_statements::text(statement), params.into_arguments()?);
        self.calls.send(StatementCall { text, arguments, reads, caller }).map_err(|_| StoreError::Closed)?;
        answer.blocking_recv().map_err(|_| StoreError::Closed)
    }

    fn call_once(&self, statement: Statement, row: &[Value<'_>], reads: bool) -> StoreResult<StatementAnswer> {
        let mut params = StatementParams::new(statement);
        params.add(row)?;
        self.call(statement, params, reads)
    }
}

impl Db for PostgresDb {
    fn execute(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<usize> {
        Ok(self.call_once(statement, params, false)?.changed)
    }

    /// Sends all rows at once: the statement takes arrays, and returns the indexes of the rows that changed one.
    fn changed_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<Vec<bool>> {
        let (mut params, mut changed) = (StatementParams::new(statement), Vec::new());
        rows(&mut |row| {
            changed.push(false);
            params.add(row)
        })?;
        for row in self.call(statement, params, true)?.rows {
            let index: usize = (&row as &dyn Row).get(0)?;
            *changed.get_mut(index).ok_or_else(|| corrupt(format!("row {index} was not sent")))? = true;
        }
        Ok(changed)
    }

    fn read(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>,
    ) -> StoreResult<()> {
        for row in self.call_once(statement, params, true)?.rows {
            if !each(&row)? {
                break;
            }
        }
        Ok(())
    }

    fn is_only_writer(&self) -> bool {
        false
    }
}

impl Row for PgRow {
    fn value(&self, column: usize) -> StoreResult<Value<'_>> {
        let value = self.try_get_raw(column).map_err(BoxDynError::from).and_then(value_of);
        value.map_err(|error| corrupt(format!("column {column} cannot be read: {error}")))
    }
}

/// Converts a value from the driver's types.
fn value_of(raw: PgValueRef<'_>) -> Result<Value<'_>, BoxDynError> {
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let type_info = raw.type_info().into_owned();
    Ok(match type_info.name() {
        "BOOL" => Value::Int(<bool as Decode<Postgres>>::decode(raw)?.into()),
        "INT8" => Value::Int(<i64 as Decode<Postgres>>::decode(raw)?),
        "TIMESTAMPTZ" => Value::Int(<At as Decode<Postgres>>::decode(raw)?.0.as_micros()),
        "TEXT" => Value::Text(raw.as_str()?),
        "UUID" | "BYTEA" => Value::Bytes(raw.as_bytes()?),
        other => return Err(format!("no shared statement returns values of type {other}").into()),
    })
}
