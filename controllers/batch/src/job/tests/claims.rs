//! Whose pods they are.

use steersman_api::LabelSelector;
use steersman_api::OwnerReference;

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

#[test]
fn a_pod_is_claimed_by_owner_labels_and_life() {
    let selector = LabelSelector::from_labels([("job", "pi")]);
    let owned_by = |uid: &str| OwnerReference::controller("batch/v1", "Job", "pi", Uid::from(uid));
    let meta = |owner: Option<&str>, label: &str, deleted: Option<Time>| Meta {
        key: ObjectKey::new("ns", "a"),
        labels: [("job", label)].into_iter().collect(),
        owners: owner.map(owned_by).into_iter().collect(),
        deleted,
        ..Meta::default()
    };
    let job = |deleted| Meta { deleted, ..super::job().job.meta };
    for (pod, of_living, of_deleted) in [
        (meta(Some("job"), "pi", None), Some(Claim::Owned), Some(Claim::Owned)),
        (meta(Some("job"), "pi", Some(now())), Some(Claim::Owned), Some(Claim::Owned)),
        (meta(Some("job"), "other", None), Some(Claim::Stray), None),
        (meta(Some("earlier job"), "pi", None), None, None),
        (meta(None, "pi", None), Some(Claim::Orphan), None),
        (meta(None, "pi", Some(now())), None, None),
        (meta(None, "other", None), None, None),
    ] {
        assert_eq!(Claim::of(&job(None), &selector, &pod), of_living, "{pod:?}");
        assert_eq!(Claim::of(&job(Some(now())), &selector, &pod), of_deleted, "{pod:?}");
    }
}

#[test]
fn a_pod_belongs_to_the_job_that_its_owner_reference_names_in_full() {
    let selector = LabelSelector::from_labels([("job", "pi")]);
    let ours = OwnerReference::controller("batch/v1", "Job", "pi", Uid::from("job"));
    for (differs_in, namespace, owner, claim) in [
        ("nothing", "ns", ours.clone(), Some(Claim::Owned)),
        ("namespace", "elsewhere", ours.clone(), None),
        ("kind", "ns", OwnerReference { kind: "ReplicaSet".into(), ..ours.clone() }, None),
        ("name", "ns", OwnerReference { name: "other".into(), ..ours.clone() }, None),
        ("uid", "ns", OwnerReference { uid: "other".into(), ..ours.clone() }, None),
        ("control", "ns", OwnerReference { controller: None, ..ours }, Some(Claim::Orphan)),
    ] {
        let pod = Meta {
            key: ObjectKey::new(namespace, "a"),
            labels: [("job", "pi")].into_iter().collect(),
            owners: [owner].into(),
            ..Meta::default()
        };
        assert_eq!(Claim::of(&super::job().job.meta, &selector, &pod), claim, "{differs_in}");
    }
}
