//! All statements of the shared operations. Each engine has a file per noun, with a section for each of its statements;
//! PostgreSQL has those of the nouns that it shares.

use crate::db::Statement;

/// Calls another macro with the list of the statements that all engines have, followed by others: files, each with the
/// names of its statements.
macro_rules! shared_statements {
    ($with:ident $($others:tt)*) => {
        $with! {
            "schedules" {
                SCHEDULES SCHEDULE UPCOMING INSERT_SCHEDULE UPDATE_SCHEDULE REMOVE_SCHEDULE INSERT_SCHEDULE_EVENT
                SCHEDULE_EVENTS
            }
            "queues" {
                QUEUES SAVE_QUEUE INSERT_QUEUE_EVENT QUEUE_EVENTS
            }
            "workers" {
                HEARTBEAT DEREGISTER WORKERS
            }
            "locks" {
                LOCK EXTEND_LOCK UNLOCK LOCKS
            }
            "notifications" {
                INSERT_NOTIFICATION NOTIFICATIONS NOTIFICATIONS_OF_USER LAST_NOTIFICATION PRUNE_NOTIFICATIONS
            }
            "tokens" {
                INSERT_TOKEN TOKENS REVOKE_TOKEN REMOVE_SESSIONS CLEAR_TOKENS PRUNE_TOKENS IDEMPOTENT_REQUEST
                PRUNE_IDEMPOTENT_REQUESTS
            }
            $($others)*
        }
    };
}
pub(crate) use shared_statements;

/// Calls another macro with the list of all statements.
macro_rules! every_statement {
    ($with:ident) => {
        $crate::ops::statements::shared_statements! {
            $with
            "jobs" {
                INSERT_JOB JOB JOB_BY_SEQ SEQ_OF SAVE_JOB UPDATE_JOB SET_RETENTION RUN_AT RESULT DELETE_JOB
                INSERT_LABEL DELETE_LABEL FIND_KEY INSERT_KEY DELETE_KEY
            }
            "history" {
                INSERT_ATTEMPT ATTEMPTS DELETE_ATTEMPTS PRUNE_ATTEMPTS INSERT_EVENT EVENTS NEXT_EVENT
                SAVE_EVENT_NUMBER EVENT_NUMBERS CHANGES DELETE_EVENTS INSERT_LOG LOGS DELETE_LOGS PRUNE_LOGS
                SET_PROGRESS
            }
            "queued" {
                INSERT_READY DELETE_READY DELETE_LANE_HEAD LANE_QUEUES LANE_NAMES LANE_HEAD INSERT_DUE DELETE_DUE DUE
                NEXT_DUE DUE_JOB PROMOTE_JOB
            }
            "claims" {
                CLAIM_TAKE CLAIM_READ INSERT_RUNNING RUNNING HOLD_RUNNING DELETE_RUNNING SETTLE_JOB EXTEND_LEASE
                CONFIRM EXPIRED_LEASES LEASES_OF END_LEASES
            }
            "limits" {
                ANY_KEYED INSERT_KEYED DELETE_KEYED KEYED_NAME KEYED_FIRST HELD_OF_KEY HELD_OF_QUEUE HEADS HEAD_QUEUE
                HEAD_NAME INSERT_HEAD DELETE_HEADS INSERT_WAKEUP DELETE_WAKEUP DUE_WAKEUPS NEXT_WAKEUP WAKE_QUEUE
                QUEUE_WITH_WAKEUP STARTS ADD_START LATE_STARTS DELETE_LATE_STARTS QUEUE_WITH_STARTS PRUNE_STARTS
                DELETE_OLD_STARTS TURN SAVE_TURN QUEUE_WITH_TURNS PRUNE_TURNS DELETE_OLD_TURNS INSERT_SLOT FIND_SLOT
                SLOTS_OF_WORKER OCCUPIED_SLOTS DELETE_SLOT DELETE_SLOT_WAKEUP PRUNE_SLOTS LIMITED_QUEUES
            }
            "flow" {
                INSERT_WAITING DELETE_WAITING WAIT_ON RECORD_PARENT_FAILURE START_JOB PARENT INSERT_DEPENDENCY
                MEET_DEPENDENCY MARK_PARENT MARK_RUNNING_PARENT PENDING_CHILDREN PARENTS_OF PARENTS CHILDREN
                DELETE_DEPENDENCIES DELETE_DEPENDENTS INSERT_WORKFLOW WORKFLOW_OF WORKFLOW WORKFLOWS COUNT_ENDS
                PRUNE_WORKFLOWS NODE NODES INSERT_NODE DELETE_NODE
            }
            "lists" {
                LIST_NEWEST LIST_NEWEST_OF_NAME LIST_NEWEST_OF_LABEL LIST_FINISHED LIST_DUE LIST_LANE LIST_KEYED
                LIST_RUNNING LIST_WAITING
            }
            "counters" {
                ADD_COUNT COUNTS ADD_PENDING CLEAR_PENDING PENDING_BY_USER ADD_ROLLUP ROLLUPS PRUNE_ROLLUPS
                INSERT_DEAD DELETE_DEAD DEAD_BY_NAME
            }
            "retention" {
                EXPIRABLE EXPIRABLE_BY_JOB INSERT_EXPIRY DELETE_EXPIRY PURGEABLE INSERT_DELETED DELETE_DELETED
                EPHEMERAL INSERT_EPHEMERAL DELETE_EPHEMERAL PRUNE_WORKERS
            }
            "transfer" {
                IMPORT_JOB IMPORT_LAST_EVENT IMPORT_KEY DEPENDENCIES_OF IMPORT_DEPENDENCY IMPORT_WORKFLOW IMPORT_NODE
                IMPORT_SCHEDULE IMPORT_QUEUE IMPORT_ROLLUP IMPORT_NOTIFICATION
            }
            "diagnostics" {
                CHECK_COUNTS CHECK_PENDING CHECK_INDEXES CHECK_HISTORIES
            }
        }
    };
}
#[cfg(any(feature = "sqlite", feature = "sqlserver"))]
pub(crate) use every_statement;

macro_rules! name_all {
    ($($file:literal { $($name:ident)* })*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index {
            $($($name,)*)*
        }

        $($(pub(crate) const $name: Statement = Statement(Index::$name as usize, stringify!($name));)*)*
    };
}

every_statement!(name_all);
