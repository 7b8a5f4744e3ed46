//! Changes of a queue's limits as users write them.

use std::collections::BTreeMap;

use punctual_core::{Limits, Rate};
use serde::{Deserialize, Deserializer, Serialize};

/// Changes of the limits of a queue. A limit that is absent stays; `null` removes one.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitChanges {
    /// Maximum concurrent jobs of the queue.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Option<u32>>,
    /// Maximum number of starts of the queue per period, such as `100/1m`.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub rate: Option<Option<Rate>>,
    /// Maximum concurrent jobs per concurrency key; 0 means unlimited.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub key_concurrency: Option<Option<u32>>,
    /// Maximum number of starts per concurrency key and period.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub key_rate: Option<Option<Rate>>,
    /// Whether the concurrency keys take turns; `false` also removes their weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair: Option<bool>,
    /// Weights of concurrency keys, in addition to those of other keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

impl LimitChanges {
    /// Applies the changes.
    ///
    /// ```
    /// use punctual_client::input::LimitChanges;
    /// use punctual_core::Limits;
    /// let changes: LimitChanges = serde_json::from_str(r#"{"rate": null, "concurrency": 5}"#).unwrap();
    /// let mut limits = Limits { rate: Some("9/s".parse().unwrap()), key_concurrency: Some(2), ..Limits::default() };
    /// changes.apply(&mut limits);
    /// assert_eq!(limits, Limits { concurrency: Some(5), key_concurrency: Some(2), ..Limits::default() });
    /// ```
    pub fn apply(&self, limits: &mut Limits) {
        limits.concurrency = self.concurrency.unwrap_or(limits.concurrency);
        limits.rate = self.rate.unwrap_or(limits.rate);
        limits.key_concurrency = self.key_concurrency.unwrap_or(limits.key_concurrency);
        limits.key_rate = self.key_rate.unwrap_or(limits.key_rate);
        if self.fair == Some(false) {
            limits.weights.clear();
        }
        limits.fair = self.fair.unwrap_or(limits.fair);
        limits.weights.extend(self.weights.iter().map(|(key, weight)| (key.clone(), *weight)));
    }
}

/// Reads a value that is present, even if it is `null`.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
