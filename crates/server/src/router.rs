//! Everything that can be asked for, in one list.

use axum::http::Method;
use punctual_core::Role::{Admin, Enqueue, Read, Work};

use crate::{
    api::{jobs, locks, notifications, queues, reports, schedules, stream, tokens, work, workflows},
    route::{Route, act, get, listen, post},
};

/// The routes of the API.
pub(crate) fn routes() -> Vec<Route> {
    let put = Method::PUT;
    let delete = Method::DELETE;
    vec![
        // Jobs.
        post("/v1/jobs", Enqueue, "Enqueue a job", jobs::enqueue),
        post(
            "/v1/jobs/batch",
            Enqueue,
            "Enqueue many jobs: all of them or, if one is refused, none",
            jobs::enqueue_all,
        ),
        get("/v1/jobs", Read, "The jobs that a filter selects", jobs::list),
        get("/v1/jobs/{id}", Read, "A job with its whole story", jobs::show),
        get("/v1/jobs/{id}/attempts", Read, "The executions of a job", jobs::attempts),
        get("/v1/jobs/{id}/events", Read, "The events of a job", jobs::events),
        get("/v1/jobs/{id}/logs", Read, "What the executions of a job logged", jobs::logs),
        get("/v1/jobs/{id}/explain", Read, "Why a job is not running", jobs::explain),
        get("/v1/jobs/{id}/wait", Read, "Wait until a job has finished", jobs::wait),
        post("/v1/jobs/{id}/retry", Admin, "Run a dead job again, or a retrying one now", jobs::retry),
        post("/v1/jobs/{id}/cancel", Admin, "See to it that a job does not run (any more)", jobs::cancel),
        post(
            "/v1/jobs/{id}/run",
            Admin,
            "Start a job now that waits for its time; if it has finished, a new one like it",
            jobs::run,
        ),
        act(delete.clone(), "/v1/jobs/{id}", Admin, "Hide a job; retention removes it later", jobs::delete),
        get("/v1/bulk/{verb}", Read, "What an action on all the jobs that a filter selects would touch", jobs::preview),
        post("/v1/bulk/{verb}", Admin, "Apply an action to all the jobs that a filter selects", jobs::bulk),
        // Workflows.
        post(
            "/v1/workflows",
            Enqueue,
            "Submit a workflow: all of its jobs or, if one is refused, none",
            workflows::submit,
        ),
        get("/v1/workflows", Read, "The workflows, latest first", workflows::list),
        get("/v1/workflows/{id}", Read, "A workflow with its jobs", workflows::show),
        post("/v1/workflows/{id}/cancel", Admin, "Cancel what has not finished of a workflow", workflows::cancel),
        post("/v1/workflows/{id}/retry", Admin, "Run again what has failed of a workflow", workflows::retry),
        // Schedules.
        get("/v1/schedules", Read, "The schedules, by name", schedules::list),
        get("/v1/schedules/{name}", Read, "A schedule with what it did and what it will do", schedules::show),
        act(put.clone(), "/v1/schedules/{name}", Admin, "Add a schedule, or change it", schedules::put),
        act(delete.clone(), "/v1/schedules/{name}", Admin, "Remove a schedule; its jobs stay", schedules::delete),
        post("/v1/schedules/{name}/pause", Admin, "Let a schedule pause", schedules::pause),
        post("/v1/schedules/{name}/resume", Admin, "Let a schedule run again", schedules::resume),
        post("/v1/schedules/{name}/trigger", Admin, "Run the job of a schedule now", schedules::trigger),
        get(
            "/v1/schedules/{name}/backfill",
            Read,
            "The occurrences of a past time that a backfill would enqueue",
            schedules::preview_backfill,
        ),
        post(
            "/v1/schedules/{name}/backfill",
            Admin,
            "Enqueue the occurrences of a past time that have no job",
            schedules::backfill,
        ),
        // Queues.
        get("/v1/queues", Read, "The queues, by name", queues::list),
        get("/v1/queues/{name}", Read, "A queue with its story", queues::show),
        post("/v1/queues/{name}/pause", Admin, "Start nothing of a queue until it is resumed", queues::pause),
        post("/v1/queues/{name}/resume", Admin, "Start jobs of a queue again", queues::resume),
        act(
            put.clone(),
            "/v1/queues/{name}/limits",
            Admin,
            "Say how many jobs of a queue may run, and start",
            queues::set_limits,
        ),
        act(
            put,
            "/v1/queues/{name}/defaults",
            Admin,
            "Say what the jobs of a queue are if they do not say otherwise",
            queues::set_defaults,
        ),
        // Workers and locks.
        get("/v1/workers", Read, "The workers on the register", work::workers),
        get("/v1/locks", Read, "The locks that are held", locks::list),
        act(delete.clone(), "/v1/locks/{name}", Admin, "Free a lock, whoever holds it", locks::free),
        post("/v1/locks/{name}/acquire", Work, "Take a lock, or keep it", locks::acquire),
        post("/v1/locks/{name}/release", Work, "Let go of a lock", locks::release),
        // Remote workers.
        post("/v1/work/beat", Work, "Say that a worker is there", work::beat),
        post("/v1/work/claim", Work, "Claim jobs; waits for some if there are none", work::claim),
        post(
            "/v1/work/confirm",
            Work,
            "Confirm that jobs are about to start; says which are still held",
            work::confirm,
        ),
        post("/v1/work/extend", Work, "Keep jobs for longer; says which are still held", work::extend),
        post("/v1/work/note", Work, "Tell how far jobs have come, and what they log", work::note),
        post("/v1/work/settle", Work, "Tell how jobs ended", work::settle),
        post("/v1/work/leave", Work, "Take a worker off the register; what it holds goes back", work::leave),
        // Messages to people.
        post("/v1/notifications", Work, "Tell a user something, or everybody", notifications::tell),
        get("/v1/notifications", Read, "What a user was told", notifications::list),
        // What happens, as it happens.
        listen::<stream::Message<'static>, _, _, _>(
            "/v1/stream",
            Read,
            "Listen by WebSocket: to what happens to jobs, and to what users are told",
            stream::open,
        ),
        // How things stand.
        get("/v1/stats", Read, "How many jobs there are, by status, queue and name", reports::stats),
        get("/v1/reports/failures", Read, "Jobs that died in a period and that nobody has retried", reports::failures),
        get("/v1/reports/stuck", Read, "Jobs that have been running for long", reports::stuck),
        get("/v1/reports/pending", Read, "Unfinished jobs by user and name", reports::pending),
        get("/v1/reports/success", Read, "How the jobs of each name fared", reports::success),
        get("/v1/reports/durations", Read, "How long attempts took, and how late they started", reports::durations),
        // Tokens.
        get("/v1/tokens", Admin, "The tokens that are good", tokens::list),
        post("/v1/tokens", Admin, "Make a token; its secret is told once", tokens::create),
        act(delete, "/v1/tokens/{id}", Admin, "Revoke a token, and its sessions", tokens::revoke),
    ]
}
