//! One function for each behaviour. Its name is the sentence that it proves, and is its documentation.

#![allow(missing_docs)]

mod admin;
mod changes;
mod claiming;
mod enqueuing;
mod flow;
mod limits;
mod listing;
mod notifications;
mod queues;
mod registry;
mod schedules;
mod settling;
mod slots;
mod suspects;
mod tokens;
mod upkeep;

pub use admin::*;
pub use changes::*;
pub use claiming::*;
pub use enqueuing::*;
pub use flow::*;
pub use limits::*;
pub use listing::*;
pub use notifications::*;
pub use queues::*;
pub use registry::*;
pub use schedules::*;
pub use settling::*;
pub use slots::*;
pub use suspects::*;
pub use tokens::*;
pub use upkeep::*;

/// Runs the whole suite for an engine: `conformance!(fixture)`, where `fixture` is an async function that returns a
/// [`Fixture`](crate::Fixture) with an empty store.
#[macro_export]
macro_rules! conformance {
    ($($fixture:tt)+) => {
        $crate::for_all_behaviours! { conformance_tests ($($fixture)+) }
    };
}

/// Passes the names of all behaviours to another macro of this crate, after that macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_all_behaviours {
    ($macro:ident $context:tt) => {
        $crate::$macro! { $context
            an_enqueued_job_is_read_back_as_it_was_given
            a_job_for_later_is_scheduled_and_one_for_now_is_queued
            a_client_whose_clock_is_ahead_does_not_delay_its_jobs
            the_same_id_is_stored_once
            a_unique_key_returns_the_job_that_holds_it
            a_unique_key_is_free_again_once_its_job_is_cancelled_or_deleted
            a_unique_key_twice_in_one_batch_makes_one_job
            a_repeated_enqueue_keeps_its_unique_key
            a_repeated_enqueue_takes_no_unique_key_from_another_job
            a_unique_key_may_reach_a_queue_or_all_names
            a_unique_key_is_in_force_for_its_period
            a_unique_key_counts_only_in_the_states_it_names
            a_retried_job_takes_its_unique_key_again_unless_another_job_holds_it
            a_retried_job_has_its_unique_key_only_for_what_is_left_of_its_period
            each_job_of_a_batch_is_checked_against_those_before_it
            a_conflict_may_replace_the_payload_of_a_job_that_has_not_started
            a_conflict_may_postpone_a_scheduled_job
            a_claim_that_is_dropped_holds_nothing
            an_answer_that_is_never_polled_holds_nothing
            a_large_claim_brings_every_job_whole_and_in_order
            a_large_claim_that_is_given_up_holds_nothing
            an_extension_never_shortens_a_lease
            the_longest_allowed_texts_and_odd_characters_are_kept
            an_empty_batch_is_nothing
            claims_follow_priority_then_time_then_arrival
            a_claim_takes_only_jobs_of_its_queues_and_names
            a_claim_of_many_lanes_keeps_the_order
            a_claim_takes_at_most_its_limit
            a_claim_opens_an_attempt_and_an_event
            due_jobs_become_queued_and_are_claimed_in_one_step
            a_claim_returns_when_the_next_job_is_due
            a_worker_with_room_claims_ahead
            a_job_claimed_ahead_starts_at_its_time
            a_clock_set_back_does_not_strand_queued_jobs
            two_workers_never_hold_the_same_job
            a_claim_that_waits_is_answered_by_the_next_enqueue
            a_claim_that_waits_is_answered_when_a_job_is_due
            a_claim_that_stops_waiting_holds_nothing
            a_woken_claim_answers_at_once
            a_success_is_recorded_with_its_result
            a_failure_waits_for_its_retry_and_then_dies
            an_immediate_retry_skips_the_waiting
            a_permanent_failure_is_dead_at_once
            a_timeout_is_distinguished_from_a_failure
            a_snooze_spends_no_attempt
            a_release_spends_no_attempt_and_keeps_the_job_ready
            a_settle_by_another_worker_or_run_is_stale
            a_settle_that_is_sent_twice_counts_once
            a_stale_settle_does_not_disturb_the_others_in_its_batch
            a_worker_that_takes_its_own_released_job_again_has_a_new_fence
            a_settle_after_the_lease_expired_is_accepted_unless_the_job_was_taken
            an_extension_after_the_lease_ran_out_is_refused
            an_extension_keeps_the_reaper_away
            a_lost_worker_costs_a_crash_and_no_attempt
            a_job_may_define_its_maximum_of_crashes
            a_job_that_runs_at_most_once_goes_back_unless_its_start_was_confirmed
            a_suspect_is_handed_out_only_to_claims_of_suspects_whatever_becomes_of_it
            suspects_pass_the_limits_of_their_queue_and_key_like_others
            a_start_is_confirmed_only_while_the_lease_lasts_and_by_its_worker
            a_returned_job_keeps_its_position
            a_job_that_kills_its_workers_ends_dead
            a_reaper_cannot_end_a_lease_that_was_extended_meanwhile
            the_leases_of_a_dead_worker_end_at_once
            jobs_of_a_dead_worker_are_settled_by_the_process_that_detects_its_death
            progress_is_kept_while_the_fence_holds
            logs_are_kept_in_order_and_once
            check_leases_returns_which_attempts_are_still_held
            retrying_a_dead_job_continues_its_history
            a_retried_job_that_runs_at_most_once_stays_one
            cancelling_works_from_every_active_status
            cancelling_a_running_job_makes_its_settle_stale
            asking_for_the_present_state_adds_no_event
            a_forbidden_change_is_reported_and_changes_nothing
            a_change_of_an_unknown_job_is_reported
            run_now_starts_a_scheduled_or_retrying_job
            an_operators_action_is_an_event_with_its_actor
            counts_follow_every_step
            pending_jobs_are_counted_by_user_and_name
            rollups_contain_outcomes_durations_and_lateness
            lists_come_in_the_order_of_their_kind
            lists_are_paged_without_gaps_or_repeats
            a_page_finds_jobs_that_are_far_between
            a_tag_that_is_named_twice_finds_its_job_once
            lists_filter_by_every_field
            a_foreign_cursor_is_refused
            deleted_jobs_are_listed_only_on_request
            workers_come_heartbeat_and_leave
            a_lock_is_taken_once_until_it_expires
            a_lock_belongs_to_its_owner_alone
            lock_tokens_only_grow
            a_notification_is_read_back_as_it_was_sent
            a_user_receives_own_messages_and_broadcasts
            notifications_are_dropped_by_age_and_their_numbers_never_used_again
            a_reader_by_number_misses_no_notification
            a_notification_is_hinted_at
            events_are_returned_from_the_first_read_on
            reads_from_a_cursor_return_each_event_once
            a_job_that_is_written_without_a_change_has_no_new_event
            every_kind_of_change_is_returned
            the_event_of_a_job_with_an_old_id_is_returned
            more_events_than_the_limit_are_reported_as_missed
            a_cursor_that_is_too_old_or_foreign_is_found_out
            events_that_are_gone_do_not_hide_new_ones
            a_follower_of_events_misses_none
            tokens_are_kept_until_they_are_removed_with_their_sessions
            a_store_that_had_a_token_is_closed_until_its_tokens_are_cleared
            a_request_is_remembered_as_it_came_first
            retention_deletes_old_finished_jobs_and_never_an_active_one
            a_job_may_define_its_retention
            retention_keeps_a_job_while_the_period_of_its_unique_key_lasts
            purging_removes_every_trace
            trimming_removes_old_attempts_and_logs
            ephemeral_jobs_are_dropped_unless_they_run
            jobs_that_are_removed_with_their_parents_are_counted_once
            upkeep_is_bounded_by_its_limit
            histories_of_several_jobs_are_those_of_each
            a_schedule_is_read_back_as_it_was_saved
            schedules_are_listed_by_name_in_pages
            upcoming_schedules_come_soonest_first_without_those_that_do_not_run
            a_schedule_and_its_jobs_are_stored_together_or_not_at_all
            of_several_schedules_those_are_stored_that_were_not_changed_meanwhile
            an_occurrence_is_enqueued_once_and_waits_for_its_time_and_jitter
            jobs_are_listed_by_their_schedule_after_its_removal
            events_of_a_schedule_are_kept_after_its_removal
            a_job_waits_until_the_last_of_its_parents_has_succeeded
            a_job_that_is_cancelled_as_it_comes_was_never_pending
            a_job_that_is_cancelled_as_it_comes_keeps_no_key
            a_refused_workflow_does_not_block_its_parents
            a_released_job_still_waits_for_its_time
            a_job_whose_parents_have_ended_begins_as_they_ended
            a_dead_parent_cancels_its_children_and_theirs
            each_policy_has_its_answer_to_a_failed_parent
            a_job_that_keeps_waiting_runs_once_its_parent_is_retried
            a_job_that_runs_only_after_a_failure_is_cancelled_without_one
            an_unknown_parent_refuses_the_whole_batch
            cancelling_and_deleting_affect_waiting_jobs
            a_waiting_job_can_be_cancelled_or_started
            a_running_job_may_get_children
            many_parents_and_many_children_settle_in_any_batches
            relatives_and_results_are_returned
            waiting_jobs_are_listed_and_counted
            a_workflow_is_stored_whole_and_counts_its_ends
            a_workflow_that_is_refused_leaves_nothing
            a_node_of_a_workflow_can_be_replaced_by_another_job
            workflows_are_listed_latest_first
            a_family_that_leaves_takes_its_dependencies_along
            a_paused_queue_is_not_claimed_until_it_is_resumed
            settings_of_a_queue_are_stored_with_their_history
            a_claim_may_take_queues_in_their_order
            jobs_of_one_key_run_one_at_a_time
            jobs_with_and_without_a_key_in_one_batch_are_distinguished
            a_full_key_does_not_block_jobs_behind_it
            a_slot_is_free_again_however_its_job_left_it
            the_first_of_a_key_is_the_most_urgent_then_the_oldest
            a_key_waits_for_no_worker_that_is_not_there
            every_way_to_be_queued_obeys_the_limits
            a_queued_job_with_a_key_can_be_cancelled_and_listed
            a_queue_runs_no_more_than_its_limit_with_concurrent_claims
            a_changed_limit_counts_from_the_next_claim_on
            jobs_of_a_queue_start_in_time_when_its_limit_is_removed
            a_rate_lets_no_more_start_in_any_span
            a_rate_is_used_up_and_nothing_comes_a_period_late
            each_key_has_the_rate_of_its_queue
            a_shorter_period_counts_at_once
            keys_take_turns_where_a_queue_is_fair
            limited_jobs_are_not_claimed_ahead
            many_keys_are_all_served_and_none_twice_at_once
            a_claim_that_waits_is_answered_when_a_slot_is_free
            the_longest_key_of_the_longest_queue_is_limited
            a_cancelled_job_keeps_the_slot_of_its_key_until_its_handler_is_gone
            a_cancelled_job_keeps_the_slot_of_its_queue_until_its_handler_is_gone
            the_slot_of_a_cancelled_job_is_free_when_its_lease_ends
            only_its_worker_frees_the_slot_of_a_cancelled_job_and_once
            jobs_that_are_cancelled_together_leave_their_slots_one_by_one
            a_cancelled_job_counts_as_one_start
            a_job_that_is_run_again_waits_for_the_handler_of_the_cancelled_one
            a_worker_that_is_known_to_be_dead_occupies_no_slot
            a_claim_that_waits_is_answered_when_the_handler_of_a_cancelled_job_is_gone
            occupied_slots_are_returned_with_their_executions
            the_store_finds_itself_well
        }
    };
}

