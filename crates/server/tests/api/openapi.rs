//! The OpenAPI document: the copy in the repository equals the one that the server returns.

use std::path::Path;

use serde_json::Value;

use crate::common::World;

#[tokio::test]
async fn the_copy_in_docs_is_the_served_document() {
    let world = World::new().await;
    let served = world.get("/v1/openapi.json").await.good();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&served).unwrap());
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let copy = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        copy == text,
        "docs/openapi.json is outdated; write it with PUNCTUAL_BLESS=1 cargo test -p punctual-server --test api"
    );
}

/// Every reference has a target.
#[test]
fn the_document_is_whole() {
    let document = punctual_server::openapi();
    let mut left = vec![&document];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    let pointer = reference.strip_prefix('#').expect("a reference within the document");
                    assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
                }
                left.extend(object.values());
            }
            Value::Array(array) => left.extend(array),
            _ => {}
        }
    }
    assert_eq!(document["openapi"], "3.1.0");
}

/// The table of docs/http.md lists every route and its role, and no others.
#[test]
fn the_table_in_docs_is_that_of_the_router() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells.len() == 6 && cells[2].starts_with("`/v1/")).then(|| cells[1..5].join(" "))
    };
    let mut written: Vec<String> = text.lines().filter_map(row).collect();
    let document = punctual_server::openapi();
    let about = |method: &str, path: &str| document["paths"][path][method.to_lowercase()]["summary"].clone();
    let routes = punctual_server::routes();
    let mut known: Vec<String> = routes
        .iter()
        .map(|(method, path, role)| format!("{method} `{path}` {role} {}", about(method, path).as_str().unwrap()))
        .collect();
    written.sort();
    known.sort();
    assert_eq!(written, known);
}
