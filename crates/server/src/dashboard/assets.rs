//! The stylesheet, the script and the icon, which are compiled into the program.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

const FILES: [(&str, &str, &str); 3] = [
    ("punctual.css", "text/css; charset=utf-8", include_str!("assets/punctual.css")),
    ("punctual.js", "text/javascript; charset=utf-8", include_str!("assets/punctual.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// The URL of a file. It changes with the file's content, so that browsers may cache it without expiry.
pub(super) fn address(name: &str) -> String {
    static VERSION: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let digest = FILES.iter().fold(Sha256::new(), |hash, (.., text)| hash.chain_update(text)).finalize();
        digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    });
    format!("/assets/{name}?v={}", *VERSION)
}

pub(super) async fn serve(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => {
            let headers =
                [(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
            (headers, *text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
