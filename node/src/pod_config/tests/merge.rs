//! What a source says in, updates out.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use steersman_informer::wire::{Encoding, Object, whole::Whole};

use super::{pod, read};
use crate::pod_config::annotations::{CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE, annotation};
use crate::pod_config::merge::{Merged, PodStorage};
use crate::pod_config::{PodOperation, Source, SourcePod};

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 5);
const LATER: Timestamp = Timestamp::constant(1_700_000_100, 0);

fn own(value: Value) -> SourcePod {
    SourcePod::Own(Arc::new(read(value)))
}

/// Operations with the names of their pods.
fn told(merged: &Merged) -> Vec<(PodOperation, Vec<&str>)> {
    merged
        .updates
        .iter()
        .map(|update| {
            let mut names: Vec<_> =
                update.pods.iter().map(|pod| pod.metadata.uid.as_deref().unwrap_or_default()).collect();
            names.sort_unstable();
            (update.op, names)
        })
        .collect()
}

fn changed(pod: &Value, path: &[&str], value: Value) -> Value {
    let mut pod = pod.clone();
    let place = path.iter().fold(&mut pod, |place, name| &mut place[*name]);
    *place = value;
    pod
}

#[test]
fn the_first_word_of_a_source_is_told_even_if_it_has_no_pods() {
    let mut store = PodStorage::new(Source::File);
    assert!(!store.seen());
    assert_eq!(told(&store.set(vec![], NOW)), [(PodOperation::Add, vec![])]);
    assert!(store.seen());
    assert_eq!(told(&store.set(vec![], NOW)), []);
}

#[test]
fn each_change_of_a_pod_means_one_operation() {
    use PodOperation::{Delete, Reconcile, Remove, Update};
    let before = pod("a");
    let deleting = json!("2024-01-01T00:00:00Z");
    let cases: Vec<(&str, Option<Value>, Option<PodOperation>)> = vec![
        ("nothing", Some(before.clone()), None),
        ("it is gone", None, Some(Remove)),
        ("its status", Some(changed(&before, &["status", "phase"], json!("Running"))), Some(Reconcile)),
        ("its labels", Some(changed(&before, &["metadata", "labels"], json!({ "a": "b" }))), Some(Update)),
        ("its image", Some(changed(&before, &["spec", "containers"], json!([]))), Some(Update)),
        (
            "an annotation",
            Some(changed(&before, &["metadata", "annotations"], json!({ "a": "b" }))),
            Some(Update),
        ),
        (
            "annotations that the node keeps itself",
            Some(changed(
                &before,
                &["metadata", "annotations"],
                json!({ CONFIG_SEEN: "x", CONFIG_SOURCE: "y", CONFIG_MIRROR: "z" }),
            )),
            None,
        ),
        ("it ends", Some(changed(&before, &["metadata", "deletionTimestamp"], deleting)), Some(Delete)),
        (
            "its grace",
            Some(changed(&before, &["metadata", "deletionGracePeriodSeconds"], json!(5))),
            Some(Update),
        ),
        ("its version alone", Some(changed(&before, &["metadata", "resourceVersion"], json!("7"))), None),
        ("its finalizers", Some(changed(&before, &["metadata", "finalizers"], json!(["f"]))), None),
    ];
    for (what, after, operation) in cases {
        let mut store = PodStorage::new(Source::Api);
        store.set(vec![own(before.clone())], NOW);
        let merged = store.set(after.into_iter().map(own).collect(), LATER);
        let expected: Vec<_> = operation.into_iter().map(|operation| (operation, vec!["a"])).collect();
        assert_eq!(told(&merged), expected, "{what}");
    }
}

#[test]
fn an_ending_pod_that_changes_again_is_told_as_ending_again() {
    let mut store = PodStorage::new(Source::Api);
    let ending = changed(&pod("a"), &["metadata", "deletionTimestamp"], json!("2024-01-01T00:00:00Z"));
    let first = store.set(vec![own(ending.clone())], NOW);
    assert_eq!(told(&first), [(PodOperation::Add, vec!["a"])], "a pod that is new is added, ending or not");
    let shorter = changed(&ending, &["metadata", "deletionGracePeriodSeconds"], json!(1));
    assert_eq!(told(&store.set(vec![own(shorter)], NOW)), [(PodOperation::Delete, vec!["a"])]);
}

