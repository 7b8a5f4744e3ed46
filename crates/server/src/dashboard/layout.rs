//! The layout around every page: head, navigation, title and messages.

use axum::{http::StatusCode, response::Response};
use maud::{DOCTYPE, Markup, html};

use super::{
    assets, components,
    page_context::{PageContext, html as document},
};
use crate::problem::Problem;

/// The pages of the navigation: address, icon, label, and the key after `g`.
const NAVIGATION: [(&str, &str, &str, &str); 10] = [
    ("/", "overview", "Overview", "o"),
    ("/jobs", "jobs", "Jobs", "j"),
    ("/workflows", "workflows", "Workflows", "w"),
    ("/schedules", "schedules", "Schedules", "s"),
    ("/queues", "queues", "Queues", "q"),
    ("/workers", "workers", "Workers", "k"),
    ("/locks", "locks", "Locks", "l"),
    ("/reports", "reports", "Reports", "r"),
    ("/notifications", "notifications", "Notifications", "n"),
    ("/api", "api", "API", "a"),
];

/// A page's title, its entry in the navigation, and the tools beside the title.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The address of its navigation entry.
    pub(super) under: &'a str,
    /// Shown instead of the title, if the heading needs more than text.
    pub(super) heading: Option<Markup>,
    /// Filters and actions, in the title's line.
    pub(super) tools: Markup,
}

impl<'a> Page<'a> {
    pub(super) fn new(title: &'a str, under: &'a str) -> Self {
        Self { title, under, heading: None, tools: html! {} }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Punctual" }
            link rel="icon" type="image/svg+xml" href=(assets::address("icon.svg"));
            link rel="stylesheet" href=(assets::address("punctual.css"));
            script src=(assets::address("punctual.js")) defer {}
        }
    }
}

impl PageContext {
    /// A page with the layout.
    pub(super) fn html(&self, page: Page<'_>, content: &Markup) -> Response {
        let mut response = document(StatusCode::OK, self::page(self, page, content));
        self.clear_flash(&mut response);
        response
    }
}

/// A page with the navigation.
fn page(context: &PageContext, page: Page<'_>, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(page.title))
            body {
                a.skip href="#main" { "Skip to content" }
                (navigation(context, page.under))
                main #main tabindex="-1" {
                    header.title {
                        @match &page.heading { Some(heading) => (heading), None => h1 { (page.title) } }
                        div.tools { (page.tools) }
                    }
                    @if let Some(message) = context.flash() { p.flash role="status" { (message) } }
                    (content)
                }
                (help())
            }
        }
    }
}

fn navigation(context: &PageContext, under: &str) -> Markup {
    html! {
        nav.rail aria-label="Pages" {
            a.mark href="/" { img src=(assets::address("icon.svg")) alt="" width="20" height="20"; span { "Punctual" } }
            form.search action="/jobs" role="search" {
                input type="search" name="q" placeholder="Search  /" aria-label="Search jobs by id, name, user, tag or payload" autocomplete="off";
            }
            ul {
                @for (to, icon, label, key) in NAVIGATION {
                    li { a href=(to) data-go=(key) title=(label) aria-current=[(to == under).then_some("page")] { (components::icon(icon)) span { (label) } } }
                }
            }
            footer {
                span.live #live data-state="off" title="Live updates" { i {} span { "static" } }
                span.store title=(context.app().store_name) { (context.app().store_name) }
                @match context.request.caller.display_name() {
                    Some(name) => form method="post" action="/logout" {
                        (components::proof(context))
                        span.muted title="The token of this session" { (name) }
                        @if context.request.caller.session().is_some() { button.quiet type="submit" { "Log out" } }
                    },
                    None => span.muted title="No tokens exist: every user of this machine has full access. Create one with `punctual tokens create`." { "no authentication" },
                }
            }
        }
    }
}

fn help() -> Markup {
    let keys = [
        ("/", "search"),
        ("g o", "overview"),
        ("g j", "jobs"),
        ("g w", "workflows"),
        ("g s", "schedules"),
        ("g q", "queues"),
        ("j k", "next, previous row"),
        ("Enter", "open the row"),
        ("x", "select the row"),
        ("r", "retry"),
        ("c", "cancel"),
        ("p", "pause or resume live updates"),
        ("?", "keyboard shortcuts"),
    ];
    html! {
        dialog #help aria-label="Keyboard shortcuts" {
            h2 { "Keyboard shortcuts" }
            dl { @for (key, action) in keys { div { dt { kbd { (key) } } dd { (action) } } } }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// A page without the navigation, for users who are not logged in.
pub(super) fn bare(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" { (head(title)) body.bare { main { (content) } } }
    }
}

/// An error page.
pub(super) fn problem(context: &PageContext, problem: Problem) -> Response {
    let content = html! {
        div.empty role="alert" {
            p.what { (problem.detail) }
            p.muted { a href=(context.back.as_deref().unwrap_or("/")) { "Go back" } }
        }
    };
    document(problem.code.status(), page(context, Page::new(problem.title, ""), &content))
}

/// An error page without the navigation.
pub(super) fn bare_problem(problem: Problem) -> Response {
    let content =
        html! { h1 { (problem.title) } p role="alert" { (problem.detail) } p { a href="/login" { "Log in" } } };
    document(problem.code.status(), bare(problem.title, &content))
}
