//! Each command with the store and over HTTP.

use punctual::sqlite::rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    shell::{Server, until},
    world::World,
};

/// A text without what changes with time: numbers and units of time.
fn timeless(text: &str) -> String {
    let is_word = |word: &&str| !["s", "ms", "µs", "min", "h", "d"].contains(word);
    let word = |word: &str| word.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    let words = text.split_whitespace().filter(is_word).map(word).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// A world with jobs in many states, a workflow, a schedule and queues with settings; the ids of the jobs.
fn furnished() -> (World, Vec<String>) {
    let world = World::new();
    let shell = &world.shell;
    let id = |args: &[&str]| shell.ok(args).trim().to_owned();
    let mut ids = vec![
        id(&["enqueue", "fail", r#"{"message": "no such account"}"#, "--queue", "pay", "--max-attempts", "1"]),
        id(&["enqueue", "echo", r#"{"z": 1, "a": {"password": "hunter2"}}"#, "--user", "ada", "--tag", "vip"]),
        id(&["enqueue", "noop", "--metadata", r#"{"n": 12345678901234567890}"#, "--correlation", "order-7"]),
    ];
    shell.ok(&["work", "--until-empty"]);
    ids.push(id(&["enqueue", "echo", "[1, 2.5, null]", "--queue", "mail", "--in", "1h", "--key", "k"]));
    ids.push(id(&["enqueue", "echo", "1", "--queue", "mail", "--after", &ids[3], "--concurrency-key", "acme"]));
    shell.ok(&["queues", "limit", "mail", "--rate", "100/1m", "--fair", "--weight", "acme=3"]);
    shell.ok(&["queues", "defaults", "mail", "--retry", "list:1s,10s", "--keep-for", "2d"]);
    shell.ok(&["queues", "pause", "pay"]);
    let yearly = ["schedules", "put", "yearly", "0 0 1 1 *", "report", "{\"b\": 1, \"a\": 2}", "--zone", "Asia/Tokyo"];
    shell.ok(&[&yearly[..], &["--misfire", "catch-up-limited:3", "--overlap", "skip", "--jitter", "30s"]].concat());
    let workflow = r#"{"name": "ship", "jobs": {"pack": {"job": "echo", "in": "1h"}, "send": {"job": "echo", "after": ["pack"]}}}"#;
    std::fs::write(shell.path("ship.json"), workflow).unwrap();
    shell.ok(&["workflows", "submit", "ship.json"]);
    (world, ids)
}

#[test]
fn every_read_prints_the_same() {
    let (world, ids) = furnished();
    let workflow = world.shell.json(&["workflows", "list"])["workflows"][0]["id"].as_str().unwrap().to_owned();
    let mut commands: Vec<Vec<&str>> = [
        "jobs list",
        "jobs list --limit 2",
        "jobs list --status dead,scheduled --queue mail",
        "jobs list --user ada --tag vip --since 1d",
        "jobs retry --status dead --dry-run",
        "schedules list",
        "schedules show yearly",
        "schedules preview yearly -n 20",
        "schedules backfill yearly --since 2023-01-01T00:00:00Z --until 2025-06-01T00:00:00Z --dry-run",
        "workflows list",
        "queues list",
        "queues show mail",
        "queues show unknown",
        "workers list",
        "locks list",
        "tokens list",
        "stats",
        "report failures",
        "report stuck --longer-than 1ms",
        "report pending",
        "report success",
        "report durations",
    ]
    .iter()
    .map(|command| command.split(' ').collect())
    .collect();
    commands
        .extend(ids.iter().flat_map(|id| [vec!["jobs", "show", id.as_str()], vec!["jobs", "explain", id.as_str()]]));
    commands.push(vec!["workflows", "show", workflow.as_str()]);
    commands.push(vec!["workflows", "show", workflow.as_str(), "--graph"]);
    for command in commands {
        let (local, remote) = (world.shell.ok(&command), world.ok(&command));
        assert_eq!(timeless(&local), timeless(&remote), "{command:?}");
        // A reason names the time until a job is due, and the last digit of a float may be read in another way.
        if !command.starts_with(&["jobs", "explain"]) && command != ["report", "durations"] {
            assert_eq!(world.shell.json(&command), world.json(&command), "{command:?}");
        }
    }
}

#[test]
fn every_change_is_made_by_the_server() {
    let world = World::new();
    let show = |id: &str| world.shell.json(&["jobs", "show", id]);
    let enqueue = ["enqueue", "echo", r#"{"big": 123456789012345678901234567890, "x": 1.50}"#, "--priority", "9"];
    let id = world.ok(&[&enqueue[..], &["--in", "1h", "--retry", "fixed:3s", "--key", "k", "--tag", "a"]].concat());
    let id = id.trim();
    let job = show(id)["job"].clone();
    assert_eq!((&job["created_by"], &job["priority"], &job["tags"]), (&json!("local"), &json!(9), &json!(["a"])));
    let stored = world.runtime.block_on(world.punctual.job(id.parse().unwrap())).unwrap();
    assert_eq!(stored.spec.payload.as_str(), enqueue[2], "unchanged");
    assert_eq!(world.json(&["enqueue", "echo", "--key", "k"])["existing"], true);

    assert_eq!(world.ok(&["jobs", "run", id]), format!("{id} will run now\n"));
    assert_eq!(world.ok(&["jobs", "cancel", id, "--reason", "enough"]), format!("{id} cancelled\n"));
    assert!(show(id)["events"].to_string().contains("enough"));
    let again = world.ok(&["jobs", "run", id]);
    assert!(again.starts_with(&format!("{id} enqueued again as job_")), "{again}");
    let (code, refused) = world.fails(&["jobs", "retry", id]);
    assert_eq!((code, refused), world.shell.fails(&["jobs", "retry", id]));
    assert_eq!(code, 5);

    std::fs::write(world.shell.path("jobs.jsonl"), "{\"name\": \"a\"}\n{\"name\": \"b\", \"in\": \"1h\"}\n").unwrap();
    assert_eq!(world.ok(&["enqueue", "--file", "jobs.jsonl"]).lines().count(), 2);
    assert_eq!(world.json(&["jobs", "cancel", "--name", "b", "--yes"])["changed"], 1);
    assert_eq!(
        world.ok(&["queues", "limit", "mail", "--concurrency", "5", "--rate", "9/s"]),
        "mail: 5 concurrent, 9/1s\n"
    );
    assert_eq!(world.ok(&["queues", "limit", "mail", "--rate", "none"]), "mail: 5 concurrent\n", "the other stays");
    assert_eq!(world.ok(&["queues", "defaults", "mail", "--priority", "8"]), "mail: priority 8\n");
    assert_eq!(world.ok(&["queues", "pause", "d*"]), "default paused\n");
    assert_eq!(world.ok(&["queues", "resume", "default"]), "default resumed\n");
    let put = ["schedules", "put", "yearly", "0 0 1 1 *", "report", "--start", "2020-01-01T00:00:00Z"];
    assert!(world.ok(&put).starts_with("yearly added: "));
    assert!(world.ok(&put).starts_with("yearly unchanged: "));
    assert_eq!(world.ok(&["schedules", "pause", "yearly"]), "yearly paused\n");
    assert!(world.ok(&["schedules", "resume", "yearly"]).starts_with("yearly resumed; next run in "));
    assert!(world.ok(&["schedules", "trigger", "yearly"]).starts_with("job_"));
    let backfill =
        ["schedules", "backfill", "yearly", "--since", "2022-06-01T00:00:00Z", "--until", "2025-06-01T00:00:00Z"];
    assert_eq!(world.ok(&backfill).lines().count(), 3);
    assert_eq!(world.ok(&["schedules", "delete", "yearly"]), "yearly deleted\n");
    let workflow = "name: ship\njobs:\n  pack: {job: echo}\n  send: {job: echo, after: [pack]}\n";
    std::fs::write(world.shell.path("ship.yaml"), workflow).unwrap();
    let submitted = world.ok(&["workflows", "submit", "ship.yaml"]).trim().to_owned();
    assert_eq!(world.json(&["workflows", "cancel", &submitted])["workflows"][0]["cancelled"], 2);
    assert_eq!(world.json(&["workflows", "retry", &submitted])["workflows"][0]["renewed"], 2);
    assert_eq!(world.json(&["cleanup"]), json!({"deleted": 0, "purged": 0, "trimmed": 0}));
    let (code, refused) = world.fails(&["locks", "release", "x"]);
    assert!(code == 3 && refused.contains("lock x is not held"), "{refused}");
}

#[test]
fn invalid_input_is_refused_with_the_same_words() {
    let world = World::new();
    for command in [
        &["enqueue", "echo", "--priority", "11"][..],
        &["enqueue", ""],
        &["enqueue", "echo", "--after", "job_00000000000070008000000000000000"],
        &["jobs", "show", "job_00000000000070008000000000000000"],
        &["jobs", "list", "--limit", "0"],
        &["jobs", "list", "--after", "nonsense"],
        &["jobs", "cancel", "--status", "succeeded", "--yes"],
        &["schedules", "show", "nope"],
        &["schedules", "put", "x", "often", "report"],
        &["schedules", "pause", "nope"],
        &["workflows", "show", "wfl_00000000000070008000000000000000"],
        &["queues", "limit", "mail", "--weight", "acme=3"],
        &["queues", "defaults", "mail", "--priority", "11"],
        &["queues", "pause", "none-*"],
        &["tokens", "revoke", "tok_00000000000000000000000000000001"],
        &["tokens", "create", "", "--role", "read"],
    ] {
        assert_eq!(world.shell.fails(command), world.fails(command), "{command:?}");
    }
}

#[test]
fn a_broken_schedule_is_refused_with_the_same_words() {
    let world = World::new();
    world.ok(&["schedules", "put", "nightly", "@daily", "echo", "--zone", "Europe/Berlin"]);
    let breaks = "update punctual_schedules set definition = replace(definition, 'Europe/Berlin', 'Atlantis/Centre'), \
                  enabled = 0, next_run_at = null, problem = 'zone: unknown time zone `Atlantis/Centre`'";
    assert_eq!(Connection::open(world.shell.path("punctual.db")).unwrap().execute(breaks, []).unwrap(), 1);
    for command in [&["preview", "nightly"][..], &["resume", "nightly"], &["backfill", "nightly", "--since", "48h"]] {
        let (code, refused) = world.fails(&[&["schedules"], command].concat());
        assert!(
            code == 5 && refused.contains("the schedule nightly is broken: zone: unknown"),
            "{command:?}: {refused}"
        );
        assert_eq!((code, refused), world.shell.fails(&[&["schedules"], command].concat()));
    }
}

#[test]
fn results_and_workflows_are_waited_for() {
    let world = World::new();
    let _worker = Server::start(&world.shell, &["work"]);
    until("the worker", || !world.json(&["workers", "list"])["workers"].as_array().unwrap().is_empty());
    let output = world.ok(&["enqueue", "echo", r#"{"a": 1}"#, "--wait"]);
    assert_eq!(output.lines().nth(1), Some(r#"{"a":1}"#), "{output}");
    let (code, message) = world.fails(&["enqueue", "fail", r#"{"message": "no"}"#, "--max-attempts", "1", "--wait"]);
    assert!(code == 1 && message.contains("is dead: no"), "{message}");
    std::fs::write(world.shell.path("w.yaml"), "name: w\njobs:\n  a: {job: echo, payload: [1]}\n").unwrap();
    let output = world.ok(&["workflows", "submit", "w.yaml", "--wait"]);
    assert_eq!(output.lines().nth(1), Some(r#"{"a":[1]}"#), "{output}");
}

#[test]
fn top_shows_what_the_store_holds() {
    let (world, _) = furnished();
    let top = ["top", "--every", "200ms"];
    let (local, remote) = (world.shell.json(&top), world.json(&top));
    assert_eq!(remote["store"], json!(world.url));
    for part in ["jobs", "workers", "running", "dead", "oldest", "per_second"] {
        assert_eq!(local[part], remote[part], "{part}");
    }
    let names = |picture: &Value| -> Vec<Value> {
        picture["queues"].as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect()
    };
    assert_eq!(names(&local), names(&remote));
    let picture = world.ok(&["top", "--once", "--every", "200ms"]);
    assert!(picture.contains("no such account") && picture.contains("localhost"), "{picture}");
}
