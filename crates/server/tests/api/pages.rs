//! The pages of the dashboard without JavaScript: who may see them, which requests they refuse, and which data they
//! never show.

use std::time::Duration;

use punctual_client::Draft;
use punctual_core::{Heartbeat, JobDefaults, RetryPolicy, Role, WorkerId};
use reqwest::{Client, Method, Response, redirect::Policy};
use serde_json::json;

use crate::common::World;

/// A browser that does not follow redirects.
struct Visitor<'w> {
    world: &'w World,
    client: Client,
    cookie: Option<String>,
}

impl<'w> Visitor<'w> {
    fn new(world: &'w World) -> Self {
        Self { world, client: Client::builder().redirect(Policy::none()).build().unwrap(), cookie: None }
    }

    /// A browser that is logged in with a token of this role.
    async fn logged_in(world: &'w World, role: Role) -> Self {
        let mut visitor = Self::new(world);
        let secret = world.token(role).await;
        let answer = visitor.send("/login", &[("token", secret.as_str())]).await;
        if answer.status() == 303 {
            let cookie = answer.headers()["set-cookie"].to_str().unwrap();
            assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
            visitor.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        }
        visitor
    }

    async fn ask(&self, method: Method, path: &str, fields: &[(&str, &str)]) -> Response {
        let mut request = self.client.request(method.clone(), self.world.url(path));
        if method == Method::POST {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        request.send().await.unwrap()
    }

    async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        self.ask(Method::POST, path, fields).await
    }

    async fn page(&self, path: &str) -> String {
        let answer = self.ask(Method::GET, path, &[]).await;
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap()
    }

    /// The CSRF token of the session.
    async fn proof(&self) -> String {
        let page = self.page("/jobs").await;
        page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }
}

fn address(path: &str) -> String {
    let id = if path.starts_with("/workflows") { "wfl" } else { "job" };
    let id = format!("{id}_00000000000000000000000000000001");
    path.replace("{id}", &id).replace("{name}", "some").replace("{verb}", "retry")
}

#[tokio::test]
async fn every_page_requires_the_role_read_and_every_form_the_role_admin() {
    let world = World::new().await;
    world.token(Role::Admin).await;
    let anonymous = Visitor::new(&world);
    let mut visitors = Vec::new();
    for role in Role::ALL {
        visitors.push((role, Visitor::logged_in(&world, role).await));
    }
    let in_session: Vec<Role> =
        visitors.iter().filter(|(_, visitor)| visitor.cookie.is_some()).map(|(role, _)| *role).collect();
    assert_eq!(in_session, [Role::Read, Role::Admin], "only tokens that may read can start a session");
    for (method, path, needed) in punctual_server::pages() {
        // The response is endless.
        if path == "/live" {
            continue;
        }
        let method: Method = method.parse().unwrap();
        let refused = anonymous.ask(method.clone(), &address(path), &[]).await;
        assert!(refused.headers()["location"].to_str().unwrap().starts_with("/login"), "{method} {path}");
        for (role, visitor) in visitors.iter().filter(|(_, visitor)| visitor.cookie.is_some()) {
            let proof = visitor.proof().await;
            let answer = visitor.ask(method.clone(), &address(path), &[("csrf", &proof), ("verb", "retry")]).await;
            let allowed = *role == needed || *role == Role::Admin;
            assert_eq!(answer.status() == 403, !allowed, "{method} {path} as {role}: {}", answer.status());
            assert!(answer.status().as_u16() < 500, "{method} {path} as {role}: {}", answer.status());
            if method == Method::POST && allowed {
                let forged = visitor.ask(method.clone(), &address(path), &[("csrf", "forged")]).await;
                assert_eq!(forged.status(), 403, "{method} {path} with a forged proof");
            }
        }
    }
}

#[tokio::test]
async fn a_session_is_no_token_and_ends_with_its_token() {
    let world = World::new().await;
    let visitor = Visitor::logged_in(&world, Role::Admin).await;
    let secret = visitor.cookie.as_deref().unwrap().split_once('=').unwrap().1;
    let as_token = world.send(world.client.get(world.url("/v1/stats")).bearer_auth(secret)).await;
    assert_eq!(as_token.problem(), (401, "unauthorized"));
    // The dashboard's scripts may call the API with the CSRF token.
    let ask = |proof: Option<String>| {
        let request =
            world.client.post(world.url("/v1/queues/mail/pause")).header("cookie", visitor.cookie.as_deref().unwrap());
        world.send(match proof {
            Some(proof) => request.header("x-csrf-token", proof),
            None => request,
        })
    };
    assert_eq!(ask(None).await.problem(), (403, "forbidden"));
    assert_eq!(ask(Some(visitor.proof().await)).await.status, 204);
    let token = world.punctual.admin("test").tokens().await.unwrap().remove(0);
    world.punctual.admin("test").revoke_token(token.id, true).await.unwrap();
    world.token(Role::Read).await;
    let gone = async || visitor.ask(Method::GET, "/jobs", &[]).await.status() == 303;
    // The session may stay cached for a moment.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !gone().await {
        assert!(std::time::Instant::now() < deadline, "a session outlives its token");
    }
}

