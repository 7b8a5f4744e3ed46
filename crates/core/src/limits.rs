//! Limits on all external input, with the unit in the name of each.

use std::time::Duration;

/// A job's payload, as JSON text.
pub const PAYLOAD_MAX_BYTES: usize = 1 << 20;
/// A job's result, as JSON text.
pub const RESULT_MAX_BYTES: usize = 1 << 20;
/// A notification's message, as JSON text.
pub const NOTIFICATION_MAX_BYTES: usize = 64 << 10;
/// Maximum age of a cursor of job events from which a consumer can continue.
pub const CHANGES_MAX_AGE: Duration = Duration::from_secs(3_600);
/// Notifications in one page of a list.
pub const PAGE_MAX_NOTIFICATIONS: usize = 1_000;
/// A job's metadata, as JSON text.
pub const METADATA_MAX_BYTES: usize = 64 << 10;
/// How deeply arrays and objects may be nested in a payload, a result or metadata.
pub const JSON_MAX_DEPTH: usize = 100;
/// Jobs in one enqueue.
pub const BATCH_MAX_JOBS: usize = 10_000;
/// Jobs in one claim.
pub const CLAIM_MAX_JOBS: usize = 1_000;
/// Jobs in one page of a list.
pub const PAGE_MAX_JOBS: usize = 1_000;
/// A job's name.
pub const NAME_MAX_CHARS: usize = 128;
/// A queue's name.
pub const QUEUE_MAX_CHARS: usize = 128;
/// A unique key or concurrency key.
pub const KEY_MAX_CHARS: usize = 512;
/// A user, creator, correlation id, actor or lock owner.
pub const LABEL_MAX_CHARS: usize = 256;
/// Each part of a trace context.
pub const TRACE_MAX_CHARS: usize = 1_024;
/// A description.
pub const DESCRIPTION_MAX_CHARS: usize = 2_048;
/// One tag.
pub const TAG_MAX_CHARS: usize = 128;
/// Tags of one job.
pub const TAGS_MAX_COUNT: usize = 32;
/// Keys of a payload that are redacted for one job.
pub const REDACT_MAX_COUNT: usize = 64;
/// The highest priority; the lowest is 0.
pub const PRIORITY_MAX: u8 = 10;
/// Attempts of one job.
pub const ATTEMPTS_MAX_COUNT: u32 = 1_000;
/// Worker crashes that one job may be involved in.
pub const CRASHES_MAX_COUNT: u32 = 100;
/// Maximum timeout of a job.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Minimum timeout of a job.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Maximum wait before a retry, and maximum snooze.
pub const DELAY_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Maximum retention that a job can request for itself.
pub const KEEP_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3_600);
/// Delays in a retry policy's list.
pub const RETRY_LIST_MAX_COUNT: usize = 100;
/// The text of an error; a longer text is cut, with a note.
pub const ERROR_MAX_BYTES: usize = 16 << 10;
/// One line of an attempt's log; a longer line is cut, with a note.
pub const LOG_LINE_MAX_BYTES: usize = 8 << 10;
/// Lines of one attempt's log; further lines are counted, but not stored.
pub const LOG_MAX_LINES: usize = 10_000;
/// Total size of one attempt's log; further lines are counted, but not stored.
pub const LOG_MAX_BYTES: usize = 1 << 20;
/// The text that describes a job's progress.
pub const PROGRESS_MAX_CHARS: usize = 256;
/// Maximum time that a call waits for a job, or for work; a longer time is reduced to it.
pub const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Minimum interval in which a worker polls when there are no hints.
pub const POLL_MIN: Duration = Duration::from_millis(1);
/// Maximum interval in which a worker polls when there are no hints.
pub const POLL_MAX: Duration = Duration::from_secs(3_600);
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Rows that one page of a list reads at most before it returns its results with a cursor.
pub const LIST_MAX_SCANNED_ROWS: usize = 50_000;
/// Jobs that one claim moves from scheduled or retrying to queued.
pub const PROMOTE_MAX_JOBS: usize = 1_000;
/// How long a worker without heartbeats stays registered.
pub const WORKER_SILENT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long the idempotency key of a request is stored.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// How long the counters for reports are kept: they are small, and a report of a year needs them.
pub const ROLLUPS_KEPT: Duration = Duration::from_secs(400 * 24 * 3_600);
/// A cron expression.
pub const CRON_MAX_CHARS: usize = 256;
/// The shortest period of a schedule.
pub const EVERY_MIN: Duration = Duration::from_secs(1);
/// The longest period of a schedule.
pub const EVERY_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Maximum jitter of a schedule.
pub const JITTER_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Missed occurrences that a schedule may catch up on.
pub const CATCH_UP_MAX_JOBS: u32 = 1_000;
/// Occurrences in one backfill.
pub const BACKFILL_MAX_JOBS: usize = 10_000;
/// Schedules in one page of a list, or in one tick.
pub const PAGE_MAX_SCHEDULES: usize = 1_000;
/// Parents of one job.
pub const PARENTS_MAX_COUNT: usize = 20_000;
/// Jobs of one workflow.
pub const WORKFLOW_MAX_JOBS: usize = 20_000;
/// Dependencies within one workflow, those of its callbacks included.
pub const WORKFLOW_MAX_EDGES: usize = 200_000;
/// Total size of the results of a job's parents where they are passed together.
pub const PARENT_RESULTS_MAX_BYTES: usize = 16 << 20;
/// Workflows in one page of a list.
pub const PAGE_MAX_WORKFLOWS: usize = 200;
/// Concurrent jobs, or starts per period, of one queue or key.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// Minimum period of a rate.
pub const RATE_PERIOD_MIN: Duration = Duration::from_millis(1);
/// Maximum period of a rate.
pub const RATE_PERIOD_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Maximum weight of a concurrency key.
pub const WEIGHT_MAX: u32 = 1_000;
/// Concurrency keys of one queue that may have a weight.
pub const WEIGHTS_MAX_COUNT: usize = 1_000;
