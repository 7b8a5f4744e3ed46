//! Every page of the dashboard, with names that are hard to show, under the eyes of axe-core and html-validate.

use punctual_servers::PageCheckers;
use reqwest::{Client, Method};
use serde_json::{Map, Value, json};

use crate::{
    browser::Tab,
    shell::{Server, Shell, until},
};

const WIDE: (u32, u32) = (1_280, 900);
const PHONE: (u32, u32) = (390, 844);
const HEBREW: &str = "משימה יומית";
const ARABIC: &str = "قائمة الانتظار";

/// A name of the maximum length, without a place to break it.
fn long(prefix: &str) -> String {
    format!("{prefix}{}", "x".repeat(128 - prefix.len()))
}

/// A server, and a client of its API.
struct Site {
    _server: Server,
    shell: Shell,
    url: String,
    client: Client,
}

impl Site {
    fn start() -> Self {
        let shell = Shell::new();
        let server = Server::start(&shell, &["up"]);
        let url = server.url(&shell).trim_end_matches('/').to_owned();
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { _server: server, shell, url, client: Client::new() }
    }

    /// Sends a request to the API; returns the id in its answer, if there is one.
    async fn send(&self, method: Method, path: &str, body: Value) -> String {
        let response = self.client.request(method, format!("{}{path}", self.url)).json(&body).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        answer["id"].as_str().unwrap_or_default().to_owned()
    }

    async fn post(&self, path: &str, body: Value) -> String {
        self.send(Method::POST, path, body).await
    }

    /// A page, as the server sends it.
    async fn page(&self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.url)).header("accept", "text/html");
        request.send().await.unwrap().text().await.unwrap()
    }

    /// A workflow of jobs that do nothing, given by their names and parents.
    async fn workflow(&self, name: &str, jobs: impl IntoIterator<Item = (String, Vec<String>)>) -> String {
        let job = |(node, after): (String, Vec<String>)| (node, json!({"name": "noop", "after": after}));
        let jobs: Map<String, Value> = jobs.into_iter().map(job).collect();
        self.post("/v1/workflows", json!({"name": name, "jobs": jobs})).await
    }
}

/// A job on which ten others depend, and one that depends on these; their names end in numbers.
fn numbered() -> impl Iterator<Item = (String, Vec<String>)> {
    let node = |number: u32| format!("n{number}");
    (1..=12).map(move |number| match number {
        1 => (node(1), Vec::new()),
        12 => (node(12), (2..=11).map(node).collect()),
        number => (node(number), vec![node(1)]),
    })
}

