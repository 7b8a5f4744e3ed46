//! The API reference, generated from the OpenAPI document.

use std::sync::LazyLock;

use maud::{Markup, html};
use serde_json::Value;

use super::{Answer, components, layout::Page, page_context::PageContext};
use crate::{
    openapi,
    route::{Nothing, Route},
    router,
};

/// Levels of a schema that are expanded.
const LEVELS_MAX: usize = 4;

/// The page's content, drawn once: it never changes while the process runs.
static CONTENT: LazyLock<Markup> = LazyLock::new(draw);

pub(super) async fn show(context: PageContext, _: Nothing) -> Answer {
    Ok(context.html(Page::new("API", "/api"), &CONTENT))
}

fn draw() -> Markup {
    let routes = router::routes();
    let document = openapi::document(&routes);
    html! {
        p.muted { (document["info"]["description"].as_str().unwrap_or_default()) }
        p { "OpenAPI document: " a href="/v1/openapi.json" { "/v1/openapi.json" } }
        @for (noun, routes) in by_noun(&routes) {
            section {
                h2 { (noun) }
                @for route in routes { (operation(route, &document)) }
            }
        }
    }
}

fn by_noun(routes: &[Route]) -> Vec<(String, Vec<&Route>)> {
    let mut nouns: Vec<(String, Vec<&Route>)> = Vec::new();
    for route in routes {
        let noun = route.path.split('/').nth(2).unwrap_or_default().to_owned();
        match nouns.iter_mut().find(|(known, _)| *known == noun) {
            Some((_, of_noun)) => of_noun.push(route),
            None => nouns.push((noun, vec![route])),
        }
    }
    nouns
}

fn operation(route: &Route, document: &Value) -> Markup {
    let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
    let params = operation["parameters"].as_array().cloned().unwrap_or_default();
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let answer = operation["responses"]
        .as_object()
        .and_then(|responses| responses.values().next())
        .map(|response| &response["content"]["application/json"]["schema"]);
    html! {
        details.operation {
            summary { code class={ "method m-" (route.method.as_str()) } { (route.method.as_str()) } code { (route.path) } span.muted { (route.about) } span.badge { (route.role) } }
            @if !params.is_empty() {
                h3 { "Parameters" }
                dl.facts { @for param in &params { div { dt { code { (param["name"].as_str().unwrap_or_default()) } } dd { (param["description"].as_str().unwrap_or_default()) " " (kind(&param["schema"])) } } } }
            }
            @if body.is_object() { h3 { "Request body" } (schema(body, document, 0)) }
            @if let Some(answer) = answer && answer.is_object() { h3 { "Response" } (schema(answer, document, 0)) }
        }
    }
}

/// Resolves a reference to a schema.
fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|to| to.strip_prefix('#')).and_then(|to| document.pointer(to)) {
        Some(found) => found,
        None => schema,
    }
}

fn schema(of: &Value, document: &Value, level: usize) -> Markup {
    let schema_of = resolved(of, document);
    if let Some(items) = schema_of.get("items").filter(|_| level < LEVELS_MAX) {
        return html! { p.muted { "Array of:" } (schema(items, document, level + 1)) };
    }
    let Some(fields) = schema_of["properties"].as_object().filter(|_| level < LEVELS_MAX) else {
        return kind(schema_of);
    };
    let required: Vec<&str> =
        schema_of["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        dl.facts {
            @for (name, field) in fields {
                div {
                    dt { code { (name) } @if required.contains(&name.as_str()) { span.muted title="required" { " *" } } }
                    dd {
                        (field["description"].as_str().or_else(|| resolved(field, document)["description"].as_str()).unwrap_or_default()) " " (kind(field))
                        @if resolved(field, document)["properties"].is_object() && level + 1 < LEVELS_MAX { details { summary { "fields" } (schema(field, document, level + 1)) } }
                    }
                }
            }
        }
    }
}

/// A short name of the type of a schema.
fn kind(schema: &Value) -> Markup {
    let name = match (&schema["type"], schema["$ref"].as_str(), schema["enum"].as_array()) {
        (_, _, Some(choices)) => choices.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        (_, Some(reference), _) => reference.rsplit('/').next().unwrap_or_default().to_owned(),
        (Value::String(kind), ..) => kind.clone(),
        (Value::Array(kinds), ..) => {
            kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    };
    html! { @if !name.is_empty() { code.muted { (components::cut(&name, 160)) } } }
}
