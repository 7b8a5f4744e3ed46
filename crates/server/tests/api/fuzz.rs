//! Random invalid requests, generated from the OpenAPI document: none may cause an internal error, hang, or reveal more
//! than it should.

use fastrand::Rng;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::common::World;

/// Number of requests per operation.
const ROUNDS: usize = 40;

const TEXTS: [&str; 22] = [
    "",
    " ",
    "a",
    "mail",
    "\0",
    "\u{202e}evil",
    "💥",
    "'; drop table punctual_jobs; --",
    "../../etc/passwd",
    "%00",
    "null",
    "-1",
    "1e999",
    "NaN",
    "99999999999999999999",
    "2026-02-30T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "1000000000d",
    "job_00000000000000000000000000000001",
    "att_00000000000000000000000000000001_1",
    "<script>alert(1)</script>",
    "queued",
];

struct Fuzz {
    rng: Rng,
    document: Value,
}

impl Fuzz {
    fn text(&mut self) -> String {
        match self.rng.u8(..20) {
            0 => "x".repeat(self.rng.usize(1..100_000)),
            1 => (0..self.rng.usize(..50)).map(|_| self.rng.char(..)).collect(),
            2 => format!("{}", self.rng.i64(..)),
            _ => self.rng.choice(TEXTS).unwrap().to_owned(),
        }
    }

    /// A random JSON value.
    fn anything(&mut self, depth: usize) -> Value {
        match self.rng.u8(..9) {
            0 => Value::Null,
            1 => json!(self.rng.bool()),
            2 => json!(self.rng.i64(..)),
            3 => json!(self.rng.f64() * 1e300),
            4 if depth > 0 => (0..self.rng.usize(..4)).map(|_| self.anything(depth - 1)).collect(),
            5 if depth > 0 => {
                let pairs = (0..self.rng.usize(..4)).map(|_| (self.text(), self.anything(depth - 1)));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
            _ => Value::String(self.text()),
        }
    }

    /// A value that matches a schema, apart from occasional random errors.
    fn fitting(&mut self, schema: &Value, depth: usize) -> Value {
        if self.rng.u8(..12) == 0 || depth == 0 {
            return self.anything(2);
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = self.document.pointer(reference.strip_prefix('#').unwrap()).unwrap().clone();
            return self.fitting(&schema, depth);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(options) = schema[choice].as_array() {
                let option = self.rng.choice(options).unwrap().clone();
                return self.fitting(&option, depth);
            }
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.rng.choice(values).unwrap().clone();
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.rng.choice(kinds).unwrap().clone(),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => (0..self.rng.usize(..4)).map(|_| self.fitting(&schema["items"], depth - 1)).collect(),
            Some("integer") => json!(self.rng.choice([0, 1, 2, 7, 100, -1, i64::MAX, i64::MIN]).unwrap()),
            Some("number") => json!(self.rng.choice([0.0, 0.5, 100.0, -1.0, 1e308]).unwrap()),
            Some("boolean") => json!(self.rng.bool()),
            Some("null") => Value::Null,
            Some("string") => match schema["pattern"].as_str().and_then(|pattern| pattern.get(1..5)) {
                Some(prefix) if self.rng.bool() => json!(format!("{prefix}{:032x}", self.rng.u128(..))),
                _ => Value::String(self.text()),
            },
            _ => self.anything(2),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        for (name, schema) in schema["properties"].as_object().cloned().unwrap_or_default() {
            if self.rng.u8(..3) > 0 {
                object.insert(name, self.fitting(&schema, depth - 1));
            }
        }
        if self.rng.u8(..10) == 0 || (schema["additionalProperties"].is_object() && self.rng.bool()) {
            let schema = schema["additionalProperties"].clone();
            object.insert(self.text(), self.fitting(&schema, depth - 1));
        }
        Value::Object(object)
    }

    /// The URL and body of a request for an operation.
    fn request(&mut self, path: &str, operation: &Value) -> (String, Option<Vec<u8>>) {
        let (mut path, mut query) = (path.to_owned(), form_urlencoded::Serializer::new(String::new()));
        for parameter in operation["parameters"].as_array().unwrap().clone() {
            let name = parameter["name"].as_str().unwrap();
            let value = match self.fitting(&parameter["schema"], 3) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            // The size of a request head is limited elsewhere.
            let value: String = value.chars().take(2_000).collect();
            if parameter["in"] == "path" {
                let encoded: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
                path = path.replace(&format!("{{{name}}}"), &encoded.replace('+', "%20"));
            } else if parameter["in"] == "query" && self.rng.bool() {
                query.append_pair(name, &value);
            }
        }
        if self.rng.u8(..15) == 0 {
            query.append_pair(&self.text().chars().take(50).collect::<String>(), "1");
        }
        let query = query.finish();
        let body = operation.get("requestBody").map(|body| {
            let mut body = self.fitting(&body["content"]["application/json"]["schema"], 6);
            // A waiting claim would slow the test down; waiting is not under test.
            body.as_object_mut().map(|body| body.remove("wait"));
            let mut bytes = serde_json::to_vec(&body).unwrap();
            if self.rng.u8(..10) == 0 {
                bytes.truncate(self.rng.usize(..=bytes.len()));
            }
            bytes
        });
        (if query.is_empty() { path } else { format!("{path}?{query}") }, body)
    }
}

#[tokio::test]
async fn bad_requests_are_refused_and_nothing_else() {
    let seed = std::env::var("PUNCTUAL_FUZZ_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("PUNCTUAL_FUZZ_SEED={seed}");
    let world = World::new().await;
    let mut fuzz = Fuzz { rng: Rng::with_seed(seed), document: punctual_server::openapi() };
    let (mut good, mut bad) = (0, 0);
    for (path, item) in fuzz.document["paths"].as_object().unwrap().clone() {
        for (method, operation) in item.as_object().unwrap().clone() {
            // The first token would lock out all requests without one.
            if (path.as_str(), method.as_str()) == ("/v1/tokens", "post") {
                continue;
            }
            for _ in 0..ROUNDS {
                let (address, body) = fuzz.request(&path, &operation);
                let shown = format!(
                    "{method} {address} {:?}",
                    body.as_ref().map(|body| String::from_utf8_lossy(body).chars().take(2_000).collect::<String>())
                );
                let request =
                    world.client.request(method.to_uppercase().parse::<Method>().unwrap(), world.url(&address));
                let request = match body {
                    Some(body) => request.header("content-type", "application/json").body(body),
                    None => request,
                };
                let answer = world.send(request).await;
                assert!(answer.status.as_u16() < 500, "{shown}: {answer:?}");
                if answer.status.is_client_error() {
                    bad += 1;
                    answer.problem();
                    let detail = answer.body["detail"].as_str().unwrap();
                    for leak in ["sqlite", "SQLite", "punctual.db", "panicked", "src/", "constraint"] {
                        assert!(!detail.contains(leak), "{shown}: {detail}");
                    }
                } else {
                    good += 1;
                }
            }
        }
    }
    assert!(good > 50 && bad > 500, "{good} were accepted and {bad} refused: the requests are of no use");
    assert_eq!(world.get("/readyz").await.good()["ready"], true);
}
