//! A connection as the shared operations use it.

use std::{
    cell::{Cell, RefCell},
    ops::ControlFlow,
};

use punctual_core::{StoreError, StoreResult};
use sqlx::{
    Decode, PgConnection, Postgres, Row as _, TypeInfo as _, ValueRef as _,
    error::BoxDynError,
    postgres::{PgArguments, PgRow, PgValueRef},
};

use super::{arguments::StatementParams, error::refuse, shared_statements, value::At};
use crate::db::{Db, GoOn, Row, Rows, Statement, Value, corrupt};

/// A statement to execute.
struct StatementCall {
    statement: Statement,
    arguments: PgArguments,
    /// Whether the statement returns rows; otherwise only the number of changed rows.
    reads: bool,
}

struct StatementAnswer {
    statement: Statement,
    rows: Vec<PgRow>,
    changed: usize,
}

/// Runs an operation on a connection.
///
/// The operation executes statements as if that took no time. Where an answer is missing, the operation is ended, the
/// statement is executed, and the operation is run again from the start, now with this answer, too. Given the same
/// answers, it must execute the same statements. It must have few of them.
pub(crate) async fn serve<T>(
    connection: &mut PgConnection,
    operation: impl Fn(&dyn Db) -> StoreResult<T>,
) -> sqlx::Result<T> {
    let mut answers: Vec<StatementAnswer> = Vec::new();
    loop {
        let attempted = attempt(&operation, &answers);
        match attempted {
            ControlFlow::Break(done) => return done.map_err(refuse),
            ControlFlow::Continue(call) => answers.push(call.execute(connection).await?),
        }
    }
}

/// Runs an operation with the answers that are there; returns its result, or the statement whose answer is missing.
fn attempt<T>(
    operation: impl Fn(&dyn Db) -> StoreResult<T>,
    answers: &[StatementAnswer],
) -> ControlFlow<StoreResult<T>, StatementCall> {
    let db = PostgresDb { answers, next: Cell::new(0), missing: RefCell::new(None) };
    let done = operation(&db);
    match db.missing.into_inner() {
        Some(call) => ControlFlow::Continue(call),
        None => ControlFlow::Break(done),
    }
}

impl StatementCall {
    async fn execute(self, connection: &mut PgConnection) -> sqlx::Result<StatementAnswer> {
        let Self { statement, arguments, reads } = self;
        let query = sqlx::query_with(shared_statements::text(statement), arguments);
        let (rows, changed) = if reads {
            (query.fetch_all(connection).await?, 0)
        } else {
            (Vec::new(), query.execute(connection).await?.rows_affected() as usize)
        };
        Ok(StatementAnswer { statement, rows, changed })
    }
}

/// A connection for which statements have been executed.
struct PostgresDb<'a> {
    answers: &'a [StatementAnswer],
    /// The number of statements that the operation has executed.
    next: Cell<usize>,
    /// The first statement that has no answer.
    missing: RefCell<Option<StatementCall>>,
}

impl<'a> PostgresDb<'a> {
    fn call(&self, statement: Statement, params: StatementParams, reads: bool) -> StoreResult<&'a StatementAnswer> {
        let index = self.next.replace(self.next.get() + 1);
        if let Some(answer) = self.answers.get(index) {
            debug_assert_eq!(answer.statement, statement, "run again, an operation executes the same statements");
            return Ok(answer);
        }
        if index == self.answers.len() {
            let arguments = params.into_arguments()?;
            *self.missing.borrow_mut() = Some(StatementCall { statement, arguments, reads });
        }
        // Ends the operation; its result is not used.
        Err(StoreError::Closed)
    }

    fn call_once(&self, statement: Statement, row: &[Value<'_>], reads: bool) -> StoreResult<&'a StatementAnswer> {
        let mut params = StatementParams::new(statement);
        params.add(row)?;
        self.call(statement, params, reads)
    }
}

impl Db for PostgresDb<'_> {
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
        for row in &self.call(statement, params, true)?.rows {
            let index: usize = (row as &dyn Row).get(0)?;
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
        for row in &self.call_once(statement, params, true)?.rows {
            if !each(row)? {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::{Timestamp, TokenId};

    use super::*;
    use crate::{
        db::params,
        ops::{
            edit::{Edit, SingleEdit},
            locks, statements, tokens,
        },
    };

    #[test]
    fn an_operation_is_run_until_a_statement_has_no_answer() {
        let remove = |db: &dyn Db| tokens::remove(Edit { db, now: Timestamp::MIN }, TokenId::from_bits(1));
        let changed = |statement, changed| StatementAnswer { statement, rows: Vec::new(), changed };
        let name = |answers: &[StatementAnswer]| match attempt(remove, answers) {
            ControlFlow::Continue(call) => call.statement.1.to_owned(),
            ControlFlow::Break(done) => format!("{done:?}"),
        };
        let (revoke, sessions) = (statements::REVOKE_TOKEN, statements::REMOVE_SESSIONS);
        assert_eq!(name(&[]), "REVOKE_TOKEN");
        assert_eq!(name(&[changed(revoke, 1)]), "REMOVE_SESSIONS");
        assert_eq!(name(&[changed(revoke, 1), changed(sessions, 0)]), "Ok(true)");
        assert_eq!(name(&[changed(revoke, 0), changed(sessions, 0)]), "Ok(false)");
    }

    /// The first statement of an operation that is given no time.
    fn first_statement(operation: impl Fn(SingleEdit<'_>) -> StoreResult<()>) -> Option<&'static str> {
        match attempt(|db| operation(SingleEdit { db, at: None }), &[]) {
            ControlFlow::Continue(call) => Some(shared_statements::text(call.statement)),
            ControlFlow::Break(_) => None,
        }
    }

    #[test]
    fn an_operation_of_one_statement_does_not_ask_for_the_time_first() {
        let takes_time = |text: Option<&str>| text.is_some_and(|text| text.contains("::timestamptz, now())"));
        let ttl = Duration::from_secs(1);
        assert!(takes_time(first_statement(|edit| locks::lock(edit, "a", "b", ttl).map(drop))));
        assert!(takes_time(first_statement(|edit| tokens::idempotent_request(edit, "a", [0; 32], 1).map(drop))));
        assert!(takes_time(first_statement(tokens::clear)));
    }

    #[test]
    fn a_value_of_another_type_is_an_error() {
        let wrong = |db: &dyn Db| db.execute(statements::UNLOCK, params!["a", "b", "now"]);
        assert!(matches!(attempt(wrong, &[]), ControlFlow::Break(Err(StoreError::Other(_)))));
        let unlock = |db: &dyn Db| locks::unlock(SingleEdit { db, at: None }, "a", "b");
        assert!(matches!(attempt(unlock, &[]), ControlFlow::Continue(_)));
    }
}
