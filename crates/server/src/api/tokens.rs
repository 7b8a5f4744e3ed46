//! Tokens.

use std::collections::BTreeSet;

use punctual_client::admin::CreatedToken;
use punctual_core::{Role, Token, TokenId, time::Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{call::Call, problem::Problem, route::Nothing};

pub(crate) async fn list(call: Call, _: Nothing) -> Result<Vec<Token>, Problem> {
    Ok(call.admin().tokens().await?)
}

/// A token to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Whose it is, or what it is for.
    name: String,
    /// What it allows.
    roles: BTreeSet<Role>,
    /// Lifetime; without one, the token never expires.
    expires: Option<Span>,
}

pub(crate) async fn create(call: Call, _: Nothing, new: NewToken) -> Result<CreatedToken, Problem> {
    let created = call.admin().create_token(new.name, new.roles, new.expires.map(|span| span.0)).await?;
    tracing::info!(token = %created.token.id, name = created.token.name, actor = call.caller.name(), "a token was made");
    call.app.tokens.forget().await;
    Ok(created)
}

/// Which token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokedToken {
    /// Its id, which is no secret.
    id: TokenId,
    /// Revoke it even if it is the last valid token with the role admin.
    #[serde(default)]
    allow_last_admin: bool,
}

/// Whether there was one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Revoked {
    /// Whether it was there.
    revoked: bool,
}

pub(crate) async fn revoke(call: Call, which: RevokedToken, _: Nothing) -> Result<Revoked, Problem> {
    let RevokedToken { id, allow_last_admin } = which;
    let revoked = call.admin().revoke_token(id, allow_last_admin).await?;
    tracing::info!(token = %id, actor = call.caller.name(), revoked, "a token was revoked");
    call.app.tokens.forget().await;
    Ok(Revoked { revoked })
}
