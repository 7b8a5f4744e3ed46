//! A connection to a server, as the shared operations see it.
//!
//! Operations run on a thread where waiting is allowed, and ask whoever has the connection. What they write waits until something is read, or until
//! the end, so that rows for the same statement go as one document.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::Range,
};

use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::{StoreError, StoreResult};
use tiberius::{ColumnData, ToSql};
use tokio::{
    sync::{mpsc, oneshot},
    task,
};

use super::{
    error::{broken_off, store_error},
    later::{Later, Lines},
    session::Locking,
    statements,
};
use crate::db::{Db, GoOn, Row, Rows, Statement, Value};

/// Something to do on the connection.
struct Request {
    text: &'static str,
    params: Vec<Owned>,
    /// Whether rows come back; else only how many were changed.
    reads: bool,
    answer: oneshot::Sender<StoreResult<Answer>>,
}

#[derive(Default)]
struct Answer {
    rows: Vec<tiberius::Row>,
    changed: usize,
}

/// A value on its way to another thread.
#[derive(Debug, Clone)]
pub(crate) struct Owned(ColumnData<'static>);

impl From<&Value<'_>> for Owned {
    fn from(value: &Value<'_>) -> Self {
        Self(match value {
            // The server makes every other type of this one.
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

/// A value of the driver's types.
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

/// Lets `work` use a connection from a thread where waiting is allowed.
pub(crate) async fn serve<S, F, T>(client: &mut tiberius::Client<S>, store: &str, work: F) -> StoreResult<T>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    F: FnOnce(Link) -> StoreResult<T> + Send + 'static,
    T: Send + 'static,
{
    let (requests, mut asked) = mpsc::unbounded_channel();
    let done = task::spawn_blocking(move || work(Link { requests }));
    while let Some(Request { text, params, reads, answer }) = asked.recv().await {
        let params: Vec<&dyn ToSql> = params.iter().map(|value| value as &dyn ToSql).collect();
        let answered = async {
            if reads {
                // One that stores a row if there is none may answer in the second part.
                let results = client.query(text, &params).await?.into_results().await?;
                return Ok(Answer { rows: results.into_iter().flatten().collect(), changed: 0 });
            }
            let changed = client.execute(text, &params).await?.total() as usize;
            Ok(Answer { rows: Vec::new(), changed })
        };
        // Whoever asked waits for it.
        drop(answer.send(answered.await.map_err(|error| store_error(store, &error))));
    }
    done.await.map_err(|error| broken_off(&error))?
}

/// The way to the connection.
pub(crate) struct Link {
    requests: mpsc::UnboundedSender<Request>,
}

impl Link {
    fn ask(&self, text: &'static str, params: Vec<Owned>, reads: bool) -> StoreResult<Answer> {
        tracing::trace!(text = text.lines().next(), "asks");
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request { text, params, reads, answer }).map_err(|_| StoreError::Closed)?;
        answered.blocking_recv().map_err(|_| StoreError::Closed)?
    }
}

/// A connection within a transaction.
pub(crate) struct ServerDb {
    link: Link,
    locking: Cell<Locking>,
    later: RefCell<Later>,
}

impl ServerDb {
    pub(crate) fn new(link: Link, locking: Locking) -> Self {
        Self { link, locking: Cell::new(locking), later: RefCell::default() }
    }

    /// Does what was put off.
    pub(crate) fn flush(&self) -> StoreResult<()> {
        let later = std::mem::take(&mut *self.later.borrow_mut());
        for (statement, params) in later.into_requests() {
            self.link.ask(statements::text(statement), params, false)?;
        }
        Ok(())
    }

    fn ask(&self, statement: Statement, params: &[Value<'_>], reads: bool) -> StoreResult<Answer> {
        self.flush()?;
        let params = if statements::takes_lines(statement) {
            vec![Owned::from(Lines::of(params).into_document())]
        } else {
            params.iter().map(Owned::from).collect()
        };
        self.link.ask(statements::text(statement), params, reads)
    }

    /// Asks for rows for all of these; each has the place of what it is for behind its own columns.
    fn ask_each(&self, statement: Statement, lines: Lines) -> StoreResult<Vec<tiberius::Row>> {
        self.flush()?;
        let mut rows = Vec::new();
        for document in lines.into_documents() {
            rows.extend(self.link.ask(statements::text(statement), vec![Owned::from(document)], true)?.rows);
        }
        Ok(rows)
    }
}

impl Db for ServerDb {
    fn execute(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<usize> {
        Ok(self.ask(statement, params, false)?.changed)
    }

    fn write(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<()> {
        self.later.borrow_mut().add(statement, params);
        Ok(())
    }

    fn execute_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<usize> {
        self.flush()?;
        let mut changed = 0;
        for document in Lines::all(rows)?.into_documents() {
            changed += self.link.ask(statements::text(statement), vec![Owned::from(document)], false)?.changed;
        }
        Ok(changed)
    }

    fn insert_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<Vec<Option<i64>>> {
        let (mut lines, mut ids) = (Lines::default(), Vec::new());
        rows(&mut |params| {
            let id: [u8; 16] = match params.first() {
                Some(Value::Bytes(bytes)) => (*bytes).try_into().unwrap_or_default(),
                _ => Default::default(),
            };
            lines.add(params);
            ids.push(id);
            Ok(())
        })?;
        let mut stored = HashMap::new();
        for row in self.ask_each(statement, lines)? {
            let row: &dyn Row = &row;
            stored.insert(row.get::<[u8; 16]>(0)?, row.get::<i64>(1)?);
        }
        Ok(ids.iter().map(|id| stored.remove(id)).collect())
    }

    fn read(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>,
    ) -> StoreResult<()> {
        for row in self.ask(statement, params, true)?.rows {
            if !each(&row)? {
                break;
            }
        }
        Ok(())
    }

    fn read_each(
        &self,
        statement: Statement,
        rows: Rows<'_>,
        each: &mut dyn FnMut(usize, &dyn Row) -> StoreResult<()>,
    ) -> StoreResult<()> {
        for row in self.ask_each(statement, Lines::all(rows)?)? {
            let place = (&row as &dyn Row).get(row.len() - 1)?;
            each(place, &row)?;
        }
        Ok(())
    }

    fn event_numbers(&self, count: usize) -> StoreResult<Vec<Range<i64>>> {
        let document = format!("[{}]", vec!["0"; count].join(","));
        let rows = self.link.ask(statements::own::NUMBER_EVENTS, vec![Owned::from(document)], true)?.rows;
        let mut ranges: Vec<Range<i64>> = Vec::new();
        for row in &rows {
            let number: i64 = (row as &dyn Row).get(0)?;
            match ranges.last_mut() {
                Some(range) if range.end == number => range.end += 1,
                _ => ranges.push(number..number + 1),
            }
        }
        Ok(ranges)
    }

    fn is_only_writer(&self) -> bool {
        false
    }

    fn be_alone(&self) -> StoreResult<()> {
        match self.locking.get() {
            Locking::Alone => Ok(()),
            // Two who hold the lock together would wait for each other.
            Locking::Beside => Err(StoreError::Busy { waited_ms: 0 }),
            Locking::Within => {
                let rows = self.link.ask(Locking::Alone.text(), Vec::new(), true)?.rows;
                Locking::check(&rows)?;
                self.locking.set(Locking::Alone);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tiberius::numeric::Numeric;

    use super::*;

    #[test]
    fn every_value_comes_back_from_the_drivers_types() {
        let bytes: [u8; 16] = std::array::from_fn(|place| place as u8);
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