#[tokio::test]
async fn a_wrong_token_and_another_site_are_refused() {
    let world = World::new().await;
    world.token(Role::Admin).await;
    let visitor = Visitor::new(&world);
    let wrong = visitor.send("/login", &[("token", "punctual_<b>"), ("to", "//evil.example")]).await;
    assert_eq!(wrong.status(), 401);
    let page = wrong.text().await.unwrap();
    assert!(
        page.contains("invalid, expired or revoked token") && !page.contains("<b>") && !page.contains("evil"),
        "{page}"
    );
    let secret = world.token(Role::Read).await;
    let astray = visitor.send("/login", &[("token", &secret), ("to", "https://evil.example/")]).await;
    assert_eq!((astray.status().as_u16(), astray.headers()["location"].to_str().unwrap()), (303, "/"));
    let other_site = visitor.client.post(world.url("/login")).header("origin", "https://evil.example");
    let other_site =
        other_site.header("content-type", "application/x-www-form-urlencoded").body(format!("token={secret}"));
    assert_eq!(other_site.send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn without_tokens_only_pages_of_this_machine_may_change_anything() {
    let world = World::new().await;
    let visitor = Visitor::new(&world);
    assert!(visitor.page("/").await.contains("no authentication"));
    let from =
        |origin: &str| visitor.client.post(world.url("/queues/mail/pause")).header("origin", origin).body("").send();
    assert_eq!(from("https://evil.example").await.unwrap().status(), 403);
    assert_eq!(from(&world.server.url()).await.unwrap().status(), 303);
    assert!(world.punctual.admin("test").queue("mail").await.unwrap().queue.settings.paused);
}

#[tokio::test]
async fn nothing_that_jobs_carry_becomes_markup_and_no_secret_is_shown() {
    let world = World::new().await;
    let nasty = "\"><script>alert(1)</script>";
    let payload = json!({"password": "hunter2", "<img src=x>": nasty});
    let draft =
        Draft::new("mail", &payload).queue("q<b>").user(nasty).tag(nasty).description(nasty).correlation_id(nasty);
    let id = world.punctual.enqueue(draft).await.unwrap().id;
    world.punctual.admin(nasty).cancel(id, Some(nasty.to_owned())).await.unwrap();
    let visitor = Visitor::new(&world);
    for path in [
        "/".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs/{id}"),
        "/queues".to_owned(),
        "/queues/q%3Cb%3E".to_owned(),
        "/reports".to_owned(),
        format!("/jobs?q={}", "%22%3E%3Cscript%3E"),
        "/jobs?name=%3Cscript%3E".to_owned(),
    ] {
        let page = visitor.page(&path).await;
        assert!(
            !page.contains("<script>") && !page.contains("<img src=x>") && !page.contains("q<b>"),
            "{path}: {page}"
        );
        assert!(!page.contains("hunter2"), "{path}");
    }
}

#[tokio::test]
async fn error_pages_name_the_problem() {
    let world = World::new().await;
    let visitor = Visitor::new(&world);
    for (path, status, expected) in [
        ("/jobs/nonsense", 400, "id"),
        ("/jobs/job_00000000000000000000000000000001", 404, "job_00000000000000000000000000000001"),
        ("/jobs?status=odd", 400, "status"),
        ("/jobs?after=odd", 400, "after"),
        ("/workflows/wfl_00000000000000000000000000000001", 404, "wfl_"),
        ("/schedules/none", 404, "none"),
        ("/?range=2y", 400, "range"),
    ] {
        let answer = visitor.ask(Method::GET, path, &[]).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.headers()["content-type"], "text/html; charset=utf-8");
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(expected), "{path} should contain {expected}: {page}");
    }
    let huge = visitor.send("/queues/mail/limits", &[("concurrency", "99999999999")]).await;
    assert_eq!(huge.status(), 400);
    assert!(huge.text().await.unwrap().contains("concurrency: invalid number `99999999999`"));
    for (field, bad) in [("priority", "11"), ("max_attempts", "0"), ("timeout", "soon"), ("retry", "often")] {
        let answer = visitor.send("/queues/mail/defaults", &[(field, bad)]).await;
        assert_eq!(answer.status(), 400, "{field}");
        assert!(answer.text().await.unwrap().contains(&format!("{field}: ")), "{field}");
    }
    let defaults = world.punctual.admin("test").queue("mail").await.unwrap().queue.settings.defaults;
    assert_eq!(defaults, JobDefaults::default(), "nothing is half done");
}

