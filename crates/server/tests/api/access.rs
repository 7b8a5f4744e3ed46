//! Access control: every route for every role and without one; and the addresses that a server may listen on.

use std::time::Duration;

use punctual_client::admin::{Access, Retention};
use punctual_core::{Error, Role, TokenId};
use punctual_server::{RequestLimits, Server, StartError, Tls};
use reqwest::Method;
use serde_json::json;

use crate::common::{World, until};

/// A URL of a route, with ids that may not exist.
fn address(path: &str) -> String {
    let id = match path {
        path if path.starts_with("/v1/workflows") => "wfl_00000000000000000000000000000001",
        path if path.starts_with("/v1/tokens") => "tok_00000000000000000000000000000001",
        _ => "job_00000000000000000000000000000001",
    };
    path.replace("{id}", id).replace("{name}", "some").replace("{verb}", "retry")
}

#[tokio::test]
async fn every_route_is_for_its_role_and_for_admins_only() {
    let world = World::new().await;
    let mut tokens = Vec::new();
    for role in Role::ALL {
        tokens.push((role, world.token(role).await));
    }
    for (method, path, needed) in punctual_server::routes() {
        let ask = |secret: Option<&str>| {
            let request = world.client.request(method.parse::<Method>().unwrap(), world.url(&address(path)));
            let request = if method == "GET" { request } else { request.json(&json!({})) };
            world.send(match secret {
                Some(secret) => request.bearer_auth(secret),
                None => request,
            })
        };
        assert_eq!(ask(None).await.problem(), (401, "unauthorized"), "{method} {path} without a token");
        for (role, secret) in &tokens {
            let answer = ask(Some(secret)).await;
            let allowed = *role == needed || *role == Role::Admin;
            let refused = answer.status == 403;
            assert_eq!(refused, !allowed, "{method} {path} as {role}: {answer:?}");
            assert!(answer.status != 401 && answer.status.as_u16() < 500, "{method} {path} as {role}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_token_counts_at_once_and_no_longer_than_it_is_valid() {
    let world = World::new().await;
    let admin = world.token(Role::Admin).await;
    let ask = |secret: String| world.send(world.client.get(world.url("/v1/stats")).bearer_auth(secret));
    assert!(ask(admin.clone()).await.status.is_success());
    let made = world.client.post(world.url("/v1/tokens")).bearer_auth(&admin);
    let made = world.send(made.json(&json!({"name": "reader", "roles": ["read"]}))).await.good();
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap().to_owned());
    assert!(ask(secret.clone()).await.status.is_success());
    let list = world.send(world.client.get(world.url("/v1/tokens")).bearer_auth(&admin)).await.good();
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert!(!list.to_string().contains(&secret) && !list.to_string().contains("hash"), "no secret is shown");
    let revoked = world.send(world.client.delete(world.url(&format!("/v1/tokens/{id}"))).bearer_auth(&admin)).await;
    assert_eq!(revoked.good(), json!({"revoked": true}));
    assert_eq!(ask(secret).await.problem(), (401, "unauthorized"));
    assert_eq!(ask("punctual_wrong".into()).await.problem(), (401, "unauthorized"));
    let short = world.punctual.admin("test").create_token("short", [Role::Read], Some(Duration::from_millis(1))).await;
    let short = short.unwrap().secret;
    until("the token to expire", async || ask(short.clone()).await.status == 401).await;
    assert_eq!(ask(short).await.problem(), (401, "unauthorized"));
    let basic = world.client.get(world.url("/v1/stats")).header("authorization", "Basic eDp5");
    assert_eq!(world.send(basic).await.problem(), (401, "unauthorized"));
}

#[tokio::test]
async fn actions_are_recorded_with_the_name_of_the_token() {
    let world = World::new().await;
    let admin = world.token(Role::Admin).await;
    let post =
        |path: String| world.send(world.client.post(world.url(&path)).bearer_auth(&admin).json(&json!({"name": "a"})));
    let id = post("/v1/jobs".into()).await.good()["id"].as_str().unwrap().to_owned();
    let cancel = world.client.post(world.url(&format!("/v1/jobs/{id}/cancel"))).bearer_auth(&admin);
    assert_eq!(world.send(cancel).await.status, 204);
    let shown = world.send(world.client.get(world.url(&format!("/v1/jobs/{id}"))).bearer_auth(&admin)).await.good();
    assert_eq!(shown["job"]["created_by"], "token:admin");
    assert_eq!(shown["events"].as_array().unwrap().last().unwrap()["actor"], "token:admin");
}

#[tokio::test]
async fn an_open_server_answers_this_machine_only_and_no_page_of_another_site() {
    let world = World::new().await;
    let ask = |name: &'static str, value: &'static str| {
        world.send(world.client.get(world.url("/v1/stats")).header(name, value))
    };
    assert_eq!(ask("host", "evil.example").await.problem(), (403, "forbidden"), "a name that was made to lead here");
    assert!(ask("host", "localhost:7878").await.status.is_success());
    assert_eq!(ask("origin", "https://evil.example").await.problem(), (403, "forbidden"));
    assert_eq!(ask("sec-fetch-site", "cross-site").await.problem(), (403, "forbidden"));
    // Once a token exists, every request needs one at once.
    world.token(Role::Read).await;
    assert_eq!(world.get("/v1/stats").await.problem(), (401, "unauthorized"));
}

#[tokio::test]
async fn a_store_that_had_a_token_stays_closed_until_it_is_opened() {
    let world = World::new().await;
    let admin = world.punctual.admin("test");
    assert_eq!(admin.access().await.unwrap(), Access::Open);
    assert!(world.get("/v1/stats").await.status.is_success());
    let short = Some(Duration::from_millis(1));
    admin.create_token("short", [Role::Admin], short).await.unwrap();
    let closed = Access::Closed { tokens: 0 };
    until("the token to expire", async || admin.access().await.unwrap() == closed).await;
    admin.cleanup(Retention::default(), |_| ()).await.unwrap();
    assert_eq!(admin.access().await.unwrap(), closed);
    assert_eq!(world.get("/v1/stats").await.problem(), (401, "unauthorized"), "it expired and was cleaned up");

    let token = admin.create_token("revoked", [Role::Read], None).await.unwrap().token;
    assert!(matches!(admin.open_access().await, Err(Error::TokensValid(1))));
    assert!(admin.revoke_token(token.id, false).await.unwrap());
    admin.cleanup(Retention::default(), |_| ()).await.unwrap();
    assert_eq!(world.get("/v1/stats").await.problem(), (401, "unauthorized"), "it was revoked");

    admin.open_access().await.unwrap();
    assert!(world.get("/v1/stats").await.status.is_success(), "an operator has opened it");
}

#[tokio::test]
async fn the_last_admin_token_is_revoked_only_if_that_is_confirmed() {
    let world = World::new().await;
    let admin = world.punctual.admin("test");
    let first = admin.create_token("first", [Role::Admin], None).await.unwrap();
    let second = admin.create_token("second", [Role::Admin, Role::Read], None).await.unwrap();
    world.token(Role::Work).await;
    let revoke = |id: TokenId, query: &str| {
        let url = world.url(&format!("/v1/tokens/{id}{query}"));
        world.send(world.client.delete(url).bearer_auth(&second.secret))
    };
    assert_eq!(revoke(first.token.id, "").await.good(), json!({"revoked": true}));
    let refused = revoke(second.token.id, "").await;
    assert_eq!(refused.problem(), (409, "refused"));
    assert!(refused.body["detail"].as_str().unwrap().contains("allow_last_admin=true"), "{refused:?}");
    assert_eq!(revoke(second.token.id, "?allow_last_admin=true").await.good(), json!({"revoked": true}));
}

#[tokio::test]
async fn a_server_that_others_can_reach_needs_tokens_and_tls() {
    let world = World::new().await;
    let server = || Server::new(world.punctual.clone());
    let address = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(server().start(address).await, Err(StartError::NoTokens(_))));
    let secret = world.token(Role::Read).await;
    assert!(matches!(server().start(address).await, Err(StartError::NoTls(_))));
    server().insecure_http(true).start(address).await.unwrap().stop(Duration::ZERO).await;

    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let tls = Some(Tls { certificate: certificate.clone(), key: key.clone() });
    assert!(matches!(server().tls(tls.clone()).start(address).await, Err(StartError::BadCertificate { .. })));
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let running = server().tls(tls).start(address).await.unwrap();
    let root = reqwest::Certificate::from_pem(own.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([root]).build().unwrap();
    let url = format!("https://localhost:{}/v1/stats", running.address().port());
    let answer = client.get(url).bearer_auth(secret).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.headers().contains_key("strict-transport-security"));
    running.stop(Duration::ZERO).await;

    let taken = world.server.address();
    assert!(matches!(server().start(taken).await, Err(StartError::CannotListen { .. })));
}

#[tokio::test]
async fn requests_are_bounded() {
    let limits =
        RequestLimits { body_max_bytes: 1_000, body_timeout: Duration::from_secs(1), ..RequestLimits::default() };
    let world = World::with(|server| server.limits(limits)).await;
    let large = json!({"name": "a", "payload": "x".repeat(1_000)});
    assert_eq!(world.post("/v1/jobs", large).await.problem(), (413, "too_large"));
    let answer = world.get("/v1/stats").await;
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert!(answer.headers.contains_key("x-request-id"));
    let own = world.send(world.client.get(world.url("/healthz")).header("x-request-id", "mine")).await;
    assert_eq!((own.status.as_u16(), own.headers["x-request-id"].to_str().unwrap()), (200, "mine"));
    assert_eq!(world.get("/readyz").await.good(), json!({"ready": true, "not_ready": []}));
}

#[tokio::test]
async fn the_first_token_may_have_a_secret_from_elsewhere() {
    let world = World::new().await;
    let admin = world.punctual.admin("setup");
    for weak in ["", "short", "twenty-four characters and spaces"] {
        let problem = admin.create_first_token("first", weak).await.unwrap_err().to_string();
        assert!(problem.contains("24 to 256") && (weak.is_empty() || !problem.contains(weak)), "{problem}");
    }
    let secret = "0123456789abcdef01234567";
    // Several processes start at once.
    let (one, other) =
        tokio::join!(admin.create_first_token("first", secret), admin.create_first_token("first", secret));
    assert_eq!([one, other].into_iter().filter(|created| created.as_ref().unwrap().is_some()).count(), 1);
    assert!(admin.create_first_token("first", "fedcba9876543210fedcba98").await.unwrap().is_none());
    let tokens = admin.tokens().await.unwrap();
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].allows(Role::Admin));
    assert_eq!(world.get("/v1/stats").await.problem(), (401, "unauthorized"));
    assert!(world.send(world.client.get(world.url("/v1/tokens")).bearer_auth(secret)).await.status.is_success());
    assert!(admin.revoke_token(tokens[0].id, true).await.unwrap());
    assert!(admin.create_first_token("first", secret).await.unwrap().is_none(), "it was revoked");
}

#[tokio::test]
async fn probes_alone_need_no_token_but_for_metrics() {
    let world = World::new().await;
    let state = std::sync::Arc::new(std::sync::Mutex::new(Some("the worker is draining".to_owned())));
    let problem = std::sync::Arc::clone(&state);
    let probes =
        Server::new(world.punctual.clone()).probes_only().ready_unless(move || problem.lock().unwrap().clone());
    let probes = probes.start("0.0.0.0:0".parse().unwrap()).await.unwrap();
    let get = |path: &str| world.send(world.client.get(format!("http://127.0.0.1:{}{path}", probes.address().port())));
    assert!(get("/healthz").await.status.is_success());
    let ready = get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.body["not_ready"]), (503, &json!(["the worker is draining"])));
    *state.lock().unwrap() = None;
    assert!(get("/readyz").await.status.is_success());
    assert_eq!(get("/metrics").await.problem(), (401, "unauthorized"));
    assert_eq!(get("/v1/jobs").await.problem(), (404, "not_found"));
    let secret = world.token(Role::Read).await;
    let url = format!("http://127.0.0.1:{}/metrics", probes.address().port());
    assert!(world.send(world.client.get(url).bearer_auth(secret)).await.status.is_success());
}
