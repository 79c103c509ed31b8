//! The conditions' texts, as upstream's `ns_conditions_test.go` and `status_condition_utils_test.go` have them.

use steersman_api::Time;
use steersman_api::condition::{Condition, ConditionStatus};

use super::super::conditions::{BLOCKING_OBJECTS, Status};
use super::super::contents::Undiscovered;
use super::super::report::Report;
use super::world::{World, object, pod};

fn texts(world: &World) -> Vec<(&str, &str, &str, &str)> {
    let conditions = world.namespace.status.conditions.iter();
    conditions
        .map(|one| (one.kind.as_str(), one.status.as_str(), one.reason.as_str(), one.message.as_str()))
        .collect()
}

const DISCOVERED: (&str, &str, &str, &str) = (
    "NamespaceDeletionDiscoveryFailure",
    "False",
    "ResourcesDiscovered",
    "All resources successfully discovered",
);
const PARSED: (&str, &str, &str, &str) = (
    "NamespaceDeletionGroupVersionParsingFailure",
    "False",
    "ParsedGroupVersions",
    "All legacy kube types successfully parsed",
);
const DELETED: (&str, &str, &str, &str) = (
    "NamespaceDeletionContentFailure",
    "False",
    "ContentDeleted",
    "All content successfully deleted, may be waiting on finalization",
);
const REMOVED: (&str, &str, &str, &str) =
    ("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed");
const FINALIZED: (&str, &str, &str, &str) = (
    "NamespaceFinalizersRemaining",
    "False",
    "ContentHasNoFinalizers",
    "All content-preserving finalizers finished",
);

#[test]
fn an_empty_namespace_says_that_all_went_well() {
    let mut world = World::with([("pods", vec![object("a", &[])])]);
    world.sync();
    assert_eq!(texts(&world), [DISCOVERED, PARSED, DELETED, REMOVED, FINALIZED]);
}

#[test]
fn objects_that_are_left_are_counted_by_kind_and_by_finalizer_and_named() {
    let mut world = World::with([
        ("configmaps", vec![object("b", &["b.io/f", "a.io/f"]), object("c", &["a.io/f"])]),
        ("deployments.apps", vec![object("web", &["custom.io/finalizer"])]),
        ("pods", vec![]),
    ]);
    world.sync();
    let remaining = (
        "NamespaceContentRemaining",
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 2 resource instances, deployments.apps has 1 resource instances",
    );
    let finalizers = (
        "NamespaceFinalizersRemaining",
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: a.io/f in 2 resource instances, \
         b.io/f in 1 resource instances, custom.io/finalizer in 1 resource instances",
    );
    let blocking = (
        BLOCKING_OBJECTS,
        "True",
        "ObjectsRemain",
        "configmaps/b (finalizers: b.io/f, a.io/f), configmaps/c (finalizers: a.io/f), \
         deployments.apps/web (finalizers: custom.io/finalizer)",
    );
    assert_eq!(texts(&world), [DISCOVERED, PARSED, DELETED, remaining, finalizers, blocking]);

    for kind in ["configmaps", "deployments.apps"] {
        world.kind(kind).objects.clear();
    }
    world.sync();
    let unblocked = (BLOCKING_OBJECTS, "False", "NoObjectsRemain", "No objects remain");
    assert_eq!(texts(&world), [DISCOVERED, PARSED, DELETED, REMOVED, FINALIZED, unblocked]);
}

#[test]
fn pods_that_are_left_are_named() {
    let mut world = World::with([("pods", vec![pod("a", 30), object("b", &["x.io/f"])])]);
    world.sync();
    // Upstream's conditions tell nothing of pods.
    assert_eq!(texts(&world)[..5], [DISCOVERED, PARSED, DELETED, REMOVED, FINALIZED]);
    assert_eq!(world.condition(BLOCKING_OBJECTS), Some("pods/b (finalizers: x.io/f), pods/a"));
}

