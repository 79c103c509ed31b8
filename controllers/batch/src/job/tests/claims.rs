//! Whose pods they are.

use super::*;

#[test]
fn an_orphan_is_adopted_after_a_live_look_at_the_job_and_counts_as_its_own() {
    let observed = job().with([pod("a").claim(Claim::Orphan).untracked()]);
    assert_eq!(told(observed), ["check alive", "adopt a", "write active=1"]);
}

#[test]
fn a_pod_that_the_selector_does_not_mean_any_more_is_released_and_replaced() {
    let observed = job().with([pod("a").claim(Claim::Stray)]);
    assert_eq!(told(observed), ["disown a", "create 1", "write active=1"]);
}

#[test]
fn a_pod_that_is_gone_when_it_is_to_be_adopted_is_replaced() {
    let mut observed = job().with([pod("a").claim(Claim::Orphan)]);
    observed.absorb(Step::CheckAlive, StepResult::Done(Outcome::Done));
    observed.absorb(Step::Adopt(pod("a").reference()), StepResult::Done(Outcome::Gone));
    assert_eq!(story(&mut observed), ["create 1", "write active=1"]);
}

#[test]
fn a_sync_whose_claims_fail_ends() {
    let mut observed = job().with([pod("a").claim(Claim::Orphan)]);
    observed.done.alive = true;
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
    assert_eq!(batch.on_failure, steersman_controller::plan::OnFailure::Stop);
}
