//! Tokens, and idempotent requests.

use punctual_core::{IdempotentRequest, Timestamp, TokenId, limits};

use super::state::State;

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
