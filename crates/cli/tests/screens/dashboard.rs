//! The dashboard of `up --demo` in a real browser.

use serde_json::Value;

use crate::{
    browser::Tab,
    shell::{Server, Shell, until},
};

const WIDE: (u32, u32) = (1_280, 900);
const PHONE: (u32, u32) = (390, 844);

/// The first item of a list that matches.
fn first(list: &Value, is_it: impl Fn(&Value) -> bool) -> &Value {
    list.as_array().unwrap().iter().find(|one| is_it(one)).unwrap_or_else(|| panic!("{list}"))
}

/// A demo, once its jobs have reached their final statuses.
fn demo() -> (Shell, Server) {
    let shell = Shell::new();
    let server = Server::start(&shell, &["up", "--demo"]);
    server.url(&shell);
    until("three payments die", || shell.json(&["stats"])["queues"]["payments"]["dead"] == 3);
    until("all mail is sent, some of it at the second try", || {
        shell.json(&["stats"])["queues"]["mail"]["succeeded"] == 34
    });
    until("the import fails", || {
        let workflows = shell.json(&["workflows", "list"]);
        workflows["workflows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == "import" && one["status"] == "failed")
    });
    (shell, server)
}

#[tokio::test]
async fn every_page_is_drawn_light_and_dark_wide_and_on_a_phone() {
    let (shell, server) = demo();
    let tab = Tab::open(&server.url(&shell)).await;
    let dead = shell.json(&["jobs", "list", "--status", "dead"]);
    let job = first(&dead["jobs"], |job| job["queue"] == "payments")["id"].as_str().unwrap().to_owned();
    let workflows = shell.json(&["workflows", "list"]);
    let workflow = first(&workflows["workflows"], |one| one["name"] == "import")["id"].as_str().unwrap().to_owned();
    let pages = [
        ("overview", "/".to_owned(), "Needs attention"),
        ("jobs", "/jobs".to_owned(), "echo"),
        ("jobs-dead", "/jobs?status=dead&bulk=retry".to_owned(), "Retry 4 jobs?"),
        ("job", format!("/jobs/{job}"), "no such account"),
        ("workflows", "/workflows".to_owned(), "nightly"),
        ("workflow", format!("/workflows/{workflow}"), "Failed: 1 dead, 1 cancelled of 3."),
        ("schedules", "/schedules".to_owned(), "sales-report"),
        ("schedule", "/schedules/sales-report".to_owned(), "Europe/Berlin"),
        ("queues", "/queues".to_owned(), "payments"),
        ("queue", "/queues/mail".to_owned(), "Limits"),
        ("workers", "/workers".to_owned(), "live"),
        ("locks", "/locks".to_owned(), "Locks"),
        ("reports", "/reports".to_owned(), "Success by name"),
        ("notifications", "/notifications".to_owned(), "your film is ready"),
        ("api", "/api".to_owned(), "/v1/jobs/{id}"),
        ("nothing", "/jobs/job_00000000000000000000000000000001".to_owned(), "job_0000"),
        ("empty", "/jobs?name=nobody".to_owned(), "No matching jobs."),
        ("login", "/login".to_owned(), "Log in with a token."),
    ];
    for (name, path, expected) in pages {
        tab.go(&path).await;
        assert!(tab.text().await.contains(expected), "{name} should contain {expected}:\n{}", tab.text().await);
        for (dark, size) in [(false, WIDE), (true, WIDE), (false, PHONE), (true, PHONE)] {
            tab.picture(name, dark, size).await;
        }
    }
    // A missing page is a 404, which the console reports; no other errors are allowed, in particular none of the
    // content security policy.
    let complaints: Vec<String> = tab.complaints().await.into_iter().filter(|line| !line.contains("404")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    tab.close().await;
}

#[tokio::test]
async fn jobs_are_found_opened_retried_and_deleted() {
    let (shell, server) = demo();
    let tab = Tab::open(&server.url(&shell)).await;
    // Every number links to its list.
    tab.go("/").await;
    tab.click(".tile[href='/jobs?status=dead']").await;
    tab.until("the list of the dead", "location.search === '?status=dead'").await;
    tab.type_into(".filters input[name=queue]", "payments").await;
    tab.click(".filters button").await;
    tab.until("only those of payments", "document.querySelectorAll('#jobs tbody tr').length === 3").await;
    assert!(tab.at().await.contains("queue=payments") && tab.at().await.contains("status=dead"));
    // The list links to the job, and the job shows its reason.
    tab.press("j").await;
    tab.press("\u{e007}").await;
    tab.until_text("no retries left").await;
    let job = tab.at().await.rsplit('/').next().unwrap().to_owned();
    assert!(tab.text().await.contains("no such account"), "{}", tab.text().await);
    let tries = shell.json(&["jobs", "show", &job])["attempts"].as_array().unwrap().len();
    tab.press("r").await;
    tab.until_text("Job retried.").await;
    until("it dies once more", || shell.json(&["jobs", "show", &job])["attempts"].as_array().unwrap().len() > tries);
    let events = shell.json(&["jobs", "show", &job])["events"].clone();
    assert_eq!(first(&events, |event| event["actor"] != Value::Null)["actor"], "local");
    // A disabled button gives the reason.
    tab.go(&format!("/jobs/{job}")).await;
    let why =
        tab.run("return [...document.querySelectorAll('.actions button:disabled')].map(one => one.title).join()").await;
    assert!(why.as_str().unwrap().contains("cannot"), "{why}");
    // Search by payload, by id, and without matches.
    tab.go("/jobs").await;
    tab.press("/").await;
    tab.press("account: 2\u{e007}").await;
    tab.until("one is found", "document.querySelectorAll('#jobs tbody tr').length === 1").await;
    tab.go(&format!("/jobs?q={job}")).await;
    assert_eq!(tab.at().await, format!("/jobs/{job}"));
    // A bulk action, with the number of jobs and a confirmation.
    tab.go("/jobs?status=succeeded&queue=mail&name=echo").await;
    tab.click("[data-all]").await;
    tab.until_text("Delete 30").await;
    tab.click("button[value=delete]").await;
    tab.until_text("Yes, delete 30 jobs").await;
    tab.click(".question button").await;
    tab.until_text("delete: 30 jobs").await;
    until("they are deleted", || shell.json(&["stats"])["queues"]["mail"]["deleted"] == 30);
    tab.go("/jobs?status=dead&queue=payments").await;
    tab.click("a[href*='bulk=delete']").await;
    tab.until_text("Yes, delete 3 jobs").await;
    tab.click(".question button").await;
    tab.until_text("delete: 3 jobs").await;
    assert_eq!(tab.complaints().await, Vec::<String>::new());
    tab.close().await;
}

#[tokio::test]
async fn queues_are_paused_schedules_triggered_and_numbers_change_by_themselves() {
    let (shell, server) = demo();
    let tab = Tab::open(&server.url(&shell)).await;
    tab.go("/queues").await;
    tab.click("form[action='/queues/mail/pause'] button").await;
    tab.until_text("mail paused; running jobs finish.").await;
    let paused = || shell.json(&["queues", "show", "mail"])["paused"].clone();
    assert_eq!(paused(), true);
    // Another process enqueues a job while the page is open.
    tab.go("/queues/mail").await;
    tab.until("it is live", "document.getElementById('live').dataset.state === 'live'").await;
    let queued = "document.querySelector('#tiles .tile strong').textContent";
    tab.until("none is queued", &format!("{queued} === '0'")).await;
    shell.ok(&["enqueue", "echo", "{}", "--queue", "mail"]);
    tab.until("the number changes", &format!("{queued} === '1'")).await;
    tab.type_into("input[name=rate]", "5/1m").await;
    tab.click("form[action='/queues/mail/limits'] button").await;
    tab.until_text("Limits saved.").await;
    assert_eq!(shell.json(&["queues", "show", "mail"])["limits"]["rate"], "5/1m");
    tab.type_into("input[name=rate]", "often").await;
    tab.click("form[action='/queues/mail/limits'] button").await;
    tab.until_text("rate:").await;
    tab.go("/queues/mail").await;
    tab.type_into("input[name=max_attempts]", "7").await;
    tab.click("form[action='/queues/mail/defaults'] button").await;
    tab.until_text("Defaults saved.").await;
    assert_eq!(shell.json(&["queues", "show", "mail"])["defaults"]["max_attempts"], 7);
    tab.go("/queues").await;
    tab.click("form[action='/queues/mail/resume'] button").await;
    tab.until_text("mail resumed.").await;
    assert_eq!(paused(), false);
    // A schedule, a workflow.
    tab.go("/schedules").await;
    tab.click("form[action='/schedules/sales-report/trigger'] button").await;
    tab.until_text("sales-report triggered: job_").await;
    tab.go("/schedules/sales-report").await;
    tab.until("its job is there", "document.querySelectorAll('#jobs tbody tr').length === 1").await;
    tab.click("form[action='/schedules/sales-report/pause'] button").await;
    tab.until_text("sales-report: paused.").await;
    let workflows = shell.json(&["workflows", "list"]);
    let failed = first(&workflows["workflows"], |one| one["name"] == "import")["id"].as_str().unwrap().to_owned();
    tab.go(&format!("/workflows/{failed}")).await;
    assert_eq!(tab.run("return document.querySelectorAll('.workflow a').length").await, 3);
    tab.click("form[action$='/retry'] button").await;
    tab.until_text("Retried 1, renewed 1.").await;
    assert_eq!(tab.complaints().await.len(), 1, "only that a limit was refused: {:?}", tab.complaints().await);
    tab.close().await;
}

#[tokio::test]
async fn one_logs_in_with_a_token_and_out_again() {
    let shell = Shell::new();
    let secret = shell.ok(&["tokens", "create", "ada", "--role", "admin"]);
    let reader = shell.ok(&["tokens", "create", "grace", "--role", "read"]);
    let server = Server::start(&shell, &["up"]);
    let tab = Tab::open(&server.url(&shell)).await;
    tab.go("/jobs?status=dead").await;
    tab.until_text("Log in with a token.").await;
    tab.type_into("#token", "punctual_wrong").await;
    tab.click("button.primary").await;
    tab.until_text("invalid, expired or revoked token").await;
    tab.type_into("#token", secret.trim()).await;
    tab.click("button.primary").await;
    tab.until("it goes on to where they wanted to go", "location.search === '?status=dead'").await;
    assert_eq!(tab.run("return document.cookie").await, "", "no script can read the session");
    tab.go("/queues/mail").await;
    tab.click("form[action='/queues/mail/pause'] button").await;
    tab.until_text("mail paused").await;
    let events = shell.json(&["queues", "show", "mail"])["events"].clone();
    assert_eq!(events[0]["actor"], "token:ada");
    // A form that was not sent by a page of this session is refused.
    tab.run("document.querySelector('form[action$=resume] input[name=csrf]').value = 'forged'").await;
    tab.click("form[action='/queues/mail/resume'] button").await;
    tab.until_text("invalid CSRF token").await;
    assert_eq!(shell.json(&["queues", "show", "mail"])["paused"], true);
    tab.go("/").await;
    tab.click("form[action='/logout'] button").await;
    tab.until_text("Log in with a token.").await;
    tab.go("/jobs").await;
    tab.until_text("Log in with a token.").await;
    // A user who may only read finds no buttons.
    tab.type_into("#token", reader.trim()).await;
    tab.click("button.primary").await;
    tab.until("the jobs", "location.pathname === '/jobs'").await;
    tab.go("/queues/mail").await;
    assert_eq!(tab.run("return document.querySelectorAll('main form button').length").await, 0);
    tab.close().await;
}
