//! Drives a real browser.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use punctual_servers::Browser;
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// The key under which the driver returns an element's id.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const WAIT_MAX: Duration = Duration::from_secs(60);

pub struct Tab {
    client: Client,
    session: String,
    site: String,
    _browser: Browser,
}

impl Tab {
    /// Opens a browser for this site.
    pub async fn open(site: &str) -> Self {
        let browser = Browser::start().unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(Duration::from_secs(120)).build().unwrap();
        let options = json!({"args": browser.arguments(), "binary": browser.chromium()});
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
        let answer = client.post(format!("{}/session", browser.url())).json(&wanted).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        let id = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let session = format!("{}/session/{id}", browser.url());
        Self { client, session, site: site.to_owned(), _browser: browser }
    }

    /// Sends a command to the driver, which may fail.
    async fn attempt(&self, method: Method, command: &str, body: Value) -> Result<Value, String> {
        let request = self.client.request(method.clone(), format!("{}{command}", self.session));
        let request = if method == Method::GET || method == Method::DELETE { request } else { request.json(&body) };
        let response = request.send().await.map_err(|error| error.to_string())?;
        let good = response.status().is_success();
        let answer: Value = response.json().await.map_err(|error| error.to_string())?;
        if good { Ok(answer["value"].clone()) } else { Err(answer["value"]["message"].to_string()) }
    }

    async fn command(&self, command: &str, body: Value) -> Value {
        self.attempt(Method::POST, command, body).await.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub async fn go(&self, path: &str) {
        self.command("/url", json!({"url": format!("{}{path}", self.site)})).await;
    }

    /// The path and query of the current page.
    pub async fn at(&self) -> String {
        self.run("return location.pathname + location.search").await.as_str().unwrap().to_owned()
    }

    /// Runs a script in the page.
    pub async fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// The visible text of the page.
    pub async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// The texts of all elements that match a selector.
    pub async fn texts(&self, css: &str) -> Vec<String> {
        let script = format!("return [...document.querySelectorAll({})].map(one => one.innerText)", json!(css));
        serde_json::from_value(self.run(&script).await).unwrap()
    }

    async fn find(&self, css: &str) -> Result<String, String> {
        let found = self.attempt(Method::POST, "/element", json!({"using": "css selector", "value": css})).await?;
        Ok(found[ELEMENT].as_str().unwrap_or_default().to_owned())
    }

    /// Clicks an element as soon as it is clickable: pages may change meanwhile.
    pub async fn click(&self, css: &str) {
        self.patiently(css, async || {
            let element = self.find(css).await?;
            self.attempt(Method::POST, &format!("/element/{element}/click"), json!({})).await
        })
        .await;
    }

    pub async fn type_into(&self, css: &str, text: &str) {
        self.patiently(css, async || {
            let element = self.find(css).await?;
            self.attempt(Method::POST, &format!("/element/{element}/clear"), json!({})).await?;
            self.attempt(Method::POST, &format!("/element/{element}/value"), json!({ "text": text })).await
        })
        .await;
    }

    /// Sends key presses to the focused element.
    pub async fn press(&self, keys: &str) {
        let keys: Vec<Value> = keys
            .chars()
            .flat_map(|key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})])
            .collect();
        self.command("/actions", json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})).await;
    }

    async fn patiently(&self, what: &str, act: impl AsyncFn() -> Result<Value, String>) {
        let deadline = Instant::now() + WAIT_MAX;
        while let Err(error) = act().await {
            assert!(Instant::now() < deadline, "{what}: {error}\n{}", self.text().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a script returns true.
    pub async fn until(&self, what: &str, script: &str) {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let answer = self
                .attempt(
                    Method::POST,
                    "/execute/sync",
                    json!({"script": format!("return Boolean({script})"), "args": []}),
                )
                .await;
            if answer == Ok(Value::Bool(true)) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain: {what}; at {}:\n{}",
                self.at().await,
                self.text().await
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page shows a text.
    pub async fn until_text(&self, text: &str) {
        self.until(text, &format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// The errors in the browser's console.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.command("/se/log", json!({"type": "browser"})).await;
        let complaints = log.as_array().into_iter().flatten().filter(|line| line["level"] == "SEVERE");
        complaints.map(|line| line["message"].to_string()).collect()
    }

    /// Takes a screenshot: file name, light or dark, size in pixels.
    pub async fn picture(&self, name: &str, dark: bool, (width, height): (u32, u32)) {
        let scheme = if dark { "dark" } else { "light" };
        // No colour transition may be in progress.
        let media = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.devtools("Emulation.setEmulatedMedia", media).await;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let picture = self.attempt(Method::GET, "/screenshot", Value::Null).await.unwrap();
        let folder = pictures();
        fs::create_dir_all(&folder).unwrap();
        fs::write(
            folder.join(format!("{name}-{scheme}-{width}.png")),
            BASE64_STANDARD.decode(picture.as_str().unwrap()).unwrap(),
        )
        .unwrap();
        // No part of the page may be wider than the screen.
        let wide = self.run("return document.documentElement.scrollWidth - innerWidth").await.as_i64().unwrap();
        assert!(wide <= 0, "{name} is {wide} pixels wider than {width}");
        self.devtools("Emulation.clearDeviceMetricsOverride", json!({})).await;
    }

    async fn devtools(&self, command: &str, params: Value) {
        self.command("/goog/cdp/execute", json!({"cmd": command, "params": params})).await;
    }

    pub async fn close(self) {
        self.attempt(Method::DELETE, "", Value::Null).await.unwrap();
    }
}

/// The folder of the screenshots.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots")
}
