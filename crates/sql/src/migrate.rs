//! Numbered, forward-only migrations. Each engine provides its SQL texts; this module validates them for all engines.

use punctual_core::{AppliedMigration, StoreError};
use sha2::{Digest, Sha256};

/// One migration of an engine's schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// The version number, counted from 1 without gaps.
    pub version: u32,
    /// A name of one or two words.
    pub name: &'static str,
    /// The SQL text.
    pub sql: &'static str,
}

impl Migration {
    /// The checksum of the SQL text, which the store records.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The migrations that a store still needs, given those already applied.
///
/// Returns an error if the store is newer than this build or was built from other texts.
pub fn missing<'a>(known: &'a [Migration], applied: &[AppliedMigration]) -> Result<&'a [Migration], StoreError> {
    let newest = applied.iter().map(|migration| migration.version).max().unwrap_or(0);
    if newest as usize > known.len() {
        return Err(StoreError::NewerSchema { found: newest, known: known.len() as u32 });
    }
    for (ours, theirs) in known.iter().zip(applied) {
        let expected = ours.checksum();
        if theirs.version != ours.version || theirs.checksum != expected {
            let found = theirs.checksum.clone();
            return Err(StoreError::ChangedMigration { version: ours.version, found, expected });
        }
    }
    Ok(&known[applied.len().min(known.len())..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Timestamp;

    const KNOWN: [Migration; 2] = [
        Migration { version: 1, name: "one", sql: "create table a (x)" },
        Migration { version: 2, name: "two", sql: "create table b (x)" },
    ];

    fn applied(version: u32, checksum: String) -> AppliedMigration {
        AppliedMigration { version, name: "any".into(), checksum, applied_at: Timestamp::MIN }
    }

    #[test]
    fn only_missing_migrations_are_applied() {
        assert_eq!(missing(&KNOWN, &[]).unwrap().len(), 2);
        let one = applied(1, KNOWN[0].checksum());
        assert_eq!(missing(&KNOWN, std::slice::from_ref(&one)).unwrap()[0].version, 2);
        assert!(missing(&KNOWN, &[one, applied(2, KNOWN[1].checksum())]).unwrap().is_empty());
    }

    #[test]
    fn a_newer_or_altered_store_is_refused() {
        let newer = missing(&KNOWN, &[applied(3, "x".into())]).unwrap_err();
        assert!(newer.to_string().contains("schema version 3, but this version of Punctual supports up to 2"));
        let altered = missing(&KNOWN, &[applied(1, "beef".into())]).unwrap_err();
        assert!(altered.to_string().contains("checksum beef"));
    }
}
