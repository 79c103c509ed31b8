//! The order of steps, and when a namespace comes again.

use super::super::contents::{Undiscovered, Verbs};
use super::super::plan::KUBERNETES;
use super::world::{Ended, World, ends_after, object, pod};

fn sync(world: &mut World) -> (String, Ended) {
    let (steps, ended) = world.sync();
    (steps.join(", "), ended)
}

const BEGIN: &str = "read, discover, delete pods, count pods";

#[test]
fn pods_go_first_then_the_others_then_the_finalizer() {
    let mut world = World::with([
        ("configmaps", vec![object("a", &[])]),
        ("deployments.apps", vec![]),
        ("pods", vec![object("a", &[]), object("b", &[])]),
    ]);
    let others = "delete configmaps, delete deployments.apps, count configmaps, count deployments.apps";
    let expected = format!("{BEGIN}, {others}, conditions, finalize");
    assert_eq!(sync(&mut world), (expected, Ended::Done));
    assert!(world.namespace.finalizers.is_empty());
}

#[test]
fn the_phase_is_written_first_if_the_api_server_has_not_set_it() {
    let mut world = World::with([("pods", vec![])]);
    world.namespace.status.phase = "Active".into();
    let expected = BEGIN.replace("read, ", "read, phase, ") + ", conditions, finalize";
    assert_eq!(sync(&mut world), (expected, Ended::Done));
    assert_eq!(world.namespace.status.phase, "Terminating");
}

#[test]
fn a_namespace_that_nothing_is_to_be_done_for_is_left_alone() {
    let mut active = World::with([("pods", vec![])]);
    active.namespace.meta.deletion = None;
    assert_eq!(sync(&mut active), ("read".to_owned(), Ended::Done));
    let mut finalized = World::with([("pods", vec![])]);
    finalized.namespace.finalizers.clear();
    assert_eq!(sync(&mut finalized), ("read".to_owned(), Ended::Done));
}

#[test]
fn other_finalizers_of_the_namespace_stay() {
    let mut world = World::with([("pods", vec![])]);
    world.namespace.finalizers = vec!["example.com/mine".into(), KUBERNETES.into()];
    assert_eq!(sync(&mut world).1, Ended::Done);
    assert_eq!(world.namespace.finalizers, ["example.com/mine"]);
    // Another finalizer keeps the namespace, but no object may stay in it.
    world.kind("pods").objects.push(object("late", &[]));
    assert_eq!(sync(&mut world), (BEGIN.to_owned(), Ended::Done));
    assert!(world.kind("pods").objects.is_empty());
}

#[test]
fn nothing_else_is_deleted_while_pods_are_left() {
    for (name, pods, since, ended) in [
        ("the longest grace period", vec![pod("a", 30), pod("b", 60), pod("c", 0)], 5, Ended::Again(31)),
        ("a finalizer", vec![object("a", &["example.com/hold"])], 5, Ended::Again(8)),
        (
            "a grace period that is over, and a finalizer",
            {
                let held = object("a", &["example.com/hold"]);
                vec![steersman_api::Meta { deletion: ends_after(30), ..held }]
            },
            30,
            Ended::Again(8),
        ),
    ] {
        let mut world = World::with([("configmaps", vec![object("a", &[])]), ("pods", pods)]);
        world.since = since;
        assert_eq!(sync(&mut world), (format!("{BEGIN}, conditions"), ended), "{name}");
        assert_eq!(world.kind("configmaps").objects.len(), 1);
        assert_eq!(world.namespace.finalizers, [KUBERNETES]);
    }
}

#[test]
fn pods_that_are_left_after_their_grace_period_are_an_error() {
    let mut world = World::with([("configmaps", vec![object("a", &[])]), ("pods", vec![pod("a", 30)])]);
    world.since = 30;
    let error = "failed to delete pods for namespace: team, err: unexpected items still remain in namespace: team \
        for gvr: /v1, Resource=pods";
    let expected = (format!("{BEGIN}, conditions, fail"), Ended::Failed(error.to_owned()));
    assert_eq!(sync(&mut world), expected);
    let condition = world.condition("NamespaceDeletionContentFailure").unwrap();
    assert_eq!(condition, format!("Failed to delete all resource types, 1 remaining: {error}"));
}

#[test]
fn objects_with_finalizers_are_waited_for_and_others_are_an_error() {
    let mut world = World::with([("jobs.batch", vec![object("a", &["example.com/hold"])]), ("pods", vec![])]);
    assert_eq!(sync(&mut world).1, Ended::Again(8));
    let stubborn = pod("a", 30);
    world.kind("jobs.batch").objects = vec![stubborn];
    let error = "unexpected items still remain in namespace: team for gvr: batch/v1, Resource=jobs";
    assert_eq!(sync(&mut world).1, Ended::Failed(error.to_owned()), "only pods have a grace period");
    world.kind("jobs.batch").objects.clear();
    assert_eq!(sync(&mut world).1, Ended::Done);
    assert!(world.namespace.finalizers.is_empty());
}

