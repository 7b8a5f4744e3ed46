//! Requests that count once, however often they are sent.

use std::sync::Arc;

use punctual_core::{Error, Ids};

use crate::Punctual;

impl Punctual {
    /// Makes jobs for a request with that key. The first time they are new; if it is sent again within a day, they are those of the first time. Nothing
    /// if the key was used for something else, by its fingerprint.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// # let punctual = punctual_client::Punctual::connect(&url).await?;
    /// use punctual_client::Draft;
    /// let (key, fingerprint) = ("order 7", [0; 32]);
    /// let first = punctual.once(key, fingerprint).await?.unwrap().enqueue(Draft::new("pay", &7)).await?;
    /// let again = punctual.once(key, fingerprint).await?.unwrap().enqueue(Draft::new("pay", &7)).await?;
    /// assert_eq!(first, again);
    /// assert!(punctual.once(key, [1; 32]).await?.is_none());
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn once(&self, key: impl Into<String>, fingerprint: [u8; 32]) -> Result<Option<Self>, Error> {
        let once = self.store().once(key.into(), fingerprint, fastrand::u64(..)).await?;
        if once.fingerprint != fingerprint {
            return Ok(None);
        }
        Ok(Some(Self { ids: Arc::new(Ids::seeded(once.seed)), first_at: Some(once.at), ..self.clone() }))
    }
}
