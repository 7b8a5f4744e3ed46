//! Tokens, and idempotent requests.

use std::collections::BTreeSet;

use punctual_core::{IdempotentRequest, Role, StoreResult, Token, TokenId, limits};

use super::{rows, statements as sql, tx::Tx};
use crate::db::{Db, Row, params};

pub(crate) fn add(tx: &Tx<'_>, token: &Token) -> StoreResult<()> {
    tx.write(
        sql::INSERT_TOKEN,
        params![
            token.id.to_bytes(),
            token.name,
            rows::text(&token.roles)?,
            token.hash,
            token.session_of.map(TokenId::to_bytes),
            token.created_by,
            token.created_at.as_micros(),
            token.expires_at.map(|at| at.as_micros()),
        ],
    )
}

pub(crate) fn list(db: &dyn Db) -> StoreResult<Vec<Token>> {
    db.all(sql::TOKENS, &[], token)
}

fn token(row: &dyn Row) -> StoreResult<Token> {
    Ok(Token {
        id: TokenId::from_bytes(row.get(0)?),
        name: row.get(1)?,
        roles: rows::document::<BTreeSet<Role>>(row, 2)?.unwrap_or_default(),
        hash: row.get(3)?,
        session_of: row.get::<Option<[u8; 16]>>(4)?.map(TokenId::from_bytes),
        created_by: row.get(5)?,
        created_at: rows::instant(row, 6)?,
        expires_at: rows::optional_instant(row, 7)?,
    })
}

/// Revokes a token and removes its sessions. The token's row stays until [`trim`] removes it.
pub(crate) fn remove(tx: &Tx<'_>, id: TokenId) -> StoreResult<bool> {
    let was_valid = tx.execute(sql::REVOKE_TOKEN, params![id.to_bytes(), tx.now.as_micros()])? > 0;
    tx.write(sql::REMOVE_SESSIONS, params![id.to_bytes()])?;
    Ok(was_valid)
}

/// Removes all tokens, unless one is valid.
pub(crate) fn clear(tx: &Tx<'_>) -> StoreResult<()> {
    tx.write(sql::CLEAR_TOKENS, params![tx.now.as_micros()])
}

pub(crate) fn once(tx: &Tx<'_>, key: &str, fingerprint: [u8; 32], seed: u64) -> StoreResult<IdempotentRequest> {
    tx.write(sql::INSERT_IDEMPOTENT_REQUEST, params![key, fingerprint, tx.now.as_micros(), seed.cast_signed()])?;
    tx.db.only(sql::IDEMPOTENT_REQUEST, params![key], |row| {
        let seed = row.get::<i64>(2)?.cast_unsigned();
        Ok(IdempotentRequest { fingerprint: row.get(0)?, at: rows::instant(row, 1)?, seed })
    })
}

/// Removes expired tokens and requests.
pub(crate) fn trim(tx: &Tx<'_>, limit: usize) -> StoreResult<()> {
    tx.write(sql::PRUNE_TOKENS, params![tx.now.as_micros()])?;
    let before = tx.now.before(limits::IDEMPOTENCY_KEPT).as_micros();
    tx.write(sql::PRUNE_IDEMPOTENT_REQUESTS, params![before, limit as i64])
}
