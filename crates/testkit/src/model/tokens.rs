//! Tokens, and requests that count once.

use punctual_core::{Once, Timestamp, TokenId, limits};

use super::state::State;

impl State {
    pub(super) fn remove_token(&mut self, id: TokenId) -> bool {
        let count = self.tokens.len();
        self.tokens.retain(|token| token.id != id && token.session_of != Some(id));
        self.tokens.len() < count
    }

    pub(super) fn once(&mut self, key: String, fresh: Once) -> Once {
        self.requests.entry(key).or_insert(fresh).clone()
    }

    pub(super) fn trim_tokens(&mut self, now: Timestamp) {
        self.tokens.retain(|token| token.is_good(now));
        self.requests.retain(|_, request| request.at >= now.before(limits::ONCE_KEPT));
    }
}
