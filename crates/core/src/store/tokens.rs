//! Access tokens, and idempotent requests.

use crate::{IdempotentRequest, Token, TokenId, store::StoreResult};

port! {
    /// Access tokens, and idempotent requests.
    pub trait TokenStore {
        /// Stores a token.
        async fn add_token(&self, token: Token) -> StoreResult<()>;

        /// All tokens, sessions included, by the time of their creation.
        async fn tokens(&self) -> StoreResult<Vec<Token>>;

        /// Revokes a token, or a session, together with the sessions that were started with it; returns whether it was
        /// valid. The token stays in the list as expired: a store in which a token was ever created is never without
        /// tokens until [`clear_tokens`](Self::clear_tokens).
        async fn remove_token(&self, id: TokenId) -> StoreResult<bool>;

        /// Removes all tokens and sessions, unless a token is still valid: then nothing is removed. A store without
        /// tokens allows unauthenticated access.
        async fn clear_tokens(&self) -> StoreResult<()>;

        /// Stores a request by its key, unless the key exists: then returns the stored request.
        async fn idempotent_request(
            &self,
            key: String,
            fingerprint: [u8; 32],
            seed: u64,
        ) -> StoreResult<IdempotentRequest>;
    }
}