/// Generates one test for each behaviour.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    (($fixture:path) $($behaviour:ident)*) => {
        $(
            #[test]
            fn $behaviour() {
                let runtime = $crate::tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let fixture = $fixture().await;
                    $crate::conformance::$behaviour(&fixture).await;
                    $crate::conformance::audit(&fixture).await;
                });
            }
        )*
    };
}

/// Lists the named behaviours.
#[doc(hidden)]
#[macro_export]
macro_rules! behaviour_list {
    (() $($behaviour:ident)*) => {
        &[$(Behaviour { name: stringify!($behaviour), check: |fixture| Box::pin($behaviour(fixture)) }),*]
    };
}

/// A behaviour that every engine must have.
#[derive(Debug, Clone, Copy)]
pub struct Behaviour {
    /// The sentence that it proves, with underscores.
    pub name: &'static str,
    check: for<'f> fn(&'f Fixture) -> LocalBoxFuture<'f, ()>,
}

impl Behaviour {
    /// All behaviours.
    pub const ALL: &'static [Self] = for_all_behaviours! { behaviour_list () };

    /// Panics unless the fixture's store, which must be empty, has this behaviour and is consistent afterwards.
    pub async fn check(self, fixture: &Fixture) {
        (self.check)(fixture).await;
        audit(fixture).await;
    }
}

