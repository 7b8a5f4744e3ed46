//! The model of leases with all its guards, and with each of them removed.

use crate::{
    assert_breaks, assert_holds, assert_keeps,
    lease::{BUDGETS, DRIFT, Guard, Leases, NOT_LOST, ONE_BELIEVER, ONE_END, ONE_START, STAYS_EXPIRED},
};

/// An ordinary job, with all guards except `without`.
fn ordinary(without: &'static [Guard]) -> Leases {
    Leases { without, at_most_once: false, drift: DRIFT, max_runs: 2, kills: true, store_crashes: 0, clock_steps: 0 }
}

/// The same in a store that may lose claims and extensions that it has not synced.
fn forgetful(without: &'static [Guard]) -> Leases {
    Leases { max_runs: 1, kills: false, store_crashes: 1, ..ordinary(without) }
}

/// A job with `max_attempts = 1`, in a store that may lose commits that it has not synced.
fn at_most_once(without: &'static [Guard]) -> Leases {
    Leases { at_most_once: true, max_runs: 2, ..forgetful(without) }
}

#[test]
fn leases_keep_their_promises() {
    assert_holds(ordinary(&[]));
}

#[test]
fn leases_keep_their_promises_in_a_store_that_loses_its_last_claims() {
    assert_holds(forgetful(&[]));
}

#[test]
fn leases_keep_their_promises_when_the_clock_of_the_store_is_set_back() {
    assert_holds(Leases { clock_steps: 1, ..ordinary(&[]) });
}

#[test]
fn a_job_that_may_run_at_most_once_does() {
    assert_holds(at_most_once(&[]));
}

#[test]
fn a_clock_that_falls_behind_further_than_its_bound_makes_two_believers() {
    assert_breaks(Leases { drift: 2 * DRIFT, ..ordinary(&[]) }, ONE_BELIEVER);
}

#[test]
fn without_a_running_row_a_settle_makes_a_second_end() {
    assert_breaks(ordinary(&[Guard::SettleNeedsRunningRow]), ONE_END);
}

#[test]
fn without_the_run_in_the_fence_a_late_settle_ends_the_next_run() {
    assert_breaks(Leases { max_runs: 3, ..ordinary(&[Guard::FenceRun]) }, ONE_BELIEVER);
}

#[test]
fn without_the_worker_in_the_fence_a_forgotten_claim_ends_the_run_of_another() {
    assert_breaks(Leases { max_runs: 2, ..forgetful(&[Guard::FenceWorker]) }, ONE_BELIEVER);
}

#[test]
fn without_a_check_of_its_end_an_extension_revives_an_expired_lease() {
    assert_breaks(ordinary(&[Guard::ExtendChecksExpiry]), STAYS_EXPIRED);
}

#[test]
fn without_a_check_of_the_lease_the_reaper_takes_a_job_that_was_extended() {
    assert_breaks(Leases { clock_steps: 1, ..ordinary(&[Guard::ReaperChecksExpiry]) }, ONE_BELIEVER);
}

#[test]
fn while_the_clock_is_steady_one_check_of_the_lease_is_enough() {
    assert_keeps(ordinary(&[Guard::ExtendChecksExpiry]), ONE_BELIEVER);
    assert_keeps(ordinary(&[Guard::ReaperChecksExpiry]), ONE_BELIEVER);
}

#[test]
fn without_both_checks_of_the_lease_a_steady_clock_does_not_help() {
    assert_breaks(ordinary(&[Guard::ExtendChecksExpiry, Guard::ReaperChecksExpiry]), ONE_BELIEVER);
}

#[test]
fn without_the_reaper_the_job_of_a_dead_worker_is_lost() {
    assert_breaks(ordinary(&[Guard::Reaper]), NOT_LOST);
}

#[test]
fn without_a_clock_of_its_own_a_worker_that_is_cut_off_believes_on() {
    assert_breaks(ordinary(&[Guard::LocalClock]), ONE_BELIEVER);
}

#[test]
fn a_lease_that_is_counted_from_its_answer_is_believed_in_for_too_long() {
    assert_breaks(ordinary(&[Guard::CountFromRequest]), ONE_BELIEVER);
}

#[test]
fn a_worker_that_takes_a_run_that_it_has_in_hand_believes_twice() {
    assert_breaks(forgetful(&[Guard::RefuseRepeatedRun]), ONE_BELIEVER);
}

#[test]
fn a_worker_that_forgets_the_runs_that_it_has_had_starts_one_twice() {
    assert_breaks(at_most_once(&[Guard::RememberRuns]), ONE_START);
}

#[test]
fn a_crash_that_spends_an_attempt_leaves_a_job_dead_that_has_not_failed_as_often() {
    assert_breaks(ordinary(&[Guard::CrashSpendsNoAttempt]), BUDGETS);
}

#[test]
fn without_a_confirmation_a_job_that_may_run_at_most_once_runs_twice() {
    assert_breaks(at_most_once(&[Guard::Confirmation]), ONE_START);
}

#[test]
fn without_a_fence_a_confirmation_starts_a_job_that_another_worker_has() {
    assert_breaks(at_most_once(&[Guard::FencedConfirmation]), ONE_START);
}

#[test]
fn a_confirmation_that_is_not_on_the_disk_is_not_enough() {
    assert_breaks(at_most_once(&[Guard::DurableConfirmation]), ONE_START);
}

#[test]
fn a_claim_whose_answer_is_lost_must_not_kill_a_job_that_may_run_at_most_once() {
    assert_breaks(at_most_once(&[Guard::UnconfirmedGoesBack]), BUDGETS);
}

#[test]
fn a_job_that_may_run_at_most_once_must_not_be_released_once_it_has_started() {
    assert_breaks(at_most_once(&[Guard::NoReleaseAfterConfirmation]), ONE_START);
}
