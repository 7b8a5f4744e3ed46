//! Tokens, and idempotent requests.

use std::collections::BTreeSet;

use punctual_core::{IdempotentRequest, Role, StoreResult, Token, TokenId, limits};

use super::{
    edit::{Edit, SingleEdit},
    rows, statements as sql,
};
use crate::db::{Db, Row, params};

pub(crate) fn add(db: &dyn Db, token: &Token) -> StoreResult<()> {
    db.write(
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
pub(crate) fn remove(edit: Edit<'_>, id: TokenId) -> StoreResult<bool> {
    let was_valid = edit.db.execute(sql::REVOKE_TOKEN, params![id.to_bytes(), edit.now.as_micros()])? > 0;
    edit.db.write(sql::REMOVE_SESSIONS, params![id.to_bytes()])?;
    Ok(was_valid)
}

/// Removes all tokens, unless one is valid.
pub(crate) fn clear(edit: SingleEdit<'_>) -> StoreResult<()> {
    edit.db.write(sql::CLEAR_TOKENS, params![edit.at()])
}

/// Stores a request, unless its key exists; returns the stored request of this key.
pub(crate) fn once(
    edit: SingleEdit<'_>,
    key: &str,
    fingerprint: [u8; 32],
    seed: u64,
) -> StoreResult<IdempotentRequest> {
    edit.db.only(sql::IDEMPOTENT_REQUEST, params![key, fingerprint, edit.at(), seed.cast_signed()], |row| {
        let seed = row.get::<i64>(2)?.cast_unsigned();
        Ok(IdempotentRequest { fingerprint: row.get(0)?, at: rows::instant(row, 1)?, seed })
    })
}

/// Removes expired tokens and requests.
pub(crate) fn trim(edit: Edit<'_>, limit: usize) -> StoreResult<()> {
    edit.db.write(sql::PRUNE_TOKENS, params![edit.now.as_micros()])?;
    let before = edit.now.before(limits::IDEMPOTENCY_KEPT).as_micros();
    edit.db.write(sql::PRUNE_IDEMPOTENT_REQUESTS, params![before, limit as i64])
}
