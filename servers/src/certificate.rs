//! Certificates for servers that use TLS.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// File names in the server's folder.
pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const CERTIFICATE: &str = "certificate.pem";
pub(crate) const KEY: &str = "key.pem";

/// Creates an authority, and a certificate for `localhost` issued by it.
pub(crate) fn make(folder: &Path) -> Result<()> {
    let (authority_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(folder.join(AUTHORITY), authority.self_signed(&authority_key)?.pem())?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])?.signed_by(&key, &issuer)?;
    fs::write(folder.join(CERTIFICATE), certificate.pem())?;
    fs::write(folder.join(KEY), key.serialize_pem())?;
    Ok(fs::set_permissions(folder.join(KEY), fs::Permissions::from_mode(0o600))?)
}
