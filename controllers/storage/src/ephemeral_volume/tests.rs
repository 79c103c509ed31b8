use serde_json::json;
use steersman_api::{Deletion, Meta, OwnerReference, Time};
use steersman_controller::controller::{StepResult, SyncError};
use steersman_controller::plan::Plan;

use super::claim::claim;
use super::plan::{Observed, Outcome, State, Step, Volume, plan};

fn pod() -> Meta {
    Meta { key: "ns/p".parse().unwrap(), uid: "pod".into(), ..Meta::default() }
}

fn volume(name: &str, state: State) -> Volume {
    Volume { name: name.into(), claim: format!("p-{name}").into(), state }
}

fn observed(states: &[State]) -> Observed {
    let volumes = states.iter().enumerate().map(|(at, state)| volume(&at.to_string(), *state)).collect();
    Observed { pod: pod(), volumes, is_over: false }
}

#[test]
fn missing_claims_are_created_in_order_up_to_one_that_is_anothers() {
    use State::{Foreign, Made, Missing};
    let step = |step| Plan::step(step);
    for (states, expected) in [
        (&[][..], Plan::done()),
        (&[Made], Plan::done()),
        (&[Missing], step(Step::Create(0))),
        (&[Made, Missing, Missing], step(Step::Create(1))),
        (&[Foreign, Missing], step(Step::Refuse(0))),
        (&[Missing, Foreign], step(Step::Create(0))),
    ] {
        assert_eq!(plan(&observed(states)), expected, "{states:?}");
    }
    let deleting = Meta { deletion: Deletion::at(Time::from_seconds(1)), ..pod() };
    assert_eq!(plan(&Observed { pod: deleting, ..observed(&[Missing]) }), Plan::done());
}

#[test]
fn results_lead_to_the_next_volume() {
    let mut observed = observed(&[State::Missing, State::Missing]);
    let failed = StepResult::Failed(SyncError::Failed(String::new()));
    observed.absorb(Step::Create(0), &failed);
    assert_eq!(plan(&observed), Plan::step(Step::Create(0)));
    observed.absorb(Step::Create(0), &StepResult::Done(Outcome::Is(State::Made)));
    assert_eq!(plan(&observed), Plan::step(Step::Create(1)));
    // Somebody else was faster.
    observed.absorb(Step::Create(1), &StepResult::Done(Outcome::Is(State::Foreign)));
    assert_eq!(plan(&observed), Plan::step(Step::Refuse(1)));
    observed.absorb(Step::Refuse(1), &StepResult::Done(Outcome::Over));
    assert_eq!(plan(&observed), Plan::done());
}

#[test]
fn a_claim_is_the_pods_if_the_pod_manages_it() {
    let owned = |owner: OwnerReference| Meta { owners: [owner].into(), ..Meta::default() };
    let by = |uid: &str| OwnerReference::controller("v1", "Pod", "p", uid.into());
    let unmanaged = OwnerReference { controller: None, ..by("pod") };
    for (claim, state) in [
        (None, State::Missing),
        (Some(owned(by("pod"))), State::Made),
        (Some(owned(by("earlier"))), State::Foreign),
        (Some(owned(unmanaged)), State::Foreign),
        (Some(Meta::default()), State::Foreign),
    ] {
        assert_eq!(State::of(claim.as_ref(), &pod()), state, "{claim:?}");
    }
}

#[test]
fn the_claim_has_the_templates_labels_annotations_and_spec() {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}}, "unknown": {"a": 1},
    });
    let template = json!({
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}, "creationTimestamp": null}, "spec": spec,
    });
    let json = json!({"spec": {"volumes": [
        {"name": "other", "emptyDir": {}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "bare", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}},
    ]}});
    let owners = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod", "controller": true, "blockOwnerDeletion": true,
    }]);
    let made = claim(&json, &pod(), &volume("scratch", State::Missing)).unwrap();
    assert_eq!(
        made,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec,
            "metadata": {"name": "p-scratch", "ownerReferences": owners, "labels": {"l": "1"}, "annotations": {"a": "2"}},
        })
    );
    let bare = claim(&json, &pod(), &volume("bare", State::Missing)).unwrap();
    assert_eq!(bare["metadata"], json!({"name": "p-bare", "ownerReferences": owners}));
    for name in ["other", "none"] {
        assert_eq!(claim(&json, &pod(), &volume(name, State::Missing)), None);
    }
}