use futures_util::future::LocalBoxFuture;
use punctual_core::{Filter, History, Job, Page, Status, Store};

use crate::Fixture;

/// Checks invariants that hold for any store at any time; see [`audit_store`].
pub async fn audit(fixture: &Fixture) {
    audit_store(&*fixture.store).await;
}

/// Checks invariants that hold for any store at any time: every event follows from the previous one, every job's status
/// is that of its last event, a job ends at most once unless an operator intervenes, an attempt is open exactly while
/// its job is processing, and the checks of the engine pass. Returns the number of jobs.
pub async fn audit_store(store: &dyn Store) -> usize {
    let filter = Filter { statuses: Status::ALL.to_vec(), ..Filter::default() };
    let (mut page, mut jobs) = (Page::first(1_000), 0);
    loop {
        let found = store.list(filter.clone(), page.clone()).await.unwrap();
        let histories = store.histories(found.jobs.iter().map(|job| job.id).collect()).await.unwrap();
        found.jobs.iter().zip(&histories).for_each(|(job, history)| audit_job(job, history));
        jobs += found.jobs.len();
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    for diagnostic in store.check().await.unwrap() {
        assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
    }
    jobs
}

/// Checks the invariants of one job; see [`audit_store`].
fn audit_job(job: &Job, History { events, attempts }: &History) {
    for pair in events.windows(2) {
        // Another enqueue may change a job without changing its status.
        let updated = pair[0].status == pair[1].status && pair[1].detail.is_some();
        let legal = updated || pair[0].status.may_become(pair[1].status);
        assert!(legal, "{}: {} became {}", job.id, pair[0].status, pair[1].status);
    }
    assert_eq!(events.last().map(|event| event.status), Some(job.status), "{}", job.id);
    let ends = events.iter().filter(|event| event.status.is_finished() && event.actor.is_none()).count();
    let retried = events.iter().filter(|event| event.status == Status::Queued && event.actor.is_some()).count();
    assert!(ends <= 1 + retried, "{} came to an end {ends} times", job.id);
    let open = attempts.iter().filter(|attempt| attempt.finished_at.is_none()).count();
    assert_eq!(open, usize::from(job.status == Status::Processing), "{}", job.id);
}
