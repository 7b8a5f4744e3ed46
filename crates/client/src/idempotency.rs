//! Idempotent requests.

use std::sync::Arc;

use punctual_core::{Error, Ids};

use crate::Punctual;

impl Punctual {
    /// Returns a client that enqueues on behalf of the request with this idempotency key: the first request creates the
    /// jobs, and a repeated one, within a day, returns the same jobs. `None` if the key was used for a request with
    /// another fingerprint.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// # let punctual = punctual_client::Punctual::connect(&url).await?;
    /// use punctual_client::Draft;
    /// let (key, fingerprint) = ("order 7", [0; 32]);
    /// let pay = Draft::new("pay", &7);
    /// let first = punctual.idempotent_request(key, fingerprint).await?.unwrap().enqueue(pay.clone()).await?;
    /// let again = punctual.idempotent_request(key, fingerprint).await?.unwrap().enqueue(pay).await?;
    /// assert_eq!(first, again);
    /// assert!(punctual.idempotent_request(key, [1; 32]).await?.is_none());
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn idempotent_request(
        &self,
        key: impl Into<String>,
        fingerprint: [u8; 32],
    ) -> Result<Option<Self>, Error> {
        let request = self.store().idempotent_request(key.into(), fingerprint, fastrand::u64(..)).await?;
        if request.fingerprint != fingerprint {
            return Ok(None);
        }
        Ok(Some(Self { ids: Arc::new(Ids::seeded(request.seed)), first_at: Some(request.at), ..self.clone() }))
    }
}
