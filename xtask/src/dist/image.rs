//! The OCI image: an archive that container engines load, made without one.
//!
//! It contains the program, the shared libraries that it needs, and CA certificates. There is no init: as PID 1, the
//! program reaps orphans itself. `manifest.json` is for `docker load`, `index.json` for everything else.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    install::Contents,
    release::{Release, debian_architecture},
    tree::{Tree, gzip, sha256},
};

/// The user and group of the program.
const USER: u32 = 10_001;
const DATA: &str = "/var/lib/punctual";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const NANOSECONDS: u64 = 1_000_000_000;

/// The archive.
pub(super) fn pack(release: &Release, contents: &Contents) -> Result<Vec<u8>> {
    let layer = layer(contents)?.tar("", release.epoch)?;
    let packed = gzip(&layer)?;
    let config = config(release, &sha256(&layer))?.to_string().into_bytes();
    let manifest = manifest(release, &config, &packed).to_string().into_bytes();
    let tag = format!("punctual:{}", release.version);
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest(&manifest),
            "size": manifest.len(),
            "platform": { "architecture": debian_architecture()?, "os": "linux" },
            "annotations": {
                "io.containerd.image.name": format!("docker.io/library/{tag}"),
                "org.opencontainers.image.ref.name": release.version,
            },
        }],
    });
    let of_docker = json!([{ "Config": blob(&config), "RepoTags": [tag], "Layers": [blob(&packed)] }]);
    let mut archive = Tree::default();
    archive.file("oci-layout", 0o644, r#"{"imageLayoutVersion":"1.0.0"}"#);
    archive.file("index.json", 0o644, index.to_string());
    archive.file("manifest.json", 0o644, of_docker.to_string());
    for bytes in [config, manifest, packed] {
        archive.file(&blob(&bytes), 0o644, bytes);
    }
    archive.tar("", release.epoch)
}

/// The files of the image.
fn layer(contents: &Contents) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/punctual", 0o755, contents.program.bytes.clone());
    for library in &contents.libraries {
        let path = library.to_str().context("a library's path is not UTF-8")?;
        tree.copy(path.trim_start_matches('/'), 0o755, library)?;
    }
    let missing = "install the package ca-certificates";
    tree.copy(CERTIFICATES.trim_start_matches('/'), 0o644, Path::new(CERTIFICATES)).context(missing)?;
    contents.licences(&mut tree, "usr/share/doc/punctual/")?;
    tree.file(
        "etc/passwd",
        0o644,
        format!("root:x:0:0::/:/sbin/nologin\npunctual:x:{USER}:{USER}::{DATA}:/sbin/nologin\n"),
    );
    tree.file("etc/group", 0o644, format!("root:x:0:\npunctual:x:{USER}:\n"));
    // glibc reads it to resolve names.
    tree.file("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n");
    tree.folder(DATA.trim_start_matches('/'), 0o750, USER);
    tree.folder("tmp", 0o1777, 0);
    Ok(tree)
}

/// How engines run the image.
fn config(release: &Release, layer: &str) -> Result<Value> {
    Ok(json!({
        "architecture": debian_architecture()?,
        "os": "linux",
        "created": release.created,
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "PUNCTUAL_LISTEN=0.0.0.0:7878"],
            "ExposedPorts": { "7878/tcp": {} },
            "Entrypoint": ["/usr/bin/punctual"],
            "Cmd": ["serve"],
            "WorkingDir": DATA,
            "Volumes": { DATA: {} },
            "StopSignal": "SIGTERM",
            // Docker's field; engines that do not know it ignore it.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/punctual", "health"],
                "Interval": 10 * NANOSECONDS,
                "Timeout": 6 * NANOSECONDS,
                "StartPeriod": 60 * NANOSECONDS,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "punctual",
                "org.opencontainers.image.description": "A durable job scheduler",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.revision": release.commit,
                "org.opencontainers.image.created": release.created,
                "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": release.created, "created_by": "cargo xtask dist" }],
    }))
}

fn manifest(release: &Release, config: &[u8], layer: &[u8]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest(config),
            "size": config.len(),
        },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": digest(layer),
            "size": layer.len(),
        }],
        "annotations": {
            "org.opencontainers.image.version": release.version,
            "org.opencontainers.image.revision": release.commit,
        },
    })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

/// The path of content in the archive.
fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(bytes))
}
