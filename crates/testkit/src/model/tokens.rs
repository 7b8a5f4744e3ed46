//! Tokens, and idempotent requests.

use async_trait::async_trait;
use punctual_core::{IdempotentRequest, StoreResult, Timestamp, Token, TokenId, limits, store::ports::TokenStore};

use super::{state::State, store::ModelStore};

impl State {
    pub(super) fn remove_token(&mut self, id: TokenId, now: Timestamp) -> bool {
        let Some(found) = self.tokens.iter_mut().find(|token| token.id == id) else { return false };
        let was_valid = found.is_valid(now);
        if was_valid {
            found.expires_at = Some(now);
        }
        self.tokens.retain(|token| token.session_of.is_none() || token.id != id && token.session_of != Some(id));
        was_valid
    }

    pub(super) fn clear_tokens(&mut self, now: Timestamp) {
        if !self.tokens.iter().any(|token| token.session_of.is_none() && token.is_valid(now)) {
            self.tokens.clear();
        }
    }

    pub(super) fn once(&mut self, key: String, fresh: IdempotentRequest) -> IdempotentRequest {
        self.requests.entry(key).or_insert(fresh).clone()
    }

    pub(super) fn prune_tokens(&mut self, now: Timestamp) {
        let last = self.tokens.iter().filter(|token| token.session_of.is_none()).map(|token| token.id).max();
        self.tokens.retain(|token| token.is_valid(now) || Some(token.id) == last);
        self.requests.retain(|_, request| request.at >= now.before(limits::IDEMPOTENCY_KEPT));
    }
}

#[async_trait]
impl TokenStore for ModelStore {
    async fn add_token(&self, token: Token) -> StoreResult<()> {
        self.write(|state, _| state.tokens.push(token))
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        Ok(self.state().tokens.clone())
    }

    async fn remove_token(&self, id: TokenId) -> StoreResult<bool> {
        self.write(|state, now| state.remove_token(id, now))
    }

    async fn clear_tokens(&self) -> StoreResult<()> {
        self.write(|state, now| state.clear_tokens(now))
    }

    async fn idempotent_request(
        &self,
        key: String,
        fingerprint: [u8; 32],
        seed: u64,
    ) -> StoreResult<IdempotentRequest> {
        self.write(|state, now| state.once(key, IdempotentRequest { fingerprint, at: now, seed }))
    }
}
