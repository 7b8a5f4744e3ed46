//! Tokens, and idempotent requests.

use punctual_core::{IdempotentRequest, Timestamp, Token, TokenId, limits};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    core::Core,
    rows, statements as sql,
    value::{At, Uuid},
};

fn uuid(id: TokenId) -> Uuid {
    Uuid::from_u128(id.to_bits())
}

pub(crate) async fn add(store: &Core, token: &Token) -> sqlx::Result<()> {
    let mut unit = store.sessions.single().await?;
    sqlx::query(*sql::INSERT_TOKEN)
        .bind(uuid(token.id))
        .bind(&token.name)
        .bind(token.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>())
        .bind(token.hash.as_slice())
        .bind(token.session_of.map(uuid))
        .bind(&token.created_by)
        .bind(At(token.created_at))
        .bind(token.expires_at.map(At))
        .execute(&mut *unit)
        .await?;
    unit.done().await
}

pub(crate) async fn list(store: &Core) -> sqlx::Result<Vec<Token>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::TOKENS).fetch_all(&mut *unit).await?;
    unit.done().await?;
    rows.iter().map(token).collect()
}

fn token(row: &PgRow) -> sqlx::Result<Token> {
    let id = |id: Uuid| TokenId::from_bits(id.as_u128());
    let roles: Vec<String> = row.try_get(2)?;
    Ok(Token {
        id: id(row.try_get(0)?),
        name: row.try_get(1)?,
        roles: roles.iter().filter_map(|role| role.parse().ok()).collect(),
        hash: hash(row, 3)?,
        session_of: row.try_get::<Option<Uuid>, _>(4)?.map(id),
        created_by: row.try_get(5)?,
        created_at: rows::instant(row, 6)?,
        expires_at: rows::optional_instant(row, 7)?,
    })
}

fn hash(row: &PgRow, column: usize) -> sqlx::Result<[u8; 32]> {
    let bytes: Vec<u8> = row.try_get(column)?;
    bytes.try_into().map_err(|_| sqlx::Error::Decode("a hash has 32 bytes".into()))
}

pub(crate) async fn remove(store: &Core, id: TokenId) -> sqlx::Result<bool> {
    let mut unit = store.sessions.single().await?;
    let remove = sqlx::query_scalar(*sql::REVOKE_TOKEN).bind(store.sessions.clock()).bind(uuid(id));
    let were_valid: i64 = remove.fetch_one(&mut *unit).await?;
    unit.done().await?;
    Ok(were_valid > 0)
}

/// Removes all tokens, unless one of them is valid.
pub(crate) async fn clear(store: &Core) -> sqlx::Result<()> {
    let mut unit = store.sessions.single().await?;
    sqlx::query(*sql::CLEAR_TOKENS).bind(store.sessions.clock()).execute(&mut *unit).await?;
    unit.done().await
}

pub(crate) async fn once(store: &Core, key: &str, fingerprint: [u8; 32], seed: u64) -> sqlx::Result<IdempotentRequest> {
    let mut unit = store.sessions.single().await?;
    let row = sqlx::query(*sql::IDEMPOTENT_REQUEST)
        .bind(store.sessions.clock())
        .bind(key)
        .bind(fingerprint.as_slice())
        .bind(seed.cast_signed())
        .fetch_one(&mut *unit)
        .await?;
    unit.done().await?;
    let seed = row.try_get::<i64, _>(2)?.cast_unsigned();
    Ok(IdempotentRequest { fingerprint: hash(&row, 0)?, at: rows::instant(&row, 1)?, seed })
}

/// Removes expired tokens and requests.
pub(crate) async fn trim(connection: &mut PgConnection, now: Timestamp, limit: usize) -> sqlx::Result<()> {
    sqlx::query(*sql::PRUNE_TOKENS).bind(At(now)).execute(&mut *connection).await?;
    let before = At(now.before(limits::IDEMPOTENCY_KEPT));
    sqlx::query(*sql::PRUNE_IDEMPOTENT_REQUESTS).bind(before).bind(limit as i64).execute(connection).await.map(drop)
}
