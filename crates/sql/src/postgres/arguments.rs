//! Values of the shared operations as arguments of statements.

use punctual_core::{StoreError, StoreResult};
use sqlx::{Arguments, error::BoxDynError, postgres::PgArguments};

use super::{
    shared_statements::{self, Param, ParamType},
    value::{At, Uuid},
};
use crate::db::{FromValue, Statement, Value};

/// The parameters of a statement, with the values of one row or of many.
pub(crate) struct StatementParams {
    statement: Statement,
    params: Vec<(Param, ParamValues)>,
}

impl StatementParams {
    pub(crate) fn new(statement: Statement) -> Self {
        let params = shared_statements::params(statement);
        Self { statement, params: params.iter().map(|param| (*param, ParamValues::new(param.of))).collect() }
    }

    /// Adds the values of a row. Values that only other engines need come last, and are left out.
    pub(crate) fn add(&mut self, row: &[Value<'_>]) -> StoreResult<()> {
        let Statement(_, name) = self.statement;
        if row.len() < self.params.len() {
            return Err(StoreError::Other(format!("`{name}` takes {} values, not {}", self.params.len(), row.len())));
        }
        for ((param, values), value) in self.params.iter_mut().zip(row) {
            if !values.add(*value) {
                return Err(StoreError::Other(format!("`{name}` takes a value of type {:?}, not {value:?}", param.of)));
            }
        }
        Ok(())
    }

    pub(crate) fn into_arguments(self) -> StoreResult<PgArguments> {
        let mut arguments = PgArguments::default();
        for (param, values) in self.params {
            values
                .bind(&mut arguments, param.is_array)
                .map_err(|error| StoreError::Other(format!("cannot send a value: {error}")))?;
        }
        Ok(arguments)
    }
}

/// The values of a parameter, by row.
enum ParamValues {
    Bools(Vec<Option<bool>>),
    Ints(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
    Times(Vec<Option<At>>),
    Ids(Vec<Option<Uuid>>),
}

/// Does the same with the values of each type.
macro_rules! with_values {
    ($param:expr, $values:ident => $work:expr) => {
        match $param {
            ParamValues::Bools($values) => $work,
            ParamValues::Ints($values) => $work,
            ParamValues::Texts($values) => $work,
            ParamValues::Bytes($values) => $work,
            ParamValues::Times($values) => $work,
            ParamValues::Ids($values) => $work,
        }
    };
}

impl ParamValues {
    const fn new(of: ParamType) -> Self {
        match of {
            ParamType::Bool => Self::Bools(Vec::new()),
            ParamType::Int8 => Self::Ints(Vec::new()),
            ParamType::Text => Self::Texts(Vec::new()),
            ParamType::Bytea => Self::Bytes(Vec::new()),
            ParamType::Timestamptz => Self::Times(Vec::new()),
            ParamType::Uuid => Self::Ids(Vec::new()),
        }
    }

    /// Adds a value; returns whether it has the type.
    fn add(&mut self, value: Value<'_>) -> bool {
        with_values!(self, values => FromValue::from_value(value).map(|value| values.push(value)).is_some())
    }

    fn bind(self, arguments: &mut PgArguments, is_array: bool) -> Result<(), BoxDynError> {
        with_values!(self, values => if is_array {
            Arguments::add(arguments, values)
        } else {
            Arguments::add(arguments, values.into_iter().next().flatten())
        })
    }
}
