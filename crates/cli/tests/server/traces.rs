//! Traces of the program, sent to a collector of the test.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    trace::v1::{ResourceSpans, Span},
};
use prost::Message;

use crate::shell::{Server, Shell, until};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE_ID: [u8; 16] = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
const SPAN_ID: [u8; 8] = 0xb7ad_6b71_6920_3331_u64.to_be_bytes();

/// A collector that keeps what it receives.
#[derive(Clone)]
struct Collector {
    url: String,
    received: Arc<Mutex<Vec<ResourceSpans>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { url, received: Arc::default() };
        let kept = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = kept.clone();
                thread::spawn(move || kept.serve(stream.unwrap()));
            }
        });
        collector
    }

    /// Answers one request after the other until the client disconnects.
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if reader.read_line(&mut first).unwrap_or(0) == 0 {
                return;
            }
            assert!(first.starts_with("POST /v1/traces "), "{first}");
            for line in reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()) {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            self.received.lock().unwrap().extend(sent.resource_spans);
            (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    }

    /// The spans with this name, each with the service that sent it.
    fn spans(&self, name: &str) -> Vec<(String, Span)> {
        let received = self.received.lock().unwrap();
        let mut found = Vec::new();
        for of in received.iter() {
            let attributes = &of.resource.as_ref().unwrap().attributes;
            let service = attributes.iter().find(|attribute| attribute.key == "service.name").unwrap();
            let service = format!("{:?}", service.value);
            let spans = of.scope_spans.iter().flat_map(|scope| &scope.spans).filter(|span| span.name == name);
            found.extend(spans.map(|span| (service.clone(), span.clone())));
        }
        found
    }

    fn one(&self, name: &str) -> (String, Span) {
        until(name, || !self.spans(name).is_empty());
        let [one] = self.spans(name).try_into().unwrap_or_else(|spans| panic!("not one: {spans:?}"));
        one
    }
}

#[test]
fn a_trace_leads_from_a_command_to_the_programs_that_run_its_job() {
    let (shell, collector) = (Shell::new(), Collector::start());
    let config = "[handlers.show]\nshell = 'echo \"\\\"$TRACEPARENT $TRACESTATE\\\"\"'";
    std::fs::write(shell.path("punctual.toml"), config).unwrap();
    let mut enqueue = shell.command(&["enqueue", "show"]);
    enqueue.env("TRACEPARENT", PARENT).env("TRACESTATE", "vendor=1").env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let output = enqueue.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    // The command has ended, so its spans have arrived.
    let [(service, command)] = collector.spans("enqueue").try_into().unwrap();
    assert!(service.contains("\"punctual\""), "{service}");
    assert_eq!((command.trace_id.as_slice(), command.parent_span_id.as_slice()), (&TRACE_ID[..], &SPAN_ID[..]));

    let mut work = shell.command(&["work", "--until-empty"]);
    work.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).env("OTEL_SERVICE_NAME", "till");
    let output = work.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [(service, execution)] = collector.spans("process show").try_into().unwrap();
    assert!(service.contains("\"till\""), "{service}");
    assert_eq!((&execution.trace_id, &execution.parent_span_id), (&command.trace_id, &command.span_id));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let actual = format!("00-{}-{}-01 vendor=1", hex(&execution.trace_id), hex(&execution.span_id));
    assert_eq!(shell.json(&["jobs", "show", &id])["job"]["result_preview"], actual, "the program receives its attempt");
}

#[test]
fn a_trace_leads_through_the_server_to_its_worker_processes() {
    punctual_servers::program_on_path("curl", "curl").unwrap();
    let (shell, collector) = (Shell::new(), Collector::start());
    let mut command = shell.command(&["serve", "--workers", "1"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let errors = std::fs::File::create(shell.path("stderr")).unwrap();
    let mut server = Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap());
    let (url, header) = (format!("{}/v1/jobs", server.url(&shell)), format!("traceparent: {PARENT}"));
    let mut curl = std::process::Command::new("curl");
    let body = r#"{"name": "fail", "max_attempts": 1}"#;
    let curl = curl.args(["-sf", &url, "-H", &header, "-H", "Content-Type: application/json", "-d", body]);
    let answer: serde_json::Value = serde_json::from_slice(&curl.output().unwrap().stdout).unwrap();
    let id = answer["id"].as_str().unwrap();
    until("the job to die", || shell.json(&["jobs", "show", id])["job"]["status"] == "dead");
    server.signal(Signal::SIGTERM);
    assert!(server.0.wait().unwrap().success());
    let (_, request) = collector.one("POST /v1/jobs");
    assert_eq!((request.trace_id.as_slice(), request.parent_span_id.as_slice()), (&TRACE_ID[..], &SPAN_ID[..]));
    let (_, execution) = collector.one("process fail");
    assert_eq!((&execution.trace_id, &execution.parent_span_id), (&request.trace_id, &request.span_id));
    assert_eq!(execution.status.unwrap().code, 2, "it has failed");
}

#[test]
fn without_a_collector_a_trace_still_reaches_the_job() {
    let shell = Shell::new();
    let mut enqueue = shell.command(&["enqueue", "noop"]);
    let output = enqueue.env("TRACEPARENT", PARENT).stdin(Stdio::null()).output().unwrap();
    let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(shell.json(&["jobs", "show", &id])["job"]["trace"], PARENT);
}

#[test]
fn a_failed_export_is_logged_and_stops_nothing() {
    let shell = Shell::new();
    let mut enqueue = shell.command(&["enqueue", "noop"]);
    enqueue.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1").env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let output = enqueue.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("expected http/protobuf"), "{stderr}");
}
