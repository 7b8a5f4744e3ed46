//! Messages from programs, one JSON object per line, and messages to the programs of a pool.

use std::{collections::BTreeMap, time::Duration};

use punctual_client::{Context, Failure, ParentResult};
use punctual_core::{JobError, Json, LogLevel, Retry, check, limits};
use serde::{Deserialize, Serialize};

use super::output::Line;
use crate::HandlerResult;

/// A message from a program.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    Progress {
        percent: f32,
        message: String,
    },
    Log {
        level: LogLevel,
        message: String,
    },
    Extend(Duration),
    /// To a user, or to all users.
    Notify {
        user: Option<String>,
        message: Json,
    },
    ProgramEnd(ProgramEnd),
}

/// How a program reports the end of its job.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ProgramEnd {
    Done(Option<Json>),
    Fail { error: String, retry: Retry },
    Snooze(Option<Duration>),
}

impl ProgramEnd {
    /// The result of the job's execution.
    pub(super) fn into_result(self, snooze: Duration) -> HandlerResult {
        match self {
            Self::Done(result) => Ok(result),
            Self::Fail { error, retry } => Err(Failure::of(JobError::new(error), retry)),
            Self::Snooze(after) => Err(Failure::snooze(after.unwrap_or(snooze))),
        }
    }
}

/// The fields of all messages. Not an enum by kind, since a result must be kept exactly as it was written.
#[derive(Deserialize)]
struct Raw {
    punctual: Option<String>,
    percent: Option<f32>,
    message: Option<Json>,
    level: Option<LogLevel>,
    seconds: Option<f64>,
    user: Option<String>,
    result: Option<Json>,
    error: Option<String>,
    retry: Option<RawRetry>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawRetry {
    Whether(bool),
    After(f64),
}

/// Parses a line; `None` if it is not a message. An error if it begins like a message but is invalid.
pub(super) fn parse(line: &Line) -> Option<Result<Message, String>> {
    let Line { text: line, cut } = line;
    let object = line.trim_ascii().strip_prefix(b"{")?;
    let is_message = object.trim_ascii_start().starts_with(br#""punctual""#);
    if *cut > 0 {
        let problem = format!("it has {} bytes, at most {} are allowed", line.len() + cut, line.len());
        return is_message.then(|| Err(invalid(line, &problem)));
    }
    match serde_json::from_slice::<Raw>(line) {
        Ok(Raw { punctual: Some(kind), .. }) if kind.is_empty() => Some(Err(invalid(line, "the kind is empty"))),
        Ok(raw) => {
            let kind = raw.punctual.clone()?;
            Some(raw.into_message(&kind).map_err(|problem| invalid(line, &problem)))
        }
        Err(error) if is_message => Some(Err(invalid(line, &error.to_string()))),
        Err(_) => None,
    }
}

fn invalid(line: &[u8], problem: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 200;
    let line: String = String::from_utf8_lossy(line).chars().take(SHOWN_MAX_CHARS).collect();
    format!("invalid message from the program: {problem}: {line}")
}

impl Raw {
    fn into_message(self, kind: &str) -> Result<Message, String> {
        let missing = |field: &str| format!("`{field}` is required for `{kind}`");
        Ok(match kind {
            "progress" => Message::Progress {
                percent: self.percent.ok_or_else(|| missing("percent"))?,
                message: self.message.as_ref().map(text).unwrap_or_default(),
            },
            "log" => Message::Log {
                level: self.level.unwrap_or_default(),
                message: self.message.as_ref().map(text).ok_or_else(|| missing("message"))?,
            },
            "extend" => Message::Extend(duration(self.seconds.ok_or_else(|| missing("seconds"))?)?),
            "notify" => Message::Notify {
                user: Some(self.user.ok_or_else(|| missing("user"))?),
                message: self.message.unwrap_or_else(Json::null),
            },
            "broadcast" => Message::Notify { user: None, message: self.message.unwrap_or_else(Json::null) },
            "done" => Message::ProgramEnd(ProgramEnd::Done(self.result.filter(|result| result.as_str() != "null"))),
            "fail" => {
                let retry = match self.retry {
                    None | Some(RawRetry::Whether(true)) => Retry::ByPolicy,
                    Some(RawRetry::Whether(false)) => Retry::Never,
                    Some(RawRetry::After(seconds)) => Retry::After(duration(seconds)?),
                };
                Message::ProgramEnd(ProgramEnd::Fail {
                    error: self.error.unwrap_or_else(|| "no error message given".into()),
                    retry,
                })
            }
            "snooze" => Message::ProgramEnd(ProgramEnd::Snooze(self.seconds.map(duration).transpose()?)),
            _ => return Err(format!("unknown message `{kind}`")),
        })
    }
}

/// A string as it is; any other value as JSON.
fn text(value: &Json) -> String {
    value.read::<String>().unwrap_or_else(|_| value.as_str().to_owned())
}

fn duration(seconds: f64) -> Result<Duration, String> {
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= limits::DELAY_MAX);
    duration.ok_or_else(|| check::out_of_range(&seconds, &(0.0..=limits::DELAY_MAX.as_secs_f64())) + " seconds")
}

/// Executes a message; returns the end of the job if the message reports it.
pub(super) async fn act(ctx: &Context, message: Message) -> Result<Option<ProgramEnd>, String> {
    match message {
        Message::Progress { percent, message } => ctx.progress(percent, message),
        Message::Log { level, message } => ctx.log(level, message),
        Message::Extend(lease) => ctx.extend(lease).await.map_err(|error| error.to_string())?,
        Message::Notify { user, message } => {
            let sent = match user {
                Some(user) => ctx.notify(user, &message).await,
                None => ctx.broadcast(&message).await,
            };
            sent.map_err(|error| format!("cannot store the notification: {error}"))?;
        }
        Message::ProgramEnd(end) => return Ok(Some(end)),
    }
    Ok(None)
}

/// The message about a job to a process of a pool.
#[derive(Serialize)]
struct JobLine<'a> {
    punctual: &'static str,
    id: String,
    name: &'a str,
    queue: &'a str,
    attempt: u32,
    max_attempts: u32,
    timeout_ms: u64,
    user_id: Option<&'a str>,
    correlation_id: Option<&'a str>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    payload: &'a Json,
    parents: BTreeMap<String, &'a Option<Json>>,
}

