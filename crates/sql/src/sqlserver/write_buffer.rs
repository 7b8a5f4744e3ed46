//! Buffers writes, so that rows for the same statement are sent together: as one document of lines, each a list of
//! values followed by the index of the line.

use std::fmt::Write as _;

use punctual_core::StoreResult;

use super::{statements, value::Owned};
use crate::db::{Rows, Statement, Value};

/// Approximate maximum size of a document.
const DOCUMENT_MAX_BYTES: usize = 4 << 20;

/// Lines of values.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    documents: Vec<String>,
    count: usize,
}

impl Lines {
    /// A single line.
    pub(crate) fn of(params: &[Value<'_>]) -> Self {
        let mut lines = Self::default();
        lines.add(params);
        lines
    }

    /// One line for each of these rows.
    pub(crate) fn all(rows: Rows<'_>) -> StoreResult<Self> {
        let mut lines = Self::default();
        rows(&mut |params| {
            lines.add(params);
            Ok(())
        })?;
        Ok(lines)
    }

    pub(crate) fn add(&mut self, params: &[Value<'_>]) {
        let document = match self.documents.last_mut() {
            Some(document) if document.len() < DOCUMENT_MAX_BYTES => {
                document.push(',');
                document
            }
            _ => {
                self.documents.push("[".to_owned());
                let last = self.documents.len() - 1;
                &mut self.documents[last]
            }
        };
        document.push('[');
        params.iter().for_each(|value| push(document, value));
        // Writing to a string cannot fail.
        _ = write!(document, "{}]", self.count);
        self.count += 1;
    }

    pub(crate) fn into_documents(self) -> impl Iterator<Item = String> {
        self.documents.into_iter().map(|document| document + "]")
    }

    /// The only document.
    pub(crate) fn into_document(self) -> String {
        self.into_documents().next().unwrap_or_default()
    }
}

fn push(document: &mut String, value: &Value<'_>) {
    match value {
        Value::Null => document.push_str("null"),
        Value::Int(number) => _ = write!(document, "{number}"),
        Value::Text(text) => document.push_str(&serde_json::Value::from(*text).to_string()),
        Value::Bytes(bytes) => _ = write!(document, "\"{}\"", identifier(bytes)),
    }
    document.push(',');
}

/// Formats sixteen bytes as the text of the `uniqueidentifier` with these bytes. The bytes of its first three parts are
/// in reverse order.
fn identifier(bytes: &[u8]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::with_capacity(36);
    for (index, of) in ORDER.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        _ = write!(text, "{:02X}", bytes.get(of).unwrap_or(&0));
    }
    text
}

/// Buffered writes. Reordering is limited to statements whose order makes no difference.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    groups: Vec<(Statement, Written)>,
}

#[derive(Debug)]
enum Written {
    Lines(Lines),
    Once(Vec<Owned>),
}

impl WriteBuffer {
    pub(crate) fn add(&mut self, statement: Statement, params: &[Value<'_>]) {
        if !statements::takes_lines(statement) {
            self.groups.push((statement, Written::Once(params.iter().map(Owned::from).collect())));
            return;
        }
        // A row may move ahead of statements that use other tables.
        let tables = statements::tables(statement);
        for (other, written) in self.groups.iter_mut().rev() {
            match written {
                Written::Lines(lines) if *other == statement => return lines.add(params),
                _ if statements::tables(*other) & tables != 0 => break,
                _ => {}
            }
        }
        self.groups.push((statement, Written::Lines(Lines::of(params))));
    }

    /// The statements and their parameters, in the order to run them.
    pub(crate) fn into_requests(self) -> impl Iterator<Item = (Statement, Vec<Owned>)> {
        self.groups.into_iter().flat_map(|(statement, written)| {
            let each: Vec<Vec<Owned>> = match written {
                Written::Lines(lines) => lines.into_documents().map(|text| vec![Owned::from(text)]).collect(),
                Written::Once(params) => vec![params],
            };
            each.into_iter().map(move |params| (statement, params))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{db::params, ops::statements as sql};

    fn written(later: WriteBuffer) -> Vec<&'static str> {
        later.into_requests().map(|(statement, _)| statement.1).collect()
    }

    #[test]
    fn rows_of_one_statement_are_sent_together() {
        let mut later = WriteBuffer::default();
        for job in 0..3 {
            later.add(sql::INSERT_DUE, params![5, job]);
            later.add(sql::INSERT_EPHEMERAL, params![job]);
        }
        assert_eq!(written(later), ["INSERT_DUE", "INSERT_EPHEMERAL"]);
    }

    #[test]
    fn statements_for_the_same_table_keep_their_order() {
        let mut later = WriteBuffer::default();
        later.add(sql::INSERT_DUE, params![5, 1]);
        later.add(sql::DELETE_DUE, params![5, 1]);
        later.add(sql::INSERT_EPHEMERAL, params![1]);
        later.add(sql::INSERT_DUE, params![6, 1]);
        assert_eq!(written(later), ["INSERT_DUE", "DELETE_DUE", "INSERT_EPHEMERAL", "INSERT_DUE"]);
    }

    #[test]
    fn a_document_has_every_value_and_the_index_of_each_line() {
        let mut lines = Lines::of(params![1, "a \"b\" \u{1} ö", None::<i64>]);
        lines.add(params![-2, "", [0x0F_u8; 16]]);
        let identifier = "0F0F0F0F-0F0F-0F0F-0F0F-0F0F0F0F0F0F";
        let expected = format!(r#"[[1,"a \"b\" \u0001 ö",null,0],[-2,"","{identifier}",1]]"#);
        assert_eq!(lines.into_document(), expected);
    }

    #[test]
    fn an_identifier_has_the_byte_order_of_the_server() {
        let bytes: [u8; 16] = std::array::from_fn(|index| index as u8);
        assert_eq!(identifier(&bytes), "03020100-0504-0706-0809-0A0B0C0D0E0F");
    }

    #[test]
    fn long_lines_are_split_into_several_documents() {
        let (mut lines, long) = (Lines::default(), "x".repeat(DOCUMENT_MAX_BYTES));
        (0..3).for_each(|_| lines.add(params![long]));
        let documents: Vec<_> = lines.into_documents().collect();
        assert_eq!(documents.len(), 3);
        assert!(documents[2].ends_with(",2]]"));
    }
}