/// Jobs with long names, with names from right to left, with braces, with errors of many lines. Returns pages by name.
async fn seeded(site: &Site) -> Vec<(&'static str, String)> {
    let payload = json!({("k".repeat(200)): "v".repeat(900), "list": [1, [2, [3, {"d": "{braces}"}]]]});
    let (queue, schedule) = (long("queue-"), long("schedule-"));
    let extreme = json!({
        "name": long("name-"), "queue": queue, "payload": payload, "tags": [long("tag-"), long("other-tag-"), "short"],
        "user": long("user-"), "correlation": long("correlation-"), "key": long("key-"),
        "concurrency_key": long("concurrency-key-"), "description": "d".repeat(500),
    });
    let extreme = site.post("/v1/jobs", extreme).await;
    let rtl = json!({"name": HEBREW, "queue": ARABIC, "payload": {(HEBREW): ARABIC}, "tags": [HEBREW], "user": ARABIC});
    let rtl = site.post("/v1/jobs", rtl).await;
    let braces = json!({"name": "render {{page}} <b>&amp;", "queue": "{queue}/a?b#c", "tags": ["{tag}"]});
    let braces = site.post("/v1/jobs", braces).await;
    let frames: String = (0..40).map(|frame| format!("\n  at frame {frame} of {}", "y".repeat(80))).collect();
    let message = format!("{}{frames}", "E".repeat(300));
    let dead = json!({"name": "fail", "payload": {"message": message}, "max_attempts": 2, "retry": "fixed:10ms"});
    let dead = site.post("/v1/jobs", dead).await;
    let workflow = site.workflow("numbers", numbered()).await;
    let long_nodes = (0..3).map(|number| (long(&format!("node{number}-")), Vec::new()));
    let long_workflow = site.workflow(&long("workflow-"), long_nodes).await;
    let nightly = json!({"cron": "0 3 * * *", "job": long("job-"), "queue": queue});
    site.send(Method::PUT, &format!("/v1/schedules/{schedule}"), nightly).await;
    site.send(Method::PUT, &format!("/v1/schedules/{HEBREW}"), json!({"cron": "0 4 * * *", "job": HEBREW})).await;
    site.post(&format!("/v1/locks/{}/acquire", long("lock-")), json!({"owner": long("owner-"), "ttl": "1h"})).await;
    site.post("/v1/notifications", json!({"user": long("user-"), "message": {"text": HEBREW.repeat(20)}})).await;
    site.post(&format!("/v1/queues/{queue}/pause"), json!({})).await;
    until("the job is dead", || site.shell.json(&["jobs", "show", &dead])["job"]["status"] == "dead");
    vec![
        ("overview", "/".to_owned()),
        ("overview-of-a-day", "/?range=24h".to_owned()),
        ("jobs", "/jobs".to_owned()),
        ("jobs-succeeded", "/jobs?status=succeeded".to_owned()),
        ("jobs-dead", "/jobs?status=dead&bulk=retry".to_owned()),
        ("jobs-searched", "/jobs?q=braces".to_owned()),
        ("no-jobs", "/jobs?name=none".to_owned()),
        ("job-extreme", format!("/jobs/{extreme}")),
        ("job-rtl", format!("/jobs/{rtl}")),
        ("job-braces", format!("/jobs/{braces}")),
        ("job-dead", format!("/jobs/{dead}")),
        ("workflows", "/workflows".to_owned()),
        ("workflow", format!("/workflows/{workflow}")),
        ("workflow-long", format!("/workflows/{long_workflow}")),
        ("schedules", "/schedules".to_owned()),
        ("schedule", format!("/schedules/{schedule}")),
        ("queues", "/queues".to_owned()),
        ("no-queues", "/queues?name=none".to_owned()),
        ("queue", format!("/queues/{queue}")),
        ("workers", "/workers".to_owned()),
        ("locks", "/locks".to_owned()),
        ("reports", "/reports".to_owned()),
        ("notifications", "/notifications".to_owned()),
        ("api", "/api".to_owned()),
        ("unknown-page", "/nothing/here".to_owned()),
        ("unknown-job", "/jobs/job_00000000000000000000000000000001".to_owned()),
        ("unknown-queue", "/queues/unknown".to_owned()),
        ("login", "/login".to_owned()),
    ]
}

/// What axe-core, which the current page has loaded, finds there with these options.
async fn violations(tab: &Tab, options: &str) -> Vec<String> {
    // Some folded parts are opened, since hidden parts are not examined.
    let open =
        "[...document.querySelectorAll('details:not(.confirm)')].slice(0, 12).forEach((one) => { one.open = true; })";
    tab.run(open).await;
    let script = format!(
        "const name = (rule, node) => `${{rule.id}}: ${{node.target.join(' ')}}: ${{node.failureSummary}}`;
        axe.run(document, {{ resultTypes: ['violations'], ...{options} }}).then(
            (found) => done(found.violations.flatMap((rule) => rule.nodes.map((node) => name(rule, node)))),
            (error) => done([String(error)]));"
    );
    let found = tab.run_async(&script).await;
    serde_json::from_value(found.clone()).unwrap_or_else(|_| panic!("axe-core answered {found}"))
}

#[tokio::test]
async fn pages_are_valid_and_accessible_and_no_wider_than_the_screen() {
    let checkers = PageCheckers::find().unwrap();
    let axe = checkers.axe().unwrap();
    let site = Site::start();
    let pages = seeded(&site).await;
    let tab = Tab::open(&site.url).await;
    // The first samples of the charts are taken within seconds.
    tab.go("/").await;
    tab.until("a chart is drawn", "document.querySelector('svg[data-chart]')").await;
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for (name, path) in &pages {
        texts.push(((*name).to_owned(), site.page(path).await));
        for size in [WIDE, PHONE] {
            let view = format!("{name}, {} pixels", size.0);
            tab.view(false, size).await;
            tab.go(path).await;
            tab.run(&axe).await;
            let found = violations(&tab, "{}").await;
            problems.extend(found.into_iter().map(|found| format!("{view}, light: {found}")));
            // Only colours differ.
            tab.view(true, size).await;
            let found = violations(&tab, "{ runOnly: ['color-contrast'] }").await;
            problems.extend(found.into_iter().map(|found| format!("{view}, dark: {found}")));
            tab.run("document.querySelectorAll('details.confirm').forEach(one => { one.open = true; })").await;
            let excess = tab.excess(size).await;
            problems.extend((excess > 0).then(|| format!("{view}: {excess} pixels wider than the screen")));
        }
    }
    problems.extend(checkers.validate(&texts).unwrap());
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    tab.close().await;
}

