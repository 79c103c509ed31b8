use super::*;
use steersman_api::Deletion;

#[test]
fn a_set_adopts_only_after_a_live_read_and_releases_without() {
    let observed = set(&["n"], vec![pod("a", "n"), Pod { claim: Claim::Stray, ..pod("b", "n") }])
        .with(|o| o.revisions.push(Revision { claim: Claim::Stray, ..revision("stray", 1, false) }));
    let releases = steps(&observed);
    assert!(matches!(&releases[..], [Step::ReleaseRevision(_), Step::Release(pod)] if pod.uid == "b".into()));

    let orphan = Pod { claim: Claim::Orphan, ..failed(pod("orphan", "n")) };
    let mut observed = set(&["n"], vec![orphan])
        .with(|o| o.revisions.push(Revision { claim: Claim::Orphan, ..revision("orphan", 1, false) }));
    assert_eq!(steps(&observed), [Step::CheckAlive]);
    observed.done.alive = true;
    // Pods that have ended are adopted as well.
    assert!(
        matches!(&steps(&observed)[..], [Step::AdoptRevision(_), Step::Adopt(pod)] if pod.uid == "orphan".into())
    );
}

#[test]
fn a_set_that_is_being_deleted_is_left_alone() {
    let orphan = Pod { claim: Claim::Orphan, ..pod("orphan", "n") };
    let observed = set(&["n", "m"], vec![orphan]).with(|o| o.set.meta.deletion = Deletion::at(now()));
    assert_eq!(plan(&observed, now()), Plan::done());
}

#[test]
fn an_unsure_observation_is_confirmed_before_the_first_step_and_not_without_one() {
    let mut observed = set(&["n"], Vec::new()).with(|o| o.grounds = Grounds::Unsure);
    assert_eq!(steps(&observed), [Step::Confirm]);
    observed.pods.push(pod("a", "n"));
    observed.set.status = settled_status(&observed);
    assert_eq!(steps(&observed), []);
}

fn settled_status(observed: &Observed) -> Status {
    let sure = observed.clone().with(|o| o.grounds = Grounds::Sure);
    match &steps(&sure)[..] {
        [Step::WriteStatus(status)] => (**status).clone(),
        other => panic!("{other:?}"),
    }
}
