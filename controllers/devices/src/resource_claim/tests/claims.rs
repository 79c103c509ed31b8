//! What to do for a claim.

use steersman_api::{Deletion, Meta, ObjectKey, SharedList, Time};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_kinds::device_allocation::Consumer;

use super::super::claim_plan::ConsumerState::{Done, Doubtful, Uses};
use super::super::claim_plan::{ClaimObserved, ClaimStep, ConsumerState, Owner, plan};
use super::super::claim_syncs::ClaimOutcome;
use super::super::facts::{ClaimFacts, FINALIZER};

fn consumer(name: &str) -> Consumer {
    Consumer { resource: "pods".into(), name: name.into(), uid: name.into(), ..Consumer::default() }
}

/// An allocated claim with the finalizer, and consumers `p0`, `p1` and so on.
fn observed(consumers: &[ConsumerState]) -> ClaimObserved {
    let meta = Meta {
        key: ObjectKey::new("ns", "c"),
        finalizers: ["example.com/kept".into(), FINALIZER.into()].into(),
        ..Meta::default()
    };
    let reserved_for = (0..consumers.len()).map(|number| consumer(&format!("p{number}"))).collect();
    ClaimObserved {
        claim: ClaimFacts { meta, is_allocated: true, reserved_for, ..ClaimFacts::default() },
        consumers: consumers.to_vec(),
        ..ClaimObserved::default()
    }
}

fn deleting(mut observed: ClaimObserved) -> ClaimObserved {
    observed.claim.meta.deletion = Deletion::at(Time::from_seconds(1));
    observed
}

fn without_finalizer(mut observed: ClaimObserved) -> ClaimObserved {
    observed.claim.meta.finalizers = SharedList::default();
    observed
}

fn unallocated(mut observed: ClaimObserved) -> ClaimObserved {
    observed.claim.is_allocated = false;
    observed
}

fn owned(owner: Owner, observed: ClaimObserved) -> ClaimObserved {
    ClaimObserved { owner, ..observed }
}

fn steps(observed: &ClaimObserved) -> Vec<ClaimStep> {
    match plan(observed) {
        Plan::Done { requeue_after: None } => Vec::new(),
        Plan::Act(Batch { steps, pace: Pace::InOrder | Pace::Together(_), on_failure: OnFailure::Stop }) => {
            steps
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_step_for_a_claim_depends_on_its_consumers() {
    let read = |name: &str| ClaimStep::ReadConsumer(consumer(name));
    for (name, observed, expected) in [
        ("reserved", observed(&[Uses, Uses]), vec![]),
        ("stay allocated without consumers", observed(&[]), vec![]),
        ("not allocated, about to be", unallocated(observed(&[])), vec![]),
        ("clear-reserved", observed(&[Done]), vec![ClaimStep::Release(vec![])]),
        ("one of two is done", observed(&[Done, Uses]), vec![ClaimStep::Release(vec![consumer("p1")])]),
        ("don't clear when not sure", observed(&[Done, Doubtful, Doubtful]), vec![read("p1"), read("p2")]),
        (
            "remove finalizer when deleted",
            deleting(unallocated(observed(&[]))),
            vec![ClaimStep::RemoveFinalizer],
        ),
        ("deallocate when deleted", deleting(observed(&[])), vec![ClaimStep::Deallocate]),
        ("in use when deleted", deleting(observed(&[Uses])), vec![]),
        ("no finalizer when deleted", without_finalizer(deleting(observed(&[]))), vec![]),
        ("owner done", owned(Owner::Done, observed(&[])), vec![ClaimStep::Delete]),
        ("owner done, other consumers", owned(Owner::Done, observed(&[Uses])), vec![]),
        (
            "owner done, deleted already",
            owned(Owner::Done, without_finalizer(deleting(observed(&[])))),
            vec![],
        ),
        ("owner replaced, perhaps", owned(Owner::Doubtful, observed(&[])), vec![ClaimStep::ReadOwner]),
    ] {
        assert_eq!(steps(&observed), expected, "{name}");
    }
}

/// Carries out all steps, with an API server that does what it is told and has these pods. Returns the steps.
fn run(mut observed: ClaimObserved, pods: &[&str]) -> Vec<ClaimStep> {
    let mut taken = Vec::new();
    while let Some(step) = steps(&observed).into_iter().next() {
        assert!(taken.len() < 9, "the sync must end: {taken:?}");
        let mut claim = observed.claim.clone();
        let outcome = match &step {
            ClaimStep::ReadConsumer(consumer) => ClaimOutcome::Exists(pods.contains(&&*consumer.name)),
            ClaimStep::ReadOwner => ClaimOutcome::Exists(pods.contains(&"owner")),
            ClaimStep::Release(left) => {
                claim.is_allocated &= !(left.is_empty() && claim.has_finalizer());
                claim.reserved_for.clone_from(left);
                ClaimOutcome::Written(claim.into())
            }
            // Even if the API server's answer shows no change, no step is taken twice.
            ClaimStep::Deallocate | ClaimStep::RemoveFinalizer => ClaimOutcome::Written(claim.into()),
            ClaimStep::Delete => ClaimOutcome::Gone,
        };
        observed.absorb(&step, outcome);
        taken.push(step);
    }
    taken
}

#[test]
fn devices_are_taken_back_in_two_writes() {
    let released = ClaimStep::Release(vec![]);
    for (name, observed, expected) in [
        ("the last consumer", observed(&[Done]), vec![released.clone(), ClaimStep::RemoveFinalizer]),
        ("not the last", observed(&[Uses, Done]), vec![ClaimStep::Release(vec![consumer("p0")])]),
        ("without finalizer", without_finalizer(observed(&[Done])), vec![released.clone()]),
        ("deleted", deleting(observed(&[Done])), vec![released.clone(), ClaimStep::RemoveFinalizer]),
        (
            "deleted without consumers",
            deleting(observed(&[])),
            vec![ClaimStep::Deallocate, ClaimStep::RemoveFinalizer],
        ),
        (
            "made for a pod that is done",
            owned(Owner::Done, observed(&[Done])),
            vec![released.clone(), ClaimStep::RemoveFinalizer, ClaimStep::Delete],
        ),
    ] {
        assert_eq!(run(observed, &[]), expected, "{name}");
    }
}

#[test]
fn a_doubtful_pod_is_read_before_anything_is_taken_from_it() {
    let read = |name: &str| ClaimStep::ReadConsumer(consumer(name));
    assert_eq!(run(observed(&[Doubtful]), &["p0"]), [read("p0")]);
    assert_eq!(
        run(observed(&[Doubtful, Doubtful]), &["p1"]),
        [read("p0"), read("p1"), ClaimStep::Release(vec![consumer("p1")])]
    );
    assert_eq!(run(owned(Owner::Doubtful, observed(&[])), &["owner"]), [ClaimStep::ReadOwner]);
    assert_eq!(run(owned(Owner::Doubtful, observed(&[])), &[]), [ClaimStep::ReadOwner, ClaimStep::Delete]);
}