#[tokio::test]
async fn charts_of_a_young_store_show_its_first_minutes() {
    let site = Site::start();
    site.post("/v1/jobs", json!({"name": "noop"})).await;
    let tab = Tab::open(&site.url).await;
    for range in ["15m", "1h", "24h", "7d"] {
        tab.go(&format!("/?range={range}")).await;
        tab.until("a chart is drawn", "document.querySelector('svg[data-chart]')").await;
        let ticks =
            tab.run("return [...document.querySelectorAll('#charts .time')].map((one) => one.textContent)").await;
        let ticks: Vec<String> = serde_json::from_value(ticks).unwrap();
        assert!(ticks.iter().any(|tick| tick == "now"), "{range}: {ticks:?}");
        let hours_or_days = |tick: &String| tick.ends_with(" h") || tick.ends_with(" d");
        assert!(!ticks.iter().any(hours_or_days), "{range} of a store that is seconds old: {ticks:?}");
    }
    tab.close().await;
}

#[tokio::test]
async fn a_workflow_opens_at_its_root_and_is_in_natural_order() {
    let site = Site::start();
    let fan = (1..=30).map(|number| (format!("leaf{number}"), vec!["root".to_owned()]));
    let fan = site.workflow("fan", fan.chain([("root".to_owned(), Vec::new())])).await;
    let numbers = site.workflow("numbers", numbered()).await;
    let tab = Tab::open(&site.url).await;
    for size in [WIDE, PHONE] {
        tab.view(false, size).await;
        tab.go(&format!("/workflows/{fan}")).await;
        let is_visible = "const box = (css) => document.querySelector(css).getBoundingClientRect();
            const [graph, root] = [box('.graph'), box('.graph .root')];
            return root.top >= graph.top && root.bottom <= graph.bottom && root.left >= graph.left;";
        assert_eq!(tab.run(is_visible).await, true, "the root is out of sight at {size:?}");
    }
    tab.go(&format!("/workflows/{numbers}")).await;
    let expected: Vec<String> = (1..=12).map(|number| format!("n{number}")).collect();
    assert_eq!(tab.texts("#nodes td.main").await, expected);
    let drawn = "return [...document.querySelectorAll('.graph .name')]
        .map((one) => [one.getBoundingClientRect(), one.textContent])
        .sort(([a], [b]) => a.left - b.left || a.top - b.top).map(([, name]) => name)";
    assert_eq!(tab.run(drawn).await, json!(expected));
    tab.close().await;
}

#[tokio::test]
async fn a_phone_can_search_and_reach_every_page() {
    let site = Site::start();
    site.post("/v1/jobs", json!({"name": "noop", "payload": {"colour": "teal"}})).await;
    let tab = Tab::open(&site.url).await;
    tab.view(false, PHONE).await;
    tab.go("/").await;
    tab.type_into(".search input", "teal").await;
    tab.click(".search button").await;
    tab.until("the job is found", "document.querySelectorAll('#jobs tbody tr').length === 1").await;
    assert_eq!(tab.at().await, "/jobs?q=teal");
    let outside = "return [...document.querySelectorAll('.rail li a')].filter((one) => {
        const { left, right, bottom, width } = one.getBoundingClientRect();
        return left < 0 || right > 390 || bottom > 844 || width < 24;
    }).map((one) => one.title)";
    assert_eq!(tab.run(outside).await, json!([]), "links of the navigation are out of reach");
    tab.click(".rail a[href='/api']").await;
    tab.until("the API", "location.pathname === '/api'").await;
    tab.close().await;
}