#[test]
fn a_kind_whose_call_fails_holds_up_the_finalizer_and_no_other_kind() {
    let mut world = World::with([
        ("configmaps", vec![object("a", &[])]),
        ("pods", vec![]),
        ("secrets", vec![object("a", &[])]),
    ]);
    world.kind("configmaps").error = Some("no");
    let (steps, ended) = sync(&mut world);
    assert_eq!(ended, Ended::Failed("no".to_owned()));
    assert!(steps.ends_with("delete configmaps, delete secrets, count secrets, conditions, fail"), "{steps}");
    assert!(world.kind("secrets").objects.is_empty());
    assert_eq!(world.namespace.finalizers, [KUBERNETES]);
}

/// As upstream: an API server that refuses the deletion of pods may need one of the other objects to be gone.
#[test]
fn pods_that_can_not_be_deleted_do_not_hold_up_the_others() {
    let mut world = World::with([("configmaps", vec![object("a", &[])]), ("pods", vec![pod("a", 30)])]);
    world.kind("pods").error = Some("no");
    let error = "failed to delete pods for namespace: team, err: no".to_owned();
    assert_eq!(sync(&mut world).1, Ended::Failed(error));
    assert!(world.kind("configmaps").objects.is_empty());
}

#[test]
fn objects_that_can_not_be_deleted_all_at_once_are_deleted_one_by_one() {
    let mut world = World::with([("pods", vec![]), ("flakes.example.com", vec![object("a", &[])])]);
    for (name, verbs, undefined, steps) in [
        (
            "discovery says so",
            Verbs { delete_collection: false, list: true },
            false,
            "delete each of flakes.example.com, count flakes.example.com",
        ),
        (
            "the definition is gone since",
            Verbs { delete_collection: true, list: true },
            true,
            "delete flakes.example.com, delete each of flakes.example.com, count flakes.example.com",
        ),
        ("nor listed", Verbs { delete_collection: false, list: false }, false, ""),
        (
            "nor listed, as it turns out",
            Verbs { delete_collection: true, list: false },
            true,
            "delete flakes.example.com",
        ),
        ("only deleted", Verbs { delete_collection: true, list: false }, false, "delete flakes.example.com"),
    ] {
        let flakes = world.kind("flakes.example.com");
        (flakes.verbs, flakes.is_undefined) = (verbs, undefined);
        world.namespace.finalizers = vec![KUBERNETES.into()];
        world.namespace.status.conditions.clear();
        let steps = if steps.is_empty() { String::new() } else { format!(", {steps}") };
        let expected = (format!("{BEGIN}{steps}, conditions, finalize"), Ended::Done);
        assert_eq!(sync(&mut world), expected, "{name}");
    }
}

#[test]
fn kinds_without_an_object_in_the_caches_are_only_looked_at_before_the_end() {
    let mut world =
        World::with([("configmaps", vec![]), ("pods", vec![]), ("secrets", vec![object("a", &[])])]);
    world.kind("pods").is_unseen = true;
    world.kind("configmaps").is_unseen = true;
    let steps =
        "read, discover, count pods, delete secrets, count secrets, count configmaps, conditions, finalize";
    assert_eq!(sync(&mut world), (steps.to_owned(), Ended::Done));
}

#[test]
fn a_cache_that_lags_keeps_no_object() {
    let mut world = World::with([("configmaps", vec![object("a", &[])]), ("pods", vec![object("a", &[])])]);
    world.kind("pods").is_unseen = true;
    world.kind("configmaps").is_unseen = true;
    let steps = "read, discover, count pods, delete pods, count pods, count configmaps, delete configmaps, \
        count configmaps, conditions, finalize";
    assert_eq!(sync(&mut world), (steps.to_owned(), Ended::Done));
    assert!(world.kinds.values().all(|kind| kind.objects.is_empty()));
}

#[test]
fn caches_are_not_checked_while_something_else_is_left() {
    let mut world =
        World::with([("configmaps", vec![]), ("pods", vec![]), ("secrets", vec![object("a", &["x/y"])])]);
    world.kind("configmaps").is_unseen = true;
    let (steps, ended) = sync(&mut world);
    assert!(!steps.contains("configmaps"), "{steps}");
    assert_eq!(ended, Ended::Again(8));
}

#[test]
fn a_namespace_is_not_finalized_while_discovery_fails() {
    let mut world = World::with([("configmaps", vec![object("a", &[])]), ("pods", vec![])]);
    let error = "unable to retrieve the complete list of server APIs: example.com/v1: no".to_owned();
    world.undiscovered = Some(Undiscovered { group_versions: Some(1), error: error.clone() });
    assert_eq!(sync(&mut world).1, Ended::Failed(error));
    assert!(world.kind("configmaps").objects.is_empty(), "what is known goes");
    assert_eq!(world.namespace.finalizers, [KUBERNETES]);
}

#[test]
fn writes_that_another_client_outruns_are_decided_anew() {
    let mut world = World::with([("pods", vec![])]);
    world.conflicts = 2;
    let expected = format!("{BEGIN}, conditions, read, conditions, read, conditions, finalize");
    assert_eq!(sync(&mut world), (expected, Ended::Done));
    world.namespace.finalizers = vec![KUBERNETES.into()];
    world.conflicts = 1;
    let expected = format!("{BEGIN}, finalize, read, finalize");
    assert_eq!(
        sync(&mut world),
        (expected, Ended::Done),
        "conditions that are as they should be are not written"
    );
}
