//! `deploy/` and `packaging/`: what they refer to exists in the program, and their parts fit together.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::shell::{Server, Shell, get, until};

const KUBERNETES: [&str; 7] = [
    "kustomization.yaml",
    "serve.yaml",
    "worker.yaml",
    "monitoring/kustomization.yaml",
    "monitoring/service-monitor.yaml",
    "keda/kustomization.yaml",
    "keda/scaled-object.yaml",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Kubernetes objects of a kind.
fn objects(kind: &str) -> Vec<Value> {
    let all = KUBERNETES.iter().flat_map(|path| documents(&format!("deploy/kubernetes/{path}")));
    all.filter(|object| object["kind"] == kind).collect()
}

fn compose() -> Value {
    documents("deploy/compose.yaml").remove(0)
}

/// All values with this key, at any depth.
fn all_of<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    let children: Vec<&Value> = match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    children.into_iter().flat_map(|child| all_of(child, key)).chain(value.get(key)).collect()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

/// The container of a Deployment.
fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

/// The words of a text that begin with a prefix.
fn words<'t>(text: &'t str, prefix: &str) -> BTreeSet<&'t str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| word.starts_with(prefix)).collect()
}

fn seconds(text: &Value) -> u64 {
    text.as_str().unwrap().trim_end_matches('s').parse().unwrap()
}

/// The texts of all sources below a folder.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { sources(&path) } else { fs::read_to_string(path).unwrap() }).collect()
}

#[test]
fn every_variable_exists() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let is_known = |name: &str| sources.contains(&format!("\"{name}\""));
    let kubernetes = KUBERNETES.map(|path| format!("deploy/kubernetes/{path}"));
    let others = ["deploy/Dockerfile", "deploy/compose.yaml", "packaging/default", "packaging/punctual.service"];
    for path in others.into_iter().chain(kubernetes.iter().map(String::as_str)) {
        for name in words(&text(path), "PUNCTUAL_") {
            // A secret may be in a file that the variable names.
            let of_file = name.strip_suffix("_FILE");
            assert!(is_known(name) || of_file.is_some_and(is_known), "{path}: no variable {name}");
        }
    }
}

#[test]
fn every_command_line_is_valid() {
    let (shell, compose) = (Shell::new(), compose());
    let deployments = objects("Deployment");
    let mut lines: Vec<Vec<&str>> =
        deployments.iter().map(|deployment| strings(&container(deployment)["args"])).collect();
    for service in ["punctual", "worker"].map(|name| &compose["services"][name]) {
        lines.push(strings(&service["command"]));
        let health = strings(&service["healthcheck"]["test"]);
        assert_eq!(health[..2], ["CMD", "punctual"]);
        lines.push(health[2..].to_vec());
    }
    assert_eq!(lines.len(), 6);
    for line in lines {
        // The help is printed if everything before is valid.
        assert!(shell.ok(&[&line[..], &["--help"]].concat()).contains("Usage: punctual"), "{line:?}");
    }
}

#[test]
fn the_server_answers_every_probe_and_exposes_every_metric() {
    let shell = Shell::new();
    let server = Server::start(&shell, &["serve", "--workers", "0"]);
    let url = server.url(&shell);
    shell.ok(&["enqueue", "noop"]);
    until("it is ready", || get(&url, "/readyz").is_some_and(|(status, _)| status == 200));
    let deployments = objects("Deployment");
    let probes: Vec<&Value> = deployments.iter().flat_map(|deployment| all_of(deployment, "httpGet")).collect();
    assert_eq!(probes.len(), 6, "startup, liveness and readiness of both");
    let monitors = objects("ServiceMonitor");
    let pages = probes.iter().map(|probe| &probe["path"]).chain([&monitors[0]["spec"]["endpoints"][0]["path"]]);
    for path in pages.map(|path| path.as_str().unwrap()) {
        assert_eq!(get(&url, path).unwrap().0, 200, "{path}");
    }
    let scalers = objects("ScaledObject");
    let query = scalers[0]["spec"]["triggers"][0]["metadata"]["query"].as_str().unwrap();
    assert_eq!(words(query, "punctual_"), BTreeSet::from(["punctual_jobs"]));
    assert!(query.contains(r#"punctual_jobs{status="queued"}"#));
    let exposed = r#"punctual_jobs{queue="default",status="queued"} 1"#;
    until("the job is counted", || get(&url, "/metrics").is_some_and(|(_, metrics)| metrics.contains(exposed)));
}

#[test]
fn the_kubernetes_objects_refer_to_each_other() {
    let deployments = objects("Deployment");
    let labels = |deployment: &Value| deployment["spec"]["template"]["metadata"]["labels"].clone();
    for deployment in &deployments {
        assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels(deployment));
        let ports: Vec<&Value> = all_of(&container(deployment)["ports"], "name");
        for probe in all_of(deployment, "httpGet") {
            assert!(ports.contains(&&probe["port"]), "{probe}");
        }
        let mounts = all_of(&container(deployment)["volumeMounts"], "name");
        assert_eq!(mounts, all_of(&deployment["spec"]["template"]["spec"]["volumes"], "name"));
    }
    let is_of_deployment = |selector: &Value| deployments.iter().any(|deployment| labels(deployment) == *selector);
    let budgets = objects("PodDisruptionBudget");
    assert_eq!(budgets.len(), deployments.len());
    assert!(budgets.iter().all(|budget| is_of_deployment(&budget["spec"]["selector"]["matchLabels"])));
    let service = objects("Service").remove(0);
    assert!(is_of_deployment(&service["spec"]["selector"]));
    let served = deployments.iter().find(|deployment| labels(deployment) == service["spec"]["selector"]).unwrap();
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container(served)["ports"][0]["name"]);
    let monitor = objects("ServiceMonitor").remove(0);
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"]);
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    let target = objects("ScaledObject").remove(0)["spec"]["scaleTargetRef"]["name"].clone();
    assert!(deployments.iter().any(|deployment| deployment["metadata"]["name"] == target));
}

