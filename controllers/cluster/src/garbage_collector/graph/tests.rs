use super::super::testing::{Caches, Change, NODE, POD, SET, blocking, id, meta, to};
use super::*;

fn verify(kind: KindId, uid: &str) -> Effect {
    Effect::Verify(Coordinates::of(&to(kind, uid), "ns".into()))
}

fn delete(kind: KindId, uid: &str) -> Effect {
    Effect::Delete(id(kind, uid))
}

fn mismatch(dependent: &str, owner: ObjectId) -> Effect {
    Effect::Mismatch { dependent: id(POD, dependent), owner }
}

#[test]
fn an_owner_that_no_cache_shows_is_verified() {
    let mut caches = Caches::default();
    assert_eq!(caches.sees(POD, meta("p").owned(&[to(SET, "s")])), [verify(SET, "s")]);
    assert_eq!(caches.sees(POD, meta("p").owned(&[to(SET, "s")])), [], "nothing has changed");
    assert_eq!(caches.graph.sight(&"s".into()), Some(Sight::Unobserved));
    assert_eq!(caches.sees(SET, meta("s")), []);
    assert_eq!(caches.graph.sight(&"s".into()), Some(Sight::Observed));
}

#[test]
fn an_owner_in_a_cache_needs_no_look() {
    let mut caches = Caches::default();
    assert_eq!(caches.sees(SET, meta("s")), []);
    assert_eq!(caches.graph.size()[0].0, 0, "an object without references costs nothing");
    assert_eq!(caches.sees(NODE, meta("n").in_namespace("")), []);
    assert_eq!(caches.sees(POD, meta("p").owned(&[to(SET, "s"), to(NODE, "n")])), []);
    assert_eq!(caches.graph.dependents(&"s".into()), [id(POD, "p")]);
}

#[test]
fn an_owner_of_a_kind_in_its_first_list_is_verified_at_the_end_of_the_list() {
    let mut caches = Caches { listing: [SET].into(), ..Caches::default() };
    for (pod, owner) in [("a", "shown"), ("b", "missing"), ("c", "missing")] {
        assert_eq!(caches.sees(POD, meta(pod).owned(&[to(SET, owner)])), []);
    }
    assert_eq!(caches.sees(SET, meta("shown")), []);
    assert_eq!(caches.settles(SET), [verify(SET, "missing"), verify(SET, "missing")]);
    assert_eq!(caches.settles(POD), []);
    // The end of the list of sets has this one verified under the kind that the first reference named.
    caches.listing.insert(SET);
    assert_eq!(caches.sees(POD, meta("d").owned(&[to(NODE, "unsure")])), [verify(NODE, "unsure")]);
    assert_eq!(caches.sees(POD, meta("e").owned(&[to(SET, "unsure")])), [verify(SET, "unsure")]);
}

#[test]
fn the_dependents_of_a_deleted_owner_are_queued() {
    let mut caches = Caches::default();
    caches.sees(SET, meta("s"));
    for pod in ["a", "b"] {
        caches.sees(POD, meta(pod).owned(&[to(SET, "s")]));
    }
    assert_eq!(caches.loses(SET, "s"), [delete(POD, "a"), delete(POD, "b")]);
    assert_eq!(caches.graph.sight(&"s".into()), Some(Sight::Gone));
    // The cache of pods was behind.
    assert_eq!(caches.sees(POD, meta("late").owned(&[to(SET, "s")])), [delete(POD, "late")]);
    for pod in ["a", "b", "late"] {
        assert_eq!(caches.loses(POD, pod), []);
    }
    assert_eq!(caches.graph.size().map(|(count, _)| count), [0, 0], "nothing is left");
    assert!(caches.graph.unobserved.iter().all(|count| *count == 0));
}

#[test]
fn an_object_that_another_kind_shows_too_is_not_gone_with_one_of_them() {
    // As projects and namespaces of OpenShift: two resources show one object, under one uid.
    for (first, second) in [(SET, NODE), (NODE, SET)] {
        let mut caches = Caches::default();
        caches.sees(SET, meta("s"));
        caches.sees(NODE, meta("s").in_namespace(""));
        for (pod, owner) in [("by-set", SET), ("by-node", NODE)] {
            caches.sees(POD, meta(pod).owned(&[to(owner, "s")]));
        }
        caches.loses(first, "s");
        assert!(!caches.is_gone(&to(second, "s")), "{second:?} still shows the object");
        caches.loses(second, "s");
        assert!(caches.is_gone(&to(second, "s")));
        assert_eq!(caches.graph.sight(&"s".into()), Some(Sight::Gone));
    }
}

