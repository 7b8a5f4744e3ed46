//! The OpenAPI document, generated from the routes.

use axum::http::Method;
use punctual_core::Role;
use schemars::{
    SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde_json::{Map, Value, json};

use crate::{problem::Problem, route::Route};

/// Location of schemas. Request schemas have their own until identical ones are merged.
const RESPONSES: &str = "/components/schemas";
const REQUESTS: &str = "/components/requests";

/// Generates the document.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut requests = generator(Contract::Deserialize, REQUESTS);
    let mut responses = generator(Contract::Serialize, RESPONSES);
    let problem = responses.subschema_for::<Problem>();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operation(route, &mut requests, &mut responses);
    }
    let (mut schemas, requests) = (responses.take_definitions(true), requests.take_definitions(true));
    let mut names = Vec::new();
    for (name, schema) in requests {
        // Schemas that are identical in requests and responses are written once.
        let response_schema = schema.to_string().replace(REQUESTS, RESPONSES);
        let own = match schemas.get(&name).map(Value::to_string) {
            Some(known) if known == response_schema => name.clone(),
            Some(_) => format!("{name}Input"),
            None => name.clone(),
        };
        schemas.insert(own.clone(), schema);
        names.push((format!("#{REQUESTS}/{name}\""), format!("#{RESPONSES}/{own}\"")));
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable jobs over HTTP. Times are RFC 3339, in UTC; durations in requests are texts such as `90s`, `5m` or `1h 30m`; \
                fields that end in `_ms` are milliseconds. A list that continues has `next`: send it as `after`. \
                A `POST` that creates jobs and has an `Idempotency-Key` takes effect once within 24 hours, even if it is repeated. \
                Payloads are shown as previews with secrets redacted; only workers receive them unchanged.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer",
                "description": "A token created with `punctual tokens create`. Not required for requests from this machine while no tokens exist.",
            } },
            "responses": { "Problem": {
                "description": "The error. Programs should rely on its `code`.",
                "content": { "application/problem+json": { "schema": problem } },
            } },
        },
        "security": [{ "token": [] }],
    });
    let text = names.iter().fold(document.to_string(), |text, (requests, own)| text.replace(requests, own));
    let mut document = serde_json::from_str(&text).unwrap_or(document);
    unwrap_descriptions(&mut document);
    document
}

/// Joins the lines of descriptions, which are wrapped in the source. Code blocks are kept as they are.
fn unwrap_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description")
                && !text.contains("```")
            {
                *text = text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
            }
            fields.values_mut().for_each(unwrap_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(unwrap_descriptions),
        _ => {}
    }
}

fn generator(contract: Contract, definitions_path: &'static str) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = definitions_path.into();
        settings.contract = contract;
        settings.meta_schema = None;
    });
    settings.into_generator()
}

fn operation(route: &Route, requests: &mut SchemaGenerator, responses: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": name(route),
        "tags": [noun(route)],
        "summary": route.about,
        "description": format!("Requires the role `{}`{}.", route.role, if route.role == Role::Admin { "" } else { ", or `admin`" }),
        "x-role": route.role,
        "parameters": parameters(route, requests),
        "responses": { "default": { "$ref": "#/components/responses/Problem" } },
    });
    if let Some(body) = route.body {
        let schema = body(requests);
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    match route.answer {
        Some(message) if route.is_socket => {
            let schema = message(responses);
            operation["responses"]["101"] = json!({
                "description": "A WebSocket. Each message is a JSON text.",
                "content": { "application/json": { "schema": schema } },
            });
        }
        Some(answer) => {
            let schema = answer(responses);
            operation["responses"]["200"] =
                json!({ "description": "Success.", "content": { "application/json": { "schema": schema } } });
        }
        None => operation["responses"]["204"] = json!({ "description": "Success." }),
    }
    operation
}

/// The path and query parameters, each with its own schema.
fn parameters(route: &Route, requests: &mut SchemaGenerator) -> Value {
    let schema = (route.params)(requests).to_value();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut parameters = Vec::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let mut schema = schema.clone();
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let in_path = route.path.contains(&format!("{{{name}}}"));
        let mut parameter = json!({
            "name": name,
            "in": if in_path { "path" } else { "query" },
            "required": in_path || required.contains(&name.as_str()),
            "schema": schema,
        });
        if let Some(about) = about {
            parameter["description"] = about;
        }
        parameters.push(parameter);
    }
    if route.method == Method::POST && route.role == Role::Enqueue {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "A request that is repeated with the same key within 24 hours creates nothing new.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        }));
    }
    Value::Array(parameters)
}

/// The tag of a route: the first part of its path.
fn noun(route: &Route) -> &str {
    route.path.trim_start_matches("/v1/").split('/').next().unwrap_or_default()
}

/// The operation id, such as `jobs_id_retry_post`.
fn name(route: &Route) -> String {
    let path = route.path.trim_start_matches("/v1/").replace(['{', '}'], "").replace('/', "_");
    format!("{path}_{}", route.method.as_str().to_lowercase())
}