#[tokio::test]
async fn unknown_pages_jobs_and_queues_are_answered_within_the_layout() {
    let world = World::new().await;
    let visitor = Visitor::new(&world);
    let ask = async |path: &str, accept: &str| {
        let answer = visitor.client.get(world.url(path)).header("accept", accept).send().await.unwrap();
        // An answer that redirects has no content.
        let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        (answer.status().as_u16(), kind, answer.text().await.unwrap())
    };
    for path in ["/nothing/here", "/jobs/", "/jobs/job_00000000000000000000000000000001", "/queues/unknown"] {
        let (status, kind, page) = ask(path, "text/html,*/*;q=0.8").await;
        assert_eq!((status, kind.as_deref()), (404, Some("text/html; charset=utf-8")), "{path}");
        assert!(page.contains("class=\"rail\"") && page.contains("not found"), "{path}: {page}");
    }
    for (path, accept) in [("/nothing/here", "*/*"), ("/v1/nothing", "text/html")] {
        let (status, kind, _) = ask(path, accept).await;
        assert_eq!((status, kind.as_deref()), (404, Some("application/problem+json")), "{path}");
    }
    world.token(Role::Admin).await;
    assert_eq!(ask("/nothing/here", "text/html").await.0, 303, "a stranger has to log in first");
}

#[tokio::test]
async fn many_queues_are_shown_in_pages() {
    const QUEUES: usize = 5_000;
    const PAGE_MAX_BYTES: usize = 100_000;
    let world = World::new().await;
    let name = |number: usize| format!("queue-{number:04}");
    let jobs = (0..QUEUES).map(|number| Draft::new("mail", &()).queue(name(number)));
    world.punctual.enqueue_all(jobs).await.unwrap();
    world.punctual.enqueue(Draft::new("mail", &()).queue(name(4_321))).await.unwrap();
    let visitor = Visitor::new(&world);
    let links = |page: &str| -> Vec<String> {
        let rows = page.split("<td class=\"main\"><a href=\"/queues/").skip(1);
        rows.map(|row| row.split('"').next().unwrap().to_owned()).collect()
    };
    let overview = visitor.page("/").await;
    assert!(overview.len() <= PAGE_MAX_BYTES, "{} bytes", overview.len());
    assert!(overview.contains("<a class=\"more\" href=\"/queues\">All 5,000</a>"), "{overview}");
    assert!(links(&overview).contains(&name(4_321)), "the queue with the most jobs is listed");
    let (mut listed, mut next) = (Vec::new(), Some("/queues".to_owned()));
    while let Some(path) = next {
        let page = visitor.page(&path).await;
        assert!(page.len() <= PAGE_MAX_BYTES, "{path}: {} bytes", page.len());
        listed.extend(links(&page));
        let link = page.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
        next = link.map(|link| link.replace("&amp;", "&"));
    }
    assert_eq!(listed, (0..QUEUES).map(name).collect::<Vec<_>>());
    assert_eq!(links(&visitor.page("/queues?name=-4321").await), [name(4_321)]);
    assert_eq!(links(&visitor.page("/queues?name=queue-43?0").await).len(), 10);
    assert!(visitor.page("/queues?name=none").await.contains("No matching queues."));
}

#[tokio::test]
async fn jobs_without_a_handler_are_reported_with_what_to_do() {
    let world = World::new().await;
    let id = world.punctual.enqueue(Draft::new("send mail", &()).queue("post")).await.unwrap().id;
    let heartbeat = Heartbeat {
        id: WorkerId::from_bits(1),
        host: "here".to_owned(),
        pid: 1,
        queues: Vec::new(),
        names: vec!["other".to_owned()],
        concurrency: 4,
        running: 0,
        registered_by: None,
    };
    world.punctual.store().heartbeat(heartbeat).await.unwrap();
    let visitor = Visitor::new(&world);
    let overview = visitor.page("/").await;
    assert!(overview.contains("</bdi> has a handler for <bdi>send mail</bdi>; 1 job is ready"), "{overview}");
    for page in [overview, visitor.page(&format!("/jobs/{id}")).await] {
        assert!(page.contains("declare [handlers.&quot;send mail&quot;] in punctual.toml"), "{page}");
    }
}

#[tokio::test]
async fn a_form_keeps_settings_that_it_cannot_express() {
    let world = World::new().await;
    let (admin, visitor) = (world.punctual.admin("test"), Visitor::new(&world));
    let retry = RetryPolicy::exponential(Duration::from_secs(5)).cap(Duration::from_secs(60)).jitter(0.5);
    let before = JobDefaults { retry: Some(retry.clone()), ..JobDefaults::default() };
    admin.set_queue_defaults("mail", before).await.unwrap();
    let typed = [("priority", "7"), ("timeout", "1m 30s"), ("retry", "exponential:5s"), ("keep_for", "7d")];
    let saved = visitor.send("/queues/mail/defaults", &typed).await;
    assert_eq!(saved.status(), 303);
    let known = async || admin.queue("mail").await.unwrap().queue.settings.defaults;
    let expected = JobDefaults {
        priority: Some(7),
        timeout: Some(Duration::from_secs(90)),
        keep_for: Some(Duration::from_secs(7 * 24 * 3_600)),
        retry: Some(retry),
        ..JobDefaults::default()
    };
    assert_eq!(known().await, expected);
    visitor.send("/queues/mail/defaults", &[("retry", "fixed:1s")]).await;
    let retry = Some(RetryPolicy::fixed(Duration::from_secs(1)));
    assert_eq!(known().await, JobDefaults { retry, ..JobDefaults::default() }, "an empty field is none");
}