#[test]
fn only_references_to_the_deleted_owners_own_coordinates_dangle_for_sure() {
    let mut caches = Caches::default();
    caches.sees(SET, meta("s"));
    caches.sees(POD, meta("p").owned(&[to(SET, "s")]));
    caches.loses(SET, "s");
    assert!(caches.is_gone(&to(SET, "s")));
    assert!(!caches.is_gone(&OwnerReference { name: "other".into(), ..to(SET, "s") }), "another name");
    assert!(!caches.is_gone(&to(NODE, "s")), "another kind");
}

#[test]
fn references_to_other_coordinates_than_the_owners_are_looked_into() {
    let wrong_name = OwnerReference { name: "other".into(), ..to(SET, "s") };
    for (what, dependent) in [
        ("another namespace", meta("p").in_namespace("elsewhere").owned(&[to(SET, "s")])),
        ("another name", meta("p").owned(&[wrong_name])),
        ("another kind", meta("p").owned(&[to(NODE, "s")])),
        ("a cluster-scoped dependent", meta("p").in_namespace("").owned(&[to(SET, "s")])),
    ] {
        let mut caches = Caches::default();
        caches.sees(SET, meta("s"));
        caches.sees(POD, meta("right").owned(&[to(SET, "s")]));
        let expected = [mismatch("p", id(SET, "s"))];
        assert_eq!(caches.sees(POD, dependent.clone()), expected, "{what}, the owner comes first");
        let mut caches = Caches::default();
        assert!(matches!(caches.sees(POD, dependent)[..], [Effect::Verify(_)]), "{what}");
        assert_eq!(caches.sees(SET, meta("s")), expected, "{what}, the dependent comes first");
    }
    let mut caches = Caches::default();
    caches.sees(NODE, meta("n").in_namespace(""));
    for namespace in ["ns", "elsewhere", ""] {
        let pod = meta(&format!("p-{namespace}")).in_namespace(namespace);
        assert_eq!(caches.sees(POD, pod.owned(&[to(NODE, "n")])), [], "a node owns in every namespace");
    }
}

#[test]
fn a_wrong_reference_hides_no_owner_from_right_ones() {
    let mut caches = Caches::default();
    caches.sees(SET, meta("s"));
    assert_eq!(caches.sees(POD, meta("wrong").owned(&[to(NODE, "s")])), [verify(NODE, "s")]);
    let found = caches.sees(POD, meta("right").owned(&[to(SET, "s")]));
    assert_eq!(found, [mismatch("wrong", id(SET, "s"))]);
    assert_eq!(caches.graph.sight(&"s".into()), Some(Sight::Observed));
}

#[test]
fn a_foreground_deletion_queues_the_dependents_and_then_the_owner() {
    let mut caches = Caches::default();
    caches.sees(SET, meta("s"));
    caches.sees(POD, meta("a").owned(&[blocking(SET, "s")]));
    caches.sees(POD, meta("b").owned(&[to(SET, "s")]));
    caches.sees(POD, meta("c").owned(&[blocking(SET, "s")]));
    let owner = || meta("s").deleted(&[FOREGROUND]);
    let began = [delete(POD, "a"), delete(POD, "b"), delete(POD, "c"), delete(SET, "s")];
    assert_eq!(caches.sees(SET, owner()), began);
    assert_eq!(caches.sees(SET, owner()), [], "it has begun");
    assert!(caches.graph.is_blocked(&"s".into()));
    assert_eq!(caches.sees(POD, meta("late").owned(&[to(SET, "s")])), [delete(POD, "late")]);
    assert_eq!(caches.loses(POD, "a"), [], "another one blocks");
    assert_eq!(caches.sees(POD, meta("c").owned(&[to(SET, "s")]))[0], delete(POD, "c"));
    assert!(!caches.graph.is_blocked(&"s".into()));
    caches.sees(POD, meta("c").owned(&[blocking(SET, "s")]));
    assert_eq!(caches.loses(POD, "c"), [delete(SET, "s")], "nothing blocks any more");
}

