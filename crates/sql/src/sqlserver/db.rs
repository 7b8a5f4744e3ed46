//! A connection to a server, as used by the shared operations.
//!
//! Operations run on a blocking thread and send requests to the task that owns the connection. Writes are buffered
//! until the next read or the end of the operation, so that rows for the same statement are sent as one document.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::Range,
};

use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::{StoreError, StoreResult};
use tiberius::ToSql;
use tokio::{
    sync::{mpsc, oneshot},
    task,
};

use super::{
    error::{broken_off, store_error},
    locking::Locking,
    statements,
    value::Owned,
    write_buffer::{Lines, WriteBuffer},
};
use crate::db::{Db, GoOn, JobDb, Row, Rows, Statement, Value};

/// A request to the task that owns the connection.
struct Request {
    text: &'static str,
    params: Vec<Owned>,
    /// Whether the statement returns rows; otherwise only the number of changed rows.
    reads: bool,
    answer: oneshot::Sender<StoreResult<Answer>>,
}

#[derive(Default)]
struct Answer {
    rows: Vec<tiberius::Row>,
    changed: usize,
}

/// Lets `work` use a connection from a blocking thread.
pub(crate) async fn serve<S, F, T>(client: &mut tiberius::Client<S>, store: &str, work: F) -> StoreResult<T>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    F: FnOnce(Link) -> StoreResult<T> + Send + 'static,
    T: Send + 'static,
{
    let (requests, mut received) = mpsc::unbounded_channel();
    let done = task::spawn_blocking(move || work(Link { requests }));
    while let Some(Request { text, params, reads, answer }) = received.recv().await {
        let params: Vec<&dyn ToSql> = params.iter().map(|value| value as &dyn ToSql).collect();
        let answered = async {
            if reads {
                // A statement that inserts a row if it does not exist may return it in the second result set.
                let results = client.query(text, &params).await?.into_results().await?;
                return Ok(Answer { rows: results.into_iter().flatten().collect(), changed: 0 });
            }
            let changed = client.execute(text, &params).await?.total() as usize;
            Ok(Answer { rows: Vec::new(), changed })
        };
        // The requesting thread waits for the answer.
        drop(answer.send(answered.await.map_err(|error| store_error(store, &error))));
    }
    done.await.map_err(|error| broken_off(&error))?
}

/// The channel to the task that owns the connection.
pub(crate) struct Link {
    requests: mpsc::UnboundedSender<Request>,
}

impl Link {
    fn request(&self, text: &'static str, params: Vec<Owned>, reads: bool) -> StoreResult<Answer> {
        tracing::trace!(text = text.lines().next(), "runs a statement");
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request { text, params, reads, answer }).map_err(|_| StoreError::Closed)?;
        answered.blocking_recv().map_err(|_| StoreError::Closed)?
    }
}

/// A connection within a transaction.
pub(crate) struct ServerDb {
    link: Link,
    locking: Cell<Locking>,
    writes: RefCell<WriteBuffer>,
}

impl ServerDb {
    pub(crate) fn new(link: Link, locking: Locking) -> Self {
        Self { link, locking: Cell::new(locking), writes: RefCell::default() }
    }

    /// Runs the buffered writes.
    pub(crate) fn flush(&self) -> StoreResult<()> {
        let writes = std::mem::take(&mut *self.writes.borrow_mut());
        for (statement, params) in writes.into_requests() {
            self.link.request(statements::text(statement), params, false)?;
        }
        Ok(())
    }

    fn run(&self, statement: Statement, params: &[Value<'_>], reads: bool) -> StoreResult<Answer> {
        self.flush()?;
        let params = if statements::takes_lines(statement) {
            vec![Owned::from(Lines::of(params).into_document())]
        } else {
            params.iter().map(Owned::from).collect()
        };
        self.link.request(statements::text(statement), params, reads)
    }

    /// Queries rows for all lines; the last column of each row is the index of its line.
    fn query_each(&self, statement: Statement, lines: Lines) -> StoreResult<Vec<tiberius::Row>> {
        self.flush()?;
        let mut rows = Vec::new();
        for document in lines.into_documents() {
            rows.extend(self.link.request(statements::text(statement), vec![Owned::from(document)], true)?.rows);
        }
        Ok(rows)
    }
}

impl Db for ServerDb {
    fn execute(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<usize> {
        Ok(self.run(statement, params, false)?.changed)
    }

    fn write(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<()> {
        self.writes.borrow_mut().add(statement, params);
        Ok(())
    }

    fn execute_each(&self, statement: Statement, rows: Rows<'_>) -> StoreResult<usize> {
        self.flush()?;
        let mut changed = 0;
        for document in Lines::all(rows)?.into_documents() {
            changed += self.link.request(statements::text(statement), vec![Owned::from(document)], false)?.changed;
        }
        Ok(changed)
    }

    fn read(
        &self,
        statement: Statement,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>,
    ) -> StoreResult<()> {
        for row in self.run(statement, params, true)?.rows {
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
        for row in self.query_each(statement, Lines::all(rows)?)? {
            let index = (&row as &dyn Row).get(row.len() - 1)?;
            each(index, &row)?;
        }
        Ok(())
    }

    fn is_only_writer(&self) -> bool {
        false
    }
}

impl JobDb for ServerDb {
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
        for row in self.query_each(statement, lines)? {
            let row: &dyn Row = &row;
            stored.insert(row.get::<[u8; 16]>(0)?, row.get::<i64>(1)?);
        }
        Ok(ids.iter().map(|id| stored.remove(id)).collect())
    }

    fn event_numbers(&self, count: usize) -> StoreResult<Vec<Range<i64>>> {
        let document = format!("[{}]", vec!["0"; count].join(","));
        let rows = self.link.request(statements::own::NUMBER_EVENTS, vec![Owned::from(document)], true)?.rows;
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

    fn be_alone(&self) -> StoreResult<()> {
        match self.locking.get() {
            Locking::Alone => Ok(()),
            // Two operations that hold the shared lock and both upgrade it would deadlock.
            Locking::Beside => Err(StoreError::Busy { waited_ms: 0 }),
            Locking::Within => {
                let rows = self.link.request(Locking::Alone.text(), Vec::new(), true)?.rows;
                Locking::check(&rows)?;
                self.locking.set(Locking::Alone);
                Ok(())
            }
        }
    }
}
