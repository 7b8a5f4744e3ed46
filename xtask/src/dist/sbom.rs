//! The software bill of materials, in the JSON of CycloneDX.

use anyhow::Result;
use serde_json::{Value, json};

use super::{dependencies::Dependency, release::Release};

/// The document: the program, the crates that it contains, and which of them uses which.
pub(super) fn document(release: &Release, dependencies: &[Dependency]) -> Result<String> {
    let program = format!("pkg:cargo/punctual-cli@{}", release.version);
    let components: Vec<Value> =
        dependencies.iter().filter(|dependency| dependency.url() != program).map(component).collect();
    let uses = |dependency: &Dependency| json!({ "ref": dependency.url(), "dependsOn": dependency.uses });
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.created,
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist" }] },
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": "punctual",
                "version": release.version,
                "purl": program,
                "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
            },
        },
        "components": components,
        "dependencies": dependencies.iter().map(uses).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(dependency: &Dependency) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": dependency.url(),
        "name": dependency.name,
        "version": dependency.version,
        "purl": dependency.url(),
    });
    if let Some(licence) = &dependency.licence {
        component["licenses"] = json!([{ "expression": licence.replace(" / ", " OR ").replace('/', " OR ") }]);
    }
    if let Some(checksum) = &dependency.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}
