//! A limit, with its unit in its name, on everything that comes from outside.

use std::time::Duration;

/// A job's payload, as JSON text.
pub const PAYLOAD_MAX_BYTES: usize = 1 << 20;
/// A job's result, as JSON text.
pub const RESULT_MAX_BYTES: usize = 1 << 20;
/// A notification's message, as JSON text.
pub const NOTIFICATION_MAX_BYTES: usize = 64 << 10;
/// How long ago a look at what happens to jobs may have been that another one goes on from.
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
/// Keys of a payload that one job asks to be redacted.
pub const REDACT_MAX_COUNT: usize = 64;
/// The highest priority; the lowest is 0.
pub const PRIORITY_MAX: u8 = 10;
/// Attempts of one job.
pub const ATTEMPTS_MAX_COUNT: u32 = 1_000;
/// Crashes of workers that one job may be there at.
pub const CRASHES_MAX_COUNT: u32 = 100;
/// The longest time that a job may run.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The shortest time that a job may be given.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// The longest wait before a retry, and the longest snooze.
pub const DELAY_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// The longest time that a finished job may be kept by its own wish.
pub const KEEP_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3_600);
/// Delays in a retry policy's list.
pub const RETRY_LIST_MAX_COUNT: usize = 100;
/// The text of an error; what is longer is cut, and says so.
pub const ERROR_MAX_BYTES: usize = 16 << 10;
/// One line of an attempt's log; what is longer is cut, and says so.
pub const LOG_LINE_MAX_BYTES: usize = 8 << 10;
/// Lines of one attempt's log; later ones are counted, not kept.
pub const LOG_MAX_LINES: usize = 10_000;
/// All lines of one attempt's log together; later ones are counted, not kept.
pub const LOG_MAX_BYTES: usize = 1 << 20;
/// The text that describes a job's progress.
pub const PROGRESS_MAX_CHARS: usize = 256;
/// The longest that a call waits for a job, or for work; a longer wish is cut to it.
pub const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// How seldom and how often a worker may look for work when no hint comes.
pub const POLL_MIN: Duration = Duration::from_millis(1);
/// See [`POLL_MIN`].
pub const POLL_MAX: Duration = Duration::from_secs(3_600);
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Rows that one page of a list may look at before it returns what it has, with a cursor.
pub const LIST_MAX_SCANNED_ROWS: usize = 50_000;
/// Jobs that one claim moves from scheduled or retrying to queued.
pub const PROMOTE_MAX_JOBS: usize = 1_000;
/// How long a worker that says nothing stays on the register.
pub const WORKER_SILENT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long a request is remembered that must have its effect once.
pub const ONCE_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// How long the counters for reports are kept: they are small, and a report of a whole year needs them.
pub const ROLLUPS_KEPT: Duration = Duration::from_secs(400 * 24 * 3_600);
/// A cron expression.
pub const CRON_MAX_CHARS: usize = 256;
/// The shortest period of a schedule.
pub const EVERY_MIN: Duration = Duration::from_secs(1);
/// The longest period of a schedule.
pub const EVERY_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// The most by which occurrences of a schedule may be spread.
pub const JITTER_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Missed occurrences that a schedule may catch up with.
pub const CATCH_UP_MAX_JOBS: u32 = 1_000;
/// Occurrences in one backfill.
pub const BACKFILL_MAX_JOBS: usize = 10_000;
/// Schedules in one page, of a list or of a tick.
pub const PAGE_MAX_SCHEDULES: usize = 1_000;
/// Parents of one job.
pub const PARENTS_MAX_COUNT: usize = 20_000;
/// Jobs of one workflow.
pub const WORKFLOW_MAX_JOBS: usize = 20_000;
/// Dependencies within one workflow, those of its callbacks included.
pub const WORKFLOW_MAX_EDGES: usize = 200_000;
/// What all parents of a job returned, where it is handed over together.
pub const PARENT_RESULTS_MAX_BYTES: usize = 16 << 20;
/// Workflows in one page of a list.
pub const PAGE_MAX_WORKFLOWS: usize = 200;
/// Jobs of one queue, or of one key, at once or in a time.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// The shortest time in which starts are counted for a rate.
pub const RATE_PERIOD_MIN: Duration = Duration::from_millis(1);
/// The longest.
pub const RATE_PERIOD_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Turns that a key may have while the others have one.
pub const WEIGHT_MAX: u32 = 1_000;
/// Keys of one queue that may have a weight of their own.
pub const WEIGHTS_MAX_COUNT: usize = 1_000;
