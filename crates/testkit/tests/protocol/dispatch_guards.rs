//! The model of dispatch with all its guards, and with each of them removed.

use crate::{
    assert_breaks, assert_holds,
    dispatch::{Dispatch, Fault, Guard, NOT_LOST, NOT_SUPERSEDED, ONE_BELIEVER},
};

/// All guards except `without`; with one of the faults, or with a second run of the job.
fn dispatch(without: &'static [Guard], faults: &'static [Fault]) -> Dispatch {
    let runs = if faults.is_empty() { 2 } else { 1 };
    Dispatch { without, faults, runs, epochs: 2, recovery: false }
}

/// Checks in every state whether the job can still finish.
fn recovery(without: &'static [Guard]) -> Dispatch {
    Dispatch { recovery: true, ..dispatch(without, &[]) }
}

#[test]
fn dispatch_keeps_its_promises_while_processes_pause_and_answers_are_lost() {
    assert_holds(Dispatch { epochs: 3, ..dispatch(&[], &[]) });
}

#[test]
fn dispatch_keeps_its_promises_when_redis_is_emptied() {
    assert_holds(dispatch(&[], &[Fault::Empty]));
}

#[test]
fn dispatch_keeps_its_promises_when_redis_restarts_with_old_data() {
    assert_holds(dispatch(&[], &[Fault::Restore]));
}

#[test]
fn dispatch_keeps_its_promises_when_a_replica_takes_over_beside_the_old_primary() {
    assert_holds(dispatch(&[], &[Fault::Failover]));
}

#[test]
fn dispatch_keeps_its_promises_when_a_replica_takes_over_for_a_moment() {
    assert_holds(dispatch(&[], &[Fault::Failback]));
}

#[test]
fn dispatch_keeps_its_promises_when_a_process_is_killed() {
    assert_holds(dispatch(&[], &[Fault::Kill]));
}

#[test]
fn a_job_that_is_dispatched_comes_to_its_end_from_every_state() {
    assert_holds(recovery(&[]));
}

#[test]
fn without_the_grace_postgresql_takes_jobs_that_redis_has_just_handed_out() {
    assert_breaks(dispatch(&[Guard::GraceBeforeFallback], &[]), ONE_BELIEVER);
}

#[test]
fn a_claim_of_the_fallback_must_not_outlive_the_return_of_redis() {
    assert_breaks(dispatch(&[Guard::RevisionOnFallback], &[]), ONE_BELIEVER);
}

#[test]
fn after_a_lapse_redis_must_not_continue_with_its_old_jobs() {
    assert_breaks(dispatch(&[Guard::LapseGivesAnew], &[]), ONE_BELIEVER);
}

#[test]
fn without_the_pause_a_new_epoch_hands_out_jobs_that_the_last_one_has_just_handed_out() {
    assert_breaks(dispatch(&[Guard::OpeningDelay], &[Fault::Empty]), ONE_BELIEVER);
}

#[test]
fn a_pause_of_the_grace_alone_is_too_short_for_a_process_that_has_not_noticed() {
    assert_breaks(dispatch(&[Guard::PauseUntilNoticed], &[Fault::Failover]), ONE_BELIEVER);
}

#[test]
fn without_the_epoch_a_claim_gets_jobs_that_redis_had_before_it_lapsed() {
    assert_breaks(dispatch(&[Guard::EpochCheck], &[]), ONE_BELIEVER);
}

#[test]
fn without_the_run_of_the_server_old_data_are_handed_out_again() {
    assert_breaks(dispatch(&[Guard::ServerRun], &[Fault::Restore]), ONE_BELIEVER);
}

#[test]
fn a_run_of_the_server_that_outlives_a_change_of_roles_is_not_enough() {
    assert_breaks(dispatch(&[Guard::RunChangesWithRole], &[Fault::Failback]), ONE_BELIEVER);
}

#[test]
fn a_process_that_pauses_between_its_check_and_its_claim_must_check_again() {
    assert_breaks(dispatch(&[Guard::CheckAtHandOut], &[]), ONE_BELIEVER);
}

#[test]
fn an_execution_that_is_counted_from_its_start_is_believed_in_for_too_long() {
    assert_breaks(dispatch(&[Guard::CountFromRequest], &[]), ONE_BELIEVER);
}

#[test]
fn a_handler_must_be_cancelled_without_a_query_to_postgresql() {
    assert_breaks(dispatch(&[Guard::GiveUpByOwnClock], &[]), ONE_BELIEVER);
}

#[test]
fn without_a_check_of_the_job_a_late_start_is_recorded_after_another_run() {
    assert_breaks(dispatch(&[Guard::AsItCame], &[]), NOT_SUPERSEDED);
}

#[test]
fn a_document_that_stays_starts_a_job_again_that_was_put_back() {
    assert_breaks(dispatch(&[Guard::DocumentGoesWithClaim], &[]), ONE_BELIEVER);
}

#[test]
fn a_job_that_is_put_back_too_early_is_taken_from_its_execution() {
    assert_breaks(dispatch(&[Guard::HoldBeyondGrace], &[]), ONE_BELIEVER);
}

#[test]
fn a_job_that_is_pushed_late_must_not_start_unchecked() {
    assert_breaks(dispatch(&[Guard::NewFor], &[]), ONE_BELIEVER);
}

#[test]
fn a_job_that_is_pushed_into_an_epoch_that_is_still_loaded_must_not_start_unchecked() {
    assert_breaks(dispatch(&[Guard::LoadedEpoch], &[]), ONE_BELIEVER);
}

#[test]
fn the_sweep_must_skip_jobs_that_are_about_to_be_pushed() {
    assert_breaks(dispatch(&[Guard::SweepAge], &[]), ONE_BELIEVER);
}

#[test]
fn without_the_sweep_a_job_that_was_not_passed_to_redis_is_lost() {
    assert_breaks(recovery(&[Guard::Sweep]), NOT_LOST);
}

#[test]
fn without_putting_back_a_job_whose_claim_was_lost_is_lost() {
    assert_breaks(recovery(&[Guard::PutBack]), NOT_LOST);
}

#[test]
fn without_the_fallback_a_job_waits_as_long_as_redis_is_gone() {
    assert_breaks(recovery(&[Guard::Fallback]), NOT_LOST);
}