#[test]
fn an_orphaning_deletion_queues_the_owner() {
    let mut caches = Caches::default();
    caches.sees(SET, meta("s").held_by(&[ORPHAN]));
    caches.sees(POD, meta("a").owned(&[blocking(SET, "s")]));
    let orphan = [Effect::Orphan(id(SET, "s"))];
    // Orphaning comes first if an owner has both finalizers.
    assert_eq!(caches.sees(SET, meta("s").deleted(&[FOREGROUND, ORPHAN])), orphan);
    assert_eq!(caches.sees(SET, meta("s").deleted(&[FOREGROUND, ORPHAN])), []);
    let then = caches.sees(SET, meta("s").deleted(&[FOREGROUND]));
    assert_eq!(then, [delete(POD, "a"), delete(SET, "s")]);
}

#[test]
fn an_owner_whose_kind_is_no_longer_watched_is_not_gone() {
    let mut caches = Caches::default();
    caches.sees(SET, meta("s"));
    caches.sees(SET, meta("parent"));
    caches.sees(POD, meta("p").owned(&[to(SET, "s")]));
    caches.sees(SET, meta("s").owned(&[to(SET, "parent")]));
    assert_eq!(caches.forgets(SET), []);
    assert_eq!(caches.graph.sight(&"s".into()), Some(Sight::Unobserved));
    assert_eq!(caches.graph.sight(&"parent".into()), None);
    caches.unwatched.clear();
    assert_eq!(caches.settles(SET), [verify(SET, "s")], "the kind came back without the owner");
}

#[test]
fn an_owner_that_waits_for_a_kind_that_is_no_longer_watched_goes_on() {
    let mut caches = Caches::default();
    caches.sees(NODE, meta("n").in_namespace("").deleted(&[FOREGROUND]));
    caches.sees(SET, meta("s").owned(&[blocking(NODE, "n")]));
    assert_eq!(caches.forgets(SET), [delete(NODE, "n")]);
}

#[test]
fn of_several_references_to_one_owner_the_last_to_go_lets_the_owner_go() {
    let waiting = || meta("s").deleted(&[FOREGROUND]);
    for owners in [[to(SET, "s"), blocking(SET, "s")], [blocking(SET, "s"), to(SET, "s")]] {
        let mut caches = Caches::default();
        caches.sees(SET, waiting());
        caches.sees(POD, meta("p").owned(&owners));
        assert!(caches.graph.is_blocked(&"s".into()));
        assert_eq!(caches.loses(POD, "p"), [delete(SET, "s")]);
        assert!(!caches.graph.is_blocked(&"s".into()));
    }
}

#[test]
fn circles_and_self_references_do_no_harm() {
    let mut caches = Caches::default();
    caches.sees(POD, meta("self").owned(&[blocking(POD, "self"), to(POD, "self")]));
    assert!(!caches.graph.is_blocked(&"self".into()));
    assert_eq!(caches.loses(POD, "self"), []);
    caches.sees(POD, meta("a").owned(&[blocking(POD, "b")]));
    caches.sees(POD, meta("b").owned(&[blocking(POD, "a")]));
    caches.sees(POD, meta("a").owned(&[blocking(POD, "b")]).deleted(&[FOREGROUND]));
    assert_eq!(caches.graph.has_dependents(&"b".into()), Dependents::Waiting);
    assert_eq!(caches.loses(POD, "a"), [delete(POD, "b")]);
    assert_eq!(caches.loses(POD, "b"), []);
    assert_eq!(caches.graph.size().map(|(count, _)| count), [0, 0]);
}

#[test]
fn nodes_and_edges_are_as_small_as_they_were_meant_to_be() {
    assert!(size_of::<Option<Node>>() <= 56, "{}", size_of::<Option<Node>>());
    assert!(size_of::<Option<Edge>>() <= 28, "{}", size_of::<Option<Edge>>());
}

#[test]
fn an_owner_that_references_name_under_another_kind_goes_on_when_they_are_gone() {
    let mut caches = Caches::default();
    let waiting = || meta("s").deleted(&[FOREGROUND]);
    caches.sees(SET, waiting());
    let wrong = blocking(NODE, "s");
    let expected = [Effect::Verify(Coordinates::of(&wrong, "ns".into()))];
    assert_eq!(caches.sees(POD, meta("p").owned(&[wrong])), expected);
    assert!(caches.graph.is_blocked(&"s".into()));
    assert_eq!(caches.acquaints(SET, &"s".into()), [mismatch("p", id(SET, "s"))]);
    assert_eq!(caches.loses(POD, "p"), [delete(SET, "s")]);
    assert!(!caches.graph.is_blocked(&"s".into()));
}
