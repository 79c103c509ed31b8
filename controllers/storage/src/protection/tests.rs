use serde_json::{Value, json};
use steersman_api::Meta;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_informer::View;
use steersman_kinds::persistent_volume::VolumeOffer;
use steersman_kinds::persistent_volume_claim::{StorageAllotment, VolumeDemand};
use steersman_kinds::pod::Placement;
use steersman_kinds::pod_volumes::PodVolumes;
use steersman_kinds::shared::Shared;
use steersman_testing::{Pod, pod};

use super::attributes_classes::{ClassifiedClaim, ClassifiedVolume, names_in_claim, names_in_volume};
use super::claims::{Candidate, ProtectedClaim};
use super::finalizer::{Write, change};
use super::plan::{Observed, Outcome, Step, plan};
use crate::claiming_pod::{ClaimingPod, claim_names_of};

#[test]
fn an_object_is_protected_until_nothing_uses_it() {
    let (done, step) = (Plan::done(), Plan::step);
    let deleting = Observed { is_deleting: true, has_finalizer: true, ..Observed::default() };
    for (what, observed, expected) in [
        ("without finalizer", Observed::default(), step(Step::Add)),
        ("in use", Observed { has_finalizer: true, ..Observed::default() }, done.clone()),
        ("that others keep", Observed { is_deleting: true, ..Observed::default() }, done.clone()),
        ("with a user in the cache", Observed { is_used: true, ..deleting }, done.clone()),
        ("without a user in the cache", deleting, step(Step::Ask)),
        ("without any user", Observed { is_used_now: Some(false), ..deleting }, step(Step::Remove)),
        ("that was written", Observed { is_done: true, ..deleting }, done),
    ] {
        assert_eq!(plan(&observed), expected, "an object {what}");
    }
    let unseen = Observed { is_used_now: Some(true), ..deleting };
    assert!(matches!(plan(&unseen), Plan::Done { requeue_after: Some(_) }));
}

#[test]
fn a_sync_asks_before_it_removes_the_finalizer() {
    let mut observed = Observed { is_deleting: true, has_finalizer: true, ..Observed::default() };
    assert_eq!(plan(&observed), Plan::step(Step::Ask));
    observed.absorb(&StepResult::Skipped);
    assert_eq!(plan(&observed), Plan::step(Step::Ask));
    observed.absorb(&StepResult::Done(Outcome::Asked(false)));
    assert_eq!(plan(&observed), Plan::step(Step::Remove));
    observed.absorb(&StepResult::Done(Outcome::Written));
    assert_eq!(plan(&observed), Plan::done());
}

#[test]
fn a_write_changes_one_finalizer_and_nothing_else() {
    for (before, write, after) in [
        (json!(null), Write::Add, Some(json!(["mine"]))),
        (json!(["other"]), Write::Add, Some(json!(["other", "mine"]))),
        (json!(["mine", "other"]), Write::Add, None),
        (json!(["other", "mine", "last"]), Write::Remove, Some(json!(["other", "last"]))),
        (json!(["mine"]), Write::Remove, Some(json!([]))),
        (json!(["other"]), Write::Remove, None),
        (json!(null), Write::Remove, None),
    ] {
        let object = json!({"metadata": {"finalizers": before}, "spec": {"unknown": [1]}});
        let mut changed = object.clone();
        assert_eq!(change(&mut changed, "mine", write), after.is_some(), "{write:?} {object}");
        if let Some(after) = after {
            assert_eq!(changed, json!({"metadata": {"finalizers": after}, "spec": {"unknown": [1]}}));
        }
    }
}

/// A pod `p` on a node, with one claim by name and one for a generic ephemeral volume.
fn user() -> Pod {
    let volumes = json!([
        {"name": "named", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "empty", "emptyDir": {}},
    ]);
    pod("p").namespace("ns").uid("pod").on("n").spec(json!({"volumes": volumes})).phase("Running")
}

fn claim(name: &str, owner: &str) -> Meta {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": true});
    let claim = json!({"metadata": {"namespace": "ns", "name": name, "ownerReferences": [owner]}});
    View::<ProtectedClaim>::from_json(&claim).meta().clone()
}

fn uses(user: &Pod, claim: &Meta) -> bool {
    let pod = View::<ClaimingPod>::from_json(&user.clone().build());
    let candidate =
        Candidate { meta: pod.meta(), placement: pod.get::<Placement>(), volumes: pod.get::<PodVolumes>() };
    candidate.uses(claim)
}

#[test]
fn the_claims_of_a_pod_are_those_that_it_names_and_those_that_are_made_for_it() {
    let names: Vec<_> = claim_names_of(&View::from_json(&user().build())).collect();
    assert_eq!(names, ["data", "p-scratch"]);
}

#[test]
fn a_pod_uses_its_claims_from_when_it_is_scheduled_until_it_is_gone() {
    let terminating = |grace: i64| user().terminating("2026-01-01T00:00:00Z", grace);
    for (what, pod, named, made) in [
        ("runs", user(), true, true),
        ("was not scheduled", user().spec(json!({"nodeName": null})), false, false),
        ("succeeded", user().phase("Succeeded"), true, true),
        ("failed", user().phase("Failed"), true, true),
        ("is ending", terminating(30), true, true),
        // A finalizer may keep it, and wait for the claim that was made for it.
        ("has been ended", terminating(0), true, false),
    ] {
        assert_eq!(uses(&pod, &claim("data", "")), named, "a pod that {what} and a claim that it names");
        assert_eq!(uses(&pod, &claim("p-scratch", "pod")), made, "a pod that {what} and a claim made for it");
    }
    for (name, owner) in
        [("other", "pod"), ("p-scratch", "earlier pod"), ("p-named", "pod"), ("pscratch", "pod")]
    {
        assert!(!uses(&user(), &claim(name, owner)), "{name} of {owner}");
    }
}

#[test]
fn claims_and_volumes_use_the_classes_that_they_name() {
    let names = |claim: Value| {
        let claim = View::<ClassifiedClaim>::from_json(&claim);
        names_in_claim(claim.get::<Shared<VolumeDemand>>(), claim.get::<Shared<StorageAllotment>>())
    };
    for (claim, expected) in [
        (json!({}), &[][..]),
        (json!({"spec": {"volumeAttributesClassName": "gold"}}), &["gold"]),
        (json!({"spec": {"volumeAttributesClassName": ""}}), &[]),
        (json!({"status": {"currentVolumeAttributesClassName": "silver"}}), &["silver"]),
        (
            json!({"status": {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "new", "status": "Pending"}}}),
            &["new"],
        ),
        (
            json!({
                "spec": {"volumeAttributesClassName": "gold"},
                "status": {
                    "currentVolumeAttributesClassName": "silver",
                    "modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "Pending"},
                },
            }),
            &["gold", "silver"],
        ),
    ] {
        assert_eq!(names(claim.clone()), expected, "{claim}");
    }
    let names = |volume: Value| {
        names_in_volume(View::<ClassifiedVolume>::from_json(&volume).get::<Shared<VolumeOffer>>())
    };
    assert_eq!(names(json!({"spec": {"volumeAttributesClassName": "gold"}})), ["gold"]);
    assert!(names(json!({"spec": {}})).is_empty());
}