/// The message about a job as a line, including the line break.
pub(super) fn job_line(ctx: &Context) -> Result<Vec<u8>, Failure> {
    let (job, trace) = (&ctx.claim().job, ctx.trace());
    let mut line = serde_json::to_vec(&JobLine {
        punctual: "job",
        id: job.id.to_string(),
        name: &job.spec.name,
        queue: &job.spec.queue,
        attempt: job.attempt,
        max_attempts: job.spec.max_attempts,
        timeout_ms: job.spec.timeout.as_millis() as u64,
        user_id: job.spec.user_id.as_deref(),
        correlation_id: job.spec.correlation_id.as_deref(),
        traceparent: trace.as_ref().map(|trace| trace.parent.to_string()),
        tracestate: trace.and_then(|trace| trace.state),
        payload: &job.spec.payload,
        parents: by_name(ctx.parent_results()),
    })?;
    // A payload is stored as it was written and may contain line breaks. In JSON they are only white space, never part
    // of a string.
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    Ok(line)
}

/// The results of the job's parents, each by its id and by its name in the workflow.
pub(super) fn by_name(parents: &[ParentResult]) -> BTreeMap<String, &Option<Json>> {
    let mut results = BTreeMap::new();
    for parent in parents {
        results.insert(parent.id.to_string(), &parent.result);
        results.extend(parent.node.clone().map(|node| (node, &parent.result)));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Line {
        Line { text: text.into(), cut: 0 }
    }

    fn message(line: &str) -> Message {
        parse(&whole(line)).unwrap().unwrap()
    }

    #[test]
    fn lines_that_are_not_messages_are_output() {
        for line in ["", "hello", "[1]", "{}", r#"{"a": 1}"#, "{not json", r#"{"punctual_x": 1}"#] {
            assert_eq!(parse(&whole(line)), None, "{line}");
        }
    }

    #[test]
    fn optional_fields_of_messages_may_be_omitted() {
        assert_eq!(
            message(r#"{"punctual": "progress", "percent": 40}"#),
            Message::Progress { percent: 40.0, message: String::new() }
        );
        assert_eq!(
            message(r#" {"message": "m", "punctual": "log"} "#),
            Message::Log { level: LogLevel::Info, message: "m".into() }
        );
        assert_eq!(message(r#"{"punctual":"done"}"#), Message::ProgramEnd(ProgramEnd::Done(None)));
        assert_eq!(message(r#"{"punctual":"snooze","seconds":1.5}"#), {
            Message::ProgramEnd(ProgramEnd::Snooze(Some(Duration::from_millis(1_500))))
        });
        let fail = |retry| Message::ProgramEnd(ProgramEnd::Fail { error: "e".into(), retry });
        assert_eq!(message(r#"{"punctual":"fail","error":"e"}"#), fail(Retry::ByPolicy));
        assert_eq!(message(r#"{"punctual":"fail","error":"e","retry":false}"#), fail(Retry::Never));
        assert_eq!(message(r#"{"punctual":"fail","error":"e","retry":2}"#), fail(Retry::After(Duration::from_secs(2))));
    }

    #[test]
    fn a_result_is_kept_as_it_was_written() {
        let Message::ProgramEnd(ProgramEnd::Done(Some(result))) =
            message(r#"{"punctual":"done","result":{"b":1,"a":1e999}}"#)
        else {
            panic!("no result")
        };
        assert_eq!(result.as_str(), r#"{"b":1,"a":1e999}"#);
    }

    #[test]
    fn invalid_messages_are_reported() {
        let problem = |line: &str| parse(&whole(line)).unwrap().unwrap_err();
        assert!(problem(r#"{"punctual": "done", "resu"#).contains("invalid message"));
        assert!(problem(r#"{"punctual": "dance"}"#).contains("unknown message `dance`"));
        assert!(problem(r#"{"punctual": "progress"}"#).contains("`percent` is required for `progress`"));
        assert!(problem(r#"{"punctual": "extend", "seconds": -1}"#).contains("must be between 0 and"));
        assert!(problem(r#"{"punctual": 3}"#).contains("invalid message"));
        let cut = Line { text: br#"{"punctual": "done", "result": ""#.to_vec(), cut: 9 };
        assert!(parse(&cut).unwrap().unwrap_err().contains("at most"));
    }
}
