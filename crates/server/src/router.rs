//! The routes of the API, in one list.

use punctual_core::Role::{Admin, Enqueue, Read, Work};

use crate::{
    api::{jobs, locks, notifications, queues, reports, schedules, server, stream, tokens, work, workflows},
    route::{Route, delete, get, listen, patch, post, put},
    stream_protocol::Message,
};

/// The routes of the API.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        // Jobs.
        post("/v1/jobs", Enqueue, "Enqueue a job", jobs::enqueue),
        post("/v1/jobs/batch", Enqueue, "Enqueue many jobs: all, or none if one is refused", jobs::enqueue_all),
        get("/v1/jobs", Read, "List jobs", jobs::list),
        get("/v1/jobs/{id}", Read, "A job with its attempts, events and logs", jobs::show),
        get("/v1/jobs/{id}/attempts", Read, "List the attempts of a job", jobs::attempts),
        get("/v1/jobs/{id}/events", Read, "List the events of a job", jobs::events),
        get("/v1/jobs/{id}/logs", Read, "List the log lines of a job", jobs::logs),
        get("/v1/jobs/{id}/explain", Read, "Explain why a job is not running", jobs::explain),
        get("/v1/jobs/{id}/wait", Read, "Wait until a job has finished", jobs::wait),
        post("/v1/jobs/{id}/retry", Admin, "Retry a dead job, or a retrying one now", jobs::retry),
        post("/v1/jobs/{id}/cancel", Admin, "Cancel a job", jobs::cancel),
        post("/v1/jobs/{id}/run", Admin, "Run a scheduled job now; of a finished job, enqueue a copy", jobs::run),
        delete("/v1/jobs/{id}", Admin, "Hide a job; retention removes it later", jobs::delete),
        get("/v1/bulk/{verb}", Read, "Preview a bulk action", jobs::preview),
        post("/v1/bulk/{verb}", Admin, "Apply an action to all jobs that match a filter", jobs::bulk),
        // Workflows.
        post(
            "/v1/workflows",
            Enqueue,
            "Submit a workflow: all of its jobs, or none if one is refused",
            workflows::submit,
        ),
        get("/v1/workflows", Read, "List workflows, latest first", workflows::list),
        get("/v1/workflows/{id}", Read, "A workflow with its jobs", workflows::show),
        get("/v1/workflows/{id}/wait", Read, "Wait until a workflow has finished", workflows::wait),
        post("/v1/workflows/{id}/cancel", Admin, "Cancel the unfinished jobs of a workflow", workflows::cancel),
        post("/v1/workflows/{id}/retry", Admin, "Retry the failed jobs of a workflow", workflows::retry),
        // Schedules.
        get("/v1/schedules", Read, "List schedules by name", schedules::list),
        get("/v1/schedules/{name}", Read, "A schedule with its history and next runs", schedules::show),
        put("/v1/schedules/{name}", Admin, "Add a schedule, or change it", schedules::put),
        delete("/v1/schedules/{name}", Admin, "Remove a schedule; its jobs stay", schedules::delete),
        post("/v1/schedules/{name}/pause", Admin, "Pause a schedule", schedules::pause),
        post("/v1/schedules/{name}/resume", Admin, "Resume a schedule", schedules::resume),
        post("/v1/schedules/{name}/trigger", Admin, "Run the job of a schedule now", schedules::trigger),
        get("/v1/schedules/{name}/backfill", Read, "Preview a backfill", schedules::preview_backfill),
        post(
            "/v1/schedules/{name}/backfill",
            Admin,
            "Backfill: enqueue past occurrences that have no job",
            schedules::backfill,
        ),
        // Queues.
        get("/v1/queues", Read, "List queues by name", queues::list),
        get("/v1/queues/{name}", Read, "A queue with its history", queues::show),
        post("/v1/queues/{name}/pause", Admin, "Pause a queue", queues::pause),
        post("/v1/queues/{name}/resume", Admin, "Resume a queue", queues::resume),
        put("/v1/queues/{name}/limits", Admin, "Set concurrency and rate limits of a queue", queues::set_limits),
        patch("/v1/queues/{name}/limits", Admin, "Change some of the limits of a queue", queues::change_limits),
        put("/v1/queues/{name}/defaults", Admin, "Set the job defaults of a queue", queues::set_defaults),
        // Workers and locks.
        get("/v1/workers", Read, "List workers", work::workers),
        get("/v1/locks", Read, "List held locks", locks::list),
        delete("/v1/locks/{name}", Admin, "Release a lock of any owner", locks::free),
        post("/v1/locks/{name}/acquire", Work, "Acquire or extend a lock", locks::acquire),
        post("/v1/locks/{name}/release", Work, "Release a lock", locks::release),
        // Remote workers.
        post("/v1/work/heartbeat", Work, "Register a worker, or send its heartbeat", work::heartbeat),
        post("/v1/work/claim", Work, "Claim jobs, waiting for some if there are none", work::claim),
        post(
            "/v1/work/confirm",
            Work,
            "Confirm that jobs are about to start; answers which are still held",
            work::confirm,
        ),
        post("/v1/work/extend", Work, "Extend leases; answers which are still held", work::extend),
        post("/v1/work/progress", Work, "Report progress and log lines", work::progress),
        post("/v1/work/settle", Work, "Settle jobs: report their outcomes", work::settle),
        post("/v1/work/deregister", Work, "Deregister a worker; its leases end", work::deregister),
        // Notifications to users.
        post("/v1/notifications", Work, "Send a notification to a user, or to all", notifications::send),
        get("/v1/notifications", Read, "List the notifications of a user", notifications::list),
        // The live stream.
        listen::<Message<'static>, _, _, _>(
            "/v1/stream",
            Read,
            "Subscribe to job events and notifications by WebSocket",
            stream::open,
        ),
        // Reports.
        get("/v1/stats", Read, "Count jobs by status, queue and name", reports::stats),
        get("/v1/reports/failures", Read, "Dead jobs of a period that have not been retried", reports::failures),
        get("/v1/reports/stuck", Read, "Long-running jobs", reports::stuck),
        get("/v1/reports/pending", Read, "Unfinished jobs by user and name", reports::pending),
        get("/v1/reports/success", Read, "Outcomes by job name", reports::success),
        get("/v1/reports/durations", Read, "Durations and lateness of attempts", reports::durations),
        get("/v1/reports/attempts", Read, "Count the attempts that ended in a period", reports::attempts),
        // Tokens.
        get("/v1/tokens", Admin, "Active tokens", tokens::list),
        post("/v1/tokens", Admin, "Create a token; its secret is shown once", tokens::create),
        delete("/v1/tokens/{id}", Admin, "Revoke a token, and its sessions", tokens::revoke),
        // The server.
        get("/v1/server", Read, "The version, the store and the clock of the server", server::show),
        post("/v1/cleanup", Admin, "Run retention now", server::cleanup),
    ]
}
