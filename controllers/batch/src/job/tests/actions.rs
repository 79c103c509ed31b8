//! What a sync counts as in the metrics.

use super::super::metrics::Action;
use super::super::wanted::PerIndex;
use super::*;

/// The label of a sync all of whose steps succeed.
fn action(mut observed: Observed) -> Option<Action> {
    story(&mut observed);
    observed.action.into_inner()
}

#[test]
fn a_sync_counts_as_its_first_decision_about_the_number_of_pods() {
    let waiting = Backoff::default().after(&[], &[now()]);
    let suspended = || job().wanting(|wanted| wanted.suspended = true);
    let mut dying = job();
    let limits = PerIndex { backoff_limit: 0, max_failed: None };
    let without_index = job()
        .parallel(2)
        .completions(Completions::Indexes(2))
        .wanting(|wanted| wanted.per_index = Some(limits))
        .status(|status| status.failed_indexes = Some("0".into()))
        .with([pod("a").index(1)]);
    dying.job.meta.deletion = steersman_api::Deletion::at(now());
    for (name, observed, expected) in [
        ("creates a pod", job(), Action::PodsCreated),
        ("waits to create a pod", Observed { backoff: waiting, ..job() }, Action::PodsCreated),
        ("has no index for another pod", without_index, Action::PodsCreated),
        ("deletes a pod", job().with([pod("a"), pod("b")]), Action::PodsDeleted),
        ("suspended, with a pod", suspended().with([pod("a")]), Action::PodsDeleted),
        ("suspended, without a pod", suspended(), Action::PodsDeleted),
        ("nothing changes", job().with([pod("a")]).settled(), Action::Tracking),
        ("counts a pod that has succeeded", job().with([pod("a").succeeded()]), Action::Tracking),
        ("adopts a pod", job().with([pod("a").claim(Claim::Orphan)]), Action::Tracking),
        (
            "releases a pod and creates another",
            job().with([pod("a").claim(Claim::Stray)]),
            Action::PodsCreated,
        ),
        (
            "past its deadline",
            job().wanting(|wanted| wanted.active_deadline = Some(Duration::from_secs(1))).with([pod("a")]),
            Action::Reconciling,
        ),
        ("being deleted", dying, Action::Reconciling),
    ] {
        assert_eq!(action(observed), Some(expected), "{name}");
    }
}

#[test]
fn a_sync_whose_claims_fail_counts_as_no_decision() {
    let mut observed = job().with([pod("a").claim(Claim::Orphan)]);
    let failed = steersman_controller::controller::SyncError::Failed("no answer".to_owned());
    observed.absorb(Step::CheckAlive, StepResult::Failed(failed));
    plan(&observed, now());
    assert_eq!(observed.action.get(), None);
}
