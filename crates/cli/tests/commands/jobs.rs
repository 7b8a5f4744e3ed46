//! Jobs from their enqueue to their end, by the commands of the program.

use serde_json::Value;

use crate::shell::Shell;

#[test]
fn a_newcomer_enqueues_works_and_reads_the_history() {
    let shell = Shell::new();
    let id = shell.ok(&[
        "enqueue",
        "echo",
        r#"{"hello": "world", "password": "hunter2"}"#,
        "--tag",
        "first",
        "--user",
        "ada",
    ]);
    let id = id.trim();
    shell.ok(&["work", "--until-empty"]);
    let history = shell.json(&["jobs", "show", id]);
    assert_eq!(history["job"]["status"], "succeeded");
    assert_eq!(history["job"]["payload_preview"]["password"], "[redacted]");
    assert_eq!(history["job"]["result_preview"]["password"], "[redacted]");
    assert_eq!(history["attempts"][0]["status"], "succeeded");
    let events: Vec<_> =
        history["events"].as_array().unwrap().iter().map(|event| event["status"].as_str().unwrap()).collect();
    assert_eq!(events, ["queued", "processing", "succeeded"]);
    let text = shell.ok(&["jobs", "show", id]);
    assert!(text.contains("Succeeded") && text.contains("Events") && !text.contains("hunter2"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours when piped");
    let stats = shell.json(&["stats"]);
    assert_eq!(stats["jobs"]["succeeded"], 1);
    assert_eq!(stats["jobs"]["dead"], 0);
    assert_eq!(stats["queues"]["default"]["succeeded"], 1);
}

#[test]
fn failing_jobs_retry_die_and_are_retried_by_hand() {
    let shell = Shell::new();
    let dead = shell.ok(&[
        "enqueue",
        "fail",
        r#"{"message": "no such account"}"#,
        "--retry",
        "fixed:0s",
        "--max-attempts",
        "2",
    ]);
    let recovers = shell.ok(&["enqueue", "fail", r#"{"times": 1}"#, "--retry", "fixed:0s"]);
    shell.ok(&["work", "--until-empty"]);
    let list = shell.json(&["jobs", "list", "--status", "dead"]);
    assert_eq!(list["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(list["jobs"][0]["id"], dead.trim());
    assert_eq!(list["next"], Value::Null);
    let history = shell.json(&["jobs", "show", dead.trim()]);
    assert_eq!(history["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(history["attempts"][1]["error"]["message"], "no such account");
    assert_eq!(history["logs"].as_array().unwrap().len(), 2);
    assert_eq!(shell.json(&["jobs", "show", recovers.trim()])["job"]["attempt"], 2);
    assert_eq!(shell.json(&["report", "failures"])["by_name"][0]["count"], 1);
    let success = shell.json(&["report", "success"]);
    assert_eq!(success["names"][0]["success_percent"], 50.0);
    shell.ok(&["jobs", "retry", dead.trim()]);
    assert_eq!(shell.json(&["jobs", "show", dead.trim()])["job"]["status"], "queued");
    let actor =
        shell.json(&["jobs", "show", dead.trim()])["events"].as_array().unwrap().last().unwrap()["actor"].clone();
    assert!(actor.as_str().unwrap().starts_with("cli"));
    // Refused: a succeeded job cannot be retried; enqueue a copy instead.
    let (code, stderr) = shell.fails(&["jobs", "retry", recovers.trim()]);
    assert!(code == 5 && stderr.contains("is succeeded and cannot become queued"), "{code} {stderr}");
    let again = shell.ok(&["jobs", "run", recovers.trim()]);
    assert!(again.contains("enqueued again as job_"), "{again}");
}

#[test]
fn bulk_actions_show_what_they_would_change_and_need_confirmation() {
    let shell = Shell::new();
    for queue in ["a", "a", "b"] {
        shell.ok(&["enqueue", "noop", "--queue", queue]);
    }
    let preview = shell.json(&["jobs", "cancel", "--queue", "a", "--dry-run"]);
    assert_eq!(preview["count"], 2);
    let (code, stderr) = shell.fails(&["jobs", "cancel", "--queue", "a"]);
    assert!(code == 2 && stderr.contains("would change 2 jobs; confirm with --yes"), "{stderr}");
    assert_eq!(shell.json(&["jobs", "cancel", "--queue", "a", "--yes"])["changed"], 2);
    assert_eq!(shell.json(&["stats"])["jobs"]["cancelled"], 2);
    let (code, stderr) = shell.fails(&["jobs", "retry", "--status", "queued", "--yes"]);
    assert!(code == 2 && stderr.contains("retry applies only to jobs that are dead, retrying"), "{stderr}");
}

#[test]
fn a_program_of_the_configuration_runs_as_a_handler() {
    let shell = Shell::new();
    let config = r#"
        store = "sqlite:other.db"
        [handlers.double]
        command = ["sh", "-c", "read n; echo working on $n >&2; echo $PUNCTUAL_ATTEMPT >&2; echo; echo $((n * 2))"]
        env = { SECRET = "x" }
        [handlers.breaks]
        command = ["sh", "-c", "echo no luck >&2; exit 3"]
        [handlers.hangs]
        command = ["sh", "-c", "trap '' TERM; sleep 600 & wait"]
        [handlers.absent]
        command = ["/no/such/program"]
    "#;
    std::fs::write(shell.path("punctual.toml"), config).unwrap();
    let double = shell.ok(&["enqueue", "double", "21"]);
    let breaks = shell.ok(&["enqueue", "breaks", "--max-attempts", "1"]);
    let hangs = shell.ok(&["enqueue", "hangs", "--max-attempts", "1", "--timeout", "200ms"]);
    let absent = shell.ok(&["enqueue", "absent", "--max-attempts", "1"]);
    shell.ok(&["work", "--until-empty"]);
    let history = shell.json(&["jobs", "show", double.trim()]);
    assert_eq!(history["job"]["result_preview"], 42);
    assert_eq!(history["logs"][0]["message"], "working on 21");
    assert_eq!(history["logs"][1]["message"], "1");
    let history = shell.json(&["jobs", "show", breaks.trim()]);
    assert_eq!(history["job"]["error"]["message"], "the program ended with exit status: 3: no luck");
    assert_eq!(history["logs"][0]["message"], "no luck");
    assert_eq!(shell.json(&["jobs", "show", hangs.trim()])["job"]["error"]["code"], "PUNCTUAL_E_TIMEOUT");
    let message = shell.json(&["jobs", "show", absent.trim()])["job"]["error"]["message"].to_string();
    assert!(message.contains("cannot start /no/such/program"), "{message}");
    assert!(shell.path("other.db").exists(), "the configuration names the store");
    std::fs::write(shell.path("punctual.toml"), "[worker]\nconcurency = 3\n").unwrap();
    let (code, stderr) = shell.fails(&["stats"]);
    assert!(code == 2 && stderr.contains("unknown key `concurency`; did you mean `concurrency`?"), "{stderr}");
}
