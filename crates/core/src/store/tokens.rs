//! Access tokens, and requests that count once.

use crate::{IdempotentRequest, Token, TokenId, store::StoreResult};

port! {
    /// Access tokens, and requests that count once.
    pub trait TokenStore {
        /// Stores a token.
        async fn add_token(&self, token: Token) -> StoreResult<()>;

        /// The tokens that are there, sessions included, by the time at which they were made.
        async fn tokens(&self) -> StoreResult<Vec<Token>>;

        /// Ends a token, or a session, together with the sessions that were begun with it; says whether it was valid.
        /// The token stays in the list, as one that has expired: a store in which a token was ever made is never empty
        /// of tokens until [`clear_tokens`](Self::clear_tokens).
        async fn remove_token(&self, id: TokenId) -> StoreResult<bool>;

        /// Removes all tokens and sessions, unless a token is still valid: then nothing is removed. A store without
        /// tokens is open.
        async fn clear_tokens(&self) -> StoreResult<()>;

        /// Remembers a request by its key, unless one of that key is known: answers what is known of it then.
        async fn idempotent_request(
            &self,
            key: String,
            fingerprint: [u8; 32],
            seed: u64,
        ) -> StoreResult<IdempotentRequest>;
    }
}
