//! Tokens, and idempotent requests.

use punctual_core::{IdempotentRequest, StoreResult, Token, TokenId, limits};

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
    let roles: Vec<String> = rows::document(row, 2)?.unwrap_or_default();
    Ok(Token {
        id: TokenId::from_bytes(row.get(0)?),
        name: row.get(1)?,
        // A role of a newer version grants nothing here. An error would lock out the holders of all other tokens.
        roles: roles.iter().filter_map(|role| role.parse().ok()).collect(),
        hash: row.get(3)?,
        session_of: row.get::<Option<[u8; 16]>>(4)?.map(TokenId::from_bytes),
        created_by: row.get(5)?,
        created_at: rows::instant(row, 6)?,
        expires_at: rows::optional_instant(row, 7)?,
    })
}

/// Revokes a token and removes its sessions. The token's row stays until [`prune`] removes it.
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
pub(crate) fn idempotent_request(
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
pub(crate) fn prune(edit: Edit<'_>, limit: usize) -> StoreResult<()> {
    edit.db.write(sql::PRUNE_TOKENS, params![edit.now.as_micros()])?;
    let before = edit.now.before(limits::IDEMPOTENCY_KEPT).as_micros();
    edit.db.write(sql::PRUNE_IDEMPOTENT_REQUESTS, params![before, limit as i64])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use punctual_core::Role;

    use super::*;
    use crate::db::Value;

    /// A row whose token has a role that this version does not know.
    struct NewerToken;

    impl Row for NewerToken {
        fn value(&self, column: usize) -> StoreResult<Value<'_>> {
            Ok(match column {
                0 => Value::Bytes(&[1; 16]),
                1 | 5 => Value::Text("ci"),
                2 => Value::Text(r#"["audit", "work"]"#),
                3 => Value::Bytes(&[2; 32]),
                6 => Value::Int(7),
                _ => Value::Null,
            })
        }
    }

    #[test]
    fn a_role_of_a_newer_version_grants_nothing_and_hides_no_token() {
        let token = token(&NewerToken).unwrap();
        assert_eq!(token.roles.into_iter().collect::<Vec<_>>(), [Role::Work]);
    }
}