#[test]
fn updates_come_in_an_order_that_makes_room_before_it_is_taken() {
    let mut store = PodStorage::new(Source::Api);
    store.set(["gone", "changed", "ending", "foreign"].map(|name| own(pod(name))).into(), NOW);
    let merged = store.set(
        vec![
            own(changed(&pod("foreign"), &["status", "phase"], json!("Running"))),
            own(changed(&pod("ending"), &["metadata", "deletionTimestamp"], json!("2024-01-01T00:00:00Z"))),
            own(changed(&pod("changed"), &["metadata", "labels"], json!({ "a": "b" }))),
            own(pod("new")),
        ],
        NOW,
    );
    assert_eq!(
        told(&merged),
        [
            (PodOperation::Remove, vec!["gone"]),
            (PodOperation::Add, vec!["new"]),
            (PodOperation::Update, vec!["changed"]),
            (PodOperation::Delete, vec!["ending"]),
            (PodOperation::Reconcile, vec!["foreign"]),
        ]
    );
}

#[test]
fn a_pod_keeps_the_time_it_was_first_seen_and_its_source() {
    let mut store = PodStorage::new(Source::Api);
    let said =
        changed(&pod("a"), &["metadata", "annotations"], json!({ "kept": "1", CONFIG_SOURCE: "file" }));
    let added = store.set(vec![own(said.clone())], NOW).updates.remove(0).pods.remove(0);
    assert_eq!(annotation(&added, CONFIG_SEEN), Some("2023-11-14T22:13:20.000000005Z"));
    assert_eq!(annotation(&added, CONFIG_SOURCE), Some("api"));
    let said = changed(&said, &["metadata", "annotations"], json!({ "new": "2" }));
    let said = changed(&said, &["metadata", "generation"], json!(2));
    let updated = store.set(vec![own(said)], LATER).updates.remove(0).pods.remove(0);
    assert_eq!(annotation(&updated, CONFIG_SEEN), Some("2023-11-14T22:13:20.000000005Z"));
    assert_eq!(annotation(&updated, CONFIG_SOURCE), Some("api"));
    assert_eq!((annotation(&updated, "new"), annotation(&updated, "kept")), (Some("2"), None));
    assert_eq!(updated.metadata.generation, Some(2));
    assert_eq!(annotation(&added, "kept"), Some("1"), "what was delivered never changes");
}

#[test]
fn another_uid_of_the_same_name_is_another_pod() {
    let mut store = PodStorage::new(Source::Api);
    store.set(vec![own(pod("a"))], NOW);
    let merged = store.set(vec![own(changed(&pod("a"), &["metadata", "uid"], json!("b")))], NOW);
    assert_eq!(told(&merged), [(PodOperation::Remove, vec!["a"]), (PodOperation::Add, vec!["b"])]);
}

#[test]
fn of_two_pods_of_one_name_the_first_counts() {
    let mut store = PodStorage::new(Source::Http);
    let twin = changed(&pod("a"), &["metadata", "uid"], json!("twin"));
    let merged = store.set(vec![own(pod("a")), own(twin.clone())], NOW);
    assert_eq!(told(&merged), [(PodOperation::Add, vec!["a"])]);
    assert_eq!(merged.duplicates.len(), 1);
    assert_eq!(merged.duplicates[0].uid(), "twin");
    let merged = store.set(vec![own(twin), own(pod("a"))], NOW);
    assert_eq!(told(&merged), [(PodOperation::Remove, vec!["a"]), (PodOperation::Add, vec!["twin"])]);
}

#[test]
fn the_very_same_state_is_not_even_compared() {
    let mut store = PodStorage::new(Source::Http);
    let said = own(pod("a"));
    store.set(vec![said.clone()], NOW);
    assert_eq!(told(&store.set(vec![said], NOW)), []);
}

#[test]
fn a_pod_that_can_not_be_read_is_neither_changed_nor_gone() {
    let cached = |value: &Value| {
        let body = value.to_string().into();
        SourcePod::Cached(Arc::new(Whole::<Pod>::decode(&body, Encoding::Json, 0).unwrap()))
    };
    let mut store = PodStorage::new(Source::Api);
    let good = cached(&pod("a"));
    let SourcePod::Cached(whole) = &good else { unreachable!() };
    let bad = SourcePod::Cached(Arc::new(Whole::unreadable(whole.meta().clone())));
    store.set(vec![good.clone()], NOW);
    assert_eq!(told(&store.set(vec![bad.clone()], NOW)), []);
    assert_eq!(told(&store.set(vec![], NOW)), [(PodOperation::Remove, vec!["a"])]);
    assert_eq!(told(&store.set(vec![bad], NOW)), [], "and one that was never readable is not there");
    assert_eq!(told(&store.set(vec![good], NOW)), [(PodOperation::Add, vec!["a"])]);
}