#[test]
fn listen_addresses_fit_the_ports() {
    for deployment in objects("Deployment") {
        let container = container(&deployment);
        let of_variable = container["env"].as_array().unwrap().iter().find(|entry| entry["name"] == "PUNCTUAL_LISTEN");
        let address = of_variable.map_or_else(
            || strings(&container["args"]).last().unwrap().to_string(),
            |entry| entry["value"].as_str().unwrap().to_owned(),
        );
        assert!(address.ends_with(&format!(":{}", container["ports"][0]["containerPort"])), "{address}");
    }
    let service = &compose()["services"]["punctual"];
    let address = service["environment"]["PUNCTUAL_LISTEN"].as_str().unwrap().to_owned();
    let published = strings(&service["ports"])[0].rsplit_once(':').unwrap().1;
    assert_eq!(address.rsplit_once(':').unwrap().1, published);
    assert!(text("deploy/Dockerfile").contains(&format!("ENV PUNCTUAL_LISTEN={address}\nEXPOSE {published}")));
}

#[test]
fn running_jobs_may_drain_before_they_are_killed() {
    for deployment in objects("Deployment") {
        let variables = container(&deployment)["env"].as_array().unwrap();
        let drain = variables.iter().find(|entry| entry["name"] == "PUNCTUAL_DRAIN_TIMEOUT").unwrap();
        let pause = all_of(&deployment, "seconds").iter().filter_map(|seconds| seconds.as_u64()).sum::<u64>();
        let grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
        // A server also waits for requests under way, for ten seconds.
        assert!(grace >= seconds(&drain["value"]) + pause + 15, "{grace}");
    }
    for name in ["punctual", "worker"] {
        let service = &compose()["services"][name];
        let drain = seconds(&service["environment"]["PUNCTUAL_DRAIN_TIMEOUT"]);
        assert!(seconds(&service["stop_grace_period"]) >= drain + 15, "{name}");
    }
    // The default of drain_timeout is 30 s.
    for unit in ["packaging/punctual.service", "packaging/punctual-worker@.service"] {
        assert!(text(unit).contains("\nTimeoutStopSec=60\n"), "{unit}");
    }
}

#[test]
fn the_compose_file_defines_what_it_uses() {
    let compose = compose();
    let services = compose["services"].as_object().unwrap();
    for (name, service) in services {
        for secret in service.get("secrets").map(strings).unwrap_or_default() {
            assert!(compose["secrets"][secret]["file"].is_string(), "{name}: {secret}");
        }
        for (required, condition) in service.get("depends_on").and_then(Value::as_object).into_iter().flatten() {
            assert_eq!(condition["condition"], "service_healthy");
            assert!(services[required]["healthcheck"]["test"].is_array(), "{name}: {required}");
        }
    }
}

#[test]
fn versions_and_files_are_current() {
    let version = env!("CARGO_PKG_VERSION");
    for kustomization in KUBERNETES.iter().filter(|path| path.ends_with("kustomization.yaml")) {
        let path = format!("deploy/kubernetes/{kustomization}");
        let folder = root().join(&path).parent().unwrap().to_owned();
        for resource in strings(&documents(&path)[0]["resources"]) {
            assert!(folder.join(resource).exists(), "{path}: {resource}");
        }
    }
    assert_eq!(objects("Kustomization")[0]["images"][0]["newTag"], version);
    assert_eq!(compose()["services"]["worker"]["image"], format!("punctual:{version}"));
    let listed: BTreeSet<PathBuf> = KUBERNETES.iter().map(PathBuf::from).collect();
    let folder = root().join("deploy/kubernetes");
    let found = ["", "monitoring", "keda"].iter().flat_map(|name| fs::read_dir(folder.join(name)).unwrap());
    let found = found.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let found: BTreeSet<PathBuf> = found.map(|path| path.strip_prefix(&folder).unwrap().to_owned()).collect();
    assert_eq!(found, listed);
}