#[test]
fn of_many_objects_five_are_named_and_of_many_finalizers_five() {
    let many = ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6"];
    let free = |index: usize| pod(&format!("free-{index}"), 60);
    let held = |index: usize| object(&format!("held-{index}"), &["a/1"]);
    let mut pods: Vec<_> = (0..7).map(free).collect();
    pods.extend((0..3).map(held));
    pods.push(object("much", &many));
    let mut world = World::with([("pods", pods)]);
    world.sync();
    let one = |index: usize| format!("pods/held-{index} (finalizers: a/1)");
    let much = "pods/much (finalizers: a/1, a/2, a/3, a/4, a/5)";
    let expected = format!("{}, {}, {}, {much}, pods/free-0", one(0), one(1), one(2));
    assert_eq!(world.condition(BLOCKING_OBJECTS), Some(&*expected));
}

#[test]
fn a_condition_has_a_bounded_number_of_made_up_finalizers() {
    let made_up = |at: usize| object(&format!("m{at:03}"), &["a.io/common", &format!("made-up.io/{at:03}")]);
    let mut world = World::with([("configmaps", (0..300).map(made_up).collect()), ("pods", vec![])]);
    world.sync();
    let finalizers = world.condition("NamespaceFinalizersRemaining").unwrap();
    assert_eq!(finalizers.matches("resource instances").count(), 100);
    assert!(finalizers.contains("a.io/common in 300 resource instances"), "{finalizers}");
}

#[test]
fn failures_are_told_in_order() {
    let mut world = World::with([("b", vec![]), ("a", vec![]), ("pods", vec![])]);
    (world.kind("a").error, world.kind("b").error) = (Some("second"), Some("first"));
    world.sync();
    assert_eq!(
        world.condition("NamespaceDeletionContentFailure"),
        Some("Failed to delete all resource types, 2 remaining: first, second")
    );
}

#[test]
fn a_failed_discovery_is_told_whole_or_in_part() {
    let error = "unable to retrieve the complete list of server APIs: a/v1: x, b/v1: y";
    for (group_versions, message) in
        [(Some(2), format!("Discovery failed for some groups, 2 failing: {error}")), (None, error.to_owned())]
    {
        let mut world = World::with([("pods", vec![])]);
        world.undiscovered = Some(Undiscovered { group_versions, error: error.to_owned() });
        world.sync();
        assert_eq!(world.condition("NamespaceDeletionDiscoveryFailure"), Some(&*message));
        let reason = &world.namespace.status.conditions[0].reason;
        assert_eq!(reason, "DiscoveryFailed");
    }
}

#[test]
fn a_condition_has_a_new_time_only_with_a_new_status_and_others_stay() {
    let (then, now) = (Time::from_seconds(1), Time::from_seconds(2));
    let condition = |kind: &str, status, message: &str| Condition {
        kind: kind.into(),
        status,
        last_transition_time: Some(then),
        reason: "SomeResourcesRemain".into(),
        message: message.into(),
    };
    let status = Status {
        phase: "Terminating".into(),
        conditions: vec![
            condition("example.com/Mine", ConditionStatus::True, "kept"),
            condition("NamespaceContentRemaining", ConditionStatus::True, "old"),
            condition("NamespaceFinalizersRemaining", ConditionStatus::True, "old"),
        ],
    };
    let report = Report { remaining: [(super::world::kind("pods"), 1)].into(), ..Report::default() };
    let new = status.with(&report, now);
    assert_eq!(new.conditions.len(), 6);
    assert_eq!(new.conditions[0], status.conditions[0]);
    let [_, remaining, finalizers, ..] = &new.conditions[..] else { panic!("{new:?}") };
    assert_eq!(remaining.last_transition_time, Some(then));
    assert!(remaining.message.ends_with("pods. has 1 resource instances"), "{remaining:?}");
    assert_eq!((finalizers.status, finalizers.last_transition_time), (ConditionStatus::False, Some(now)));
    assert_eq!(new.with(&report, Time::from_seconds(3)), new, "nothing changes");
}
