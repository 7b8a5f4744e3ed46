//! JSON schemas of types that are serialised as text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    AttemptId, EventId, JobId, Json, Misfire, Overlap, Rate, ScheduleId, Timestamp, TokenId, WorkerId, WorkflowId,
    time::{Span, When},
};

macro_rules! schemas {
    ($($type:ident $schema:tt)*) => {
        $(impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

schemas! {
    JobId { "type": "string", "description": "Names a job.", "pattern": "^job_[0-9a-fA-F]{32}$" }
    WorkflowId { "type": "string", "description": "Names a workflow.", "pattern": "^wfl_[0-9a-fA-F]{32}$" }
    ScheduleId { "type": "string", "description": "Names a schedule.", "pattern": "^sch_[0-9a-fA-F]{32}$" }
    WorkerId { "type": "string", "description": "Names one run of a worker.", "pattern": "^wrk_[0-9a-fA-F]{32}$" }
    EventId { "type": "string", "description": "Names an event.", "pattern": "^evt_[0-9a-fA-F]{32}$" }
    TokenId { "type": "string", "description": "Identifies a token. Not a secret.", "pattern": "^tok_[0-9a-fA-F]{32}$" }
    AttemptId { "type": "string", "description": "Names an execution of a job.", "pattern": "^att_" }
    Timestamp { "type": "string", "description": "An instant, in UTC, to the microsecond.", "format": "date-time" }
    Span { "type": "string", "description": "A duration in words: `1500ms`, `90s`, `5m`, `1h 30m`, `7d`.", "examples": ["90s", "1h 30m"] }
    When { "type": "string", "description": "An instant: with a zone, or in that of the server.", "format": "date-time" }
    Rate { "type": "string", "description": "So many in a time.", "examples": ["10/1s", "100/1m"] }
    Misfire { "type": "string", "description": "What becomes of missed occurrences: `run-once`, `catch-up-limited:N` or `ignore`." }
    Overlap { "type": "string", "description": "What an occurrence does while the one before is unfinished.", "enum": ["allow", "skip", "cancel-previous"] }
    Json { "description": "Any JSON." }
}
