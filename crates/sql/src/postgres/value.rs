//! Conversions between the domain's types and PostgreSQL's.

use punctual_core::{JobId, Timestamp};
use sqlx::{
    Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef, types::Oid},
};

use crate::db::{FromValue, Value};

/// An instant as a `timestamptz`, which has the same resolution of one microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At(pub(crate) Timestamp);

/// 2000-01-01, PostgreSQL's epoch.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl PgHasArrayType for At {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0.as_micros() - EPOCH_MICROS, buffer)
    }
}

impl Decode<'_, Postgres> for At {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let micros = <i64 as Decode<Postgres>>::decode(value)?;
        Ok(Self(Timestamp::from_micros(micros.saturating_add(EPOCH_MICROS))))
    }
}

impl FromValue<'_> for At {
    fn from_value(value: Value<'_>) -> Option<Self> {
        i64::from_value(value).map(|micros| Self(Timestamp::from_micros(micros)))
    }
}

/// The 128 bits of an id, as a `uuid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Uuid(u128);

impl Uuid {
    pub(crate) const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    pub(crate) const fn as_u128(self) -> u128 {
        self.0
    }
}

impl Type<Postgres> for Uuid {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(2950))
    }
}

impl PgHasArrayType for Uuid {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(2951))
    }
}

impl Encode<'_, Postgres> for Uuid {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Uuid {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self(u128::from_be_bytes(value.as_bytes()?.try_into()?)))
    }
}

impl FromValue<'_> for Uuid {
    fn from_value(value: Value<'_>) -> Option<Self> {
        <[u8; 16]>::from_value(value).map(|bytes| Self(u128::from_be_bytes(bytes)))
    }
}

/// A job's id as a `uuid`, which has the same layout.
pub(crate) const fn uuid(id: JobId) -> Uuid {
    Uuid::from_u128(id.to_bits())
}

/// A `uuid` as a job's id.
pub(crate) const fn job_id(uuid: Uuid) -> JobId {
    JobId::from_bits(uuid.as_u128())
}

/// A column, or `None` if none of its rows has a value.
pub(crate) fn some_of<T>(column: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
    column.iter().any(Option::is_some).then_some(column)
}
