//! Tokens.

use std::collections::BTreeSet;

use punctual_client::admin::CreatedToken;
use punctual_core::{Role, Token, TokenId, time::Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{problem::Problem, request::RequestContext, route::Nothing};

pub(crate) async fn list(request: RequestContext, _: Nothing) -> Result<Vec<Token>, Problem> {
    Ok(request.admin().tokens().await?)
}

/// A token to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Name of the token: its owner or its purpose.
    name: String,
    /// Roles of the token.
    roles: BTreeSet<Role>,
    /// Lifetime, such as `90d`; by default the token never expires.
    expires: Option<Span>,
}

pub(crate) async fn create(request: RequestContext, _: Nothing, new: NewToken) -> Result<CreatedToken, Problem> {
    let created = request.admin().create_token(new.name, new.roles, new.expires.map(|span| span.0)).await?;
    tracing::info!(token = %created.token.id, name = created.token.name, actor = request.caller.name(), "created a token");
    request.app.tokens.clear_cache().await;
    Ok(created)
}

/// Selects a token to revoke.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokeParams {
    /// Token id; it is not a secret.
    id: TokenId,
    /// Revoke it even if it is the last valid token with the role admin.
    #[serde(default)]
    allow_last_admin: bool,
}

/// Result of a revocation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Revoked {
    /// Whether the token existed.
    revoked: bool,
}

pub(crate) async fn revoke(request: RequestContext, params: RevokeParams, _: Nothing) -> Result<Revoked, Problem> {
    let RevokeParams { id, allow_last_admin } = params;
    let revoked = request.admin().revoke_token(id, allow_last_admin).await?;
    tracing::info!(token = %id, actor = request.caller.name(), revoked, "revoked a token");
    request.app.tokens.clear_cache().await;
    Ok(Revoked { revoked })
}
