//! Tests of the index of pods and volumes.

use std::collections::BTreeMap;

use steersman_api::{ObjectKey, Uid};

use crate::attach_detach::index::{Claim, Index, Pod, Use};
use crate::attach_detach::names::VolumeName;

fn volume(handle: &str) -> VolumeName {
    VolumeName::new("d.example.com", handle).unwrap()
}

fn key(key: &str) -> ObjectKey {
    key.parse().unwrap()
}

fn pod(uid: &str, node: &str, claims: &[&str]) -> Pod {
    let claim = |name: &&str| (Claim { key: key(&format!("ns/{name}")), is_owned: false }, None);
    let claims = claims.iter().map(claim).collect();
    Pod { uid: Uid::from(uid), node: node.into(), created: None, claims, disks: Vec::new() }
}

/// Each claim leads to the volume of its name.
fn bound(claim: &Claim, _: &Uid) -> Option<Use> {
    let volume = volume(&claim.key.name);
    Some(Use { volume, persistent_volume: claim.key.name.clone(), exclusive: true, migrated: false })
}

fn gone(_: &Claim, _: &Uid) -> Option<Use> {
    None
}

#[test]
fn only_changes_of_what_a_pod_needs_touch_its_volumes() {
    let p = key("ns/p");
    let mut index = Index::default();
    assert_eq!(index.set_pod(&p, pod("1", "n", &["a"]), gone), [], "the claim is not bound");
    assert_eq!(index.refresh(&key("ns/a"), bound), [volume("a")]);
    assert_eq!(index.set_pod(&p, pod("1", "n", &["a"]), bound), [], "only its status has changed");
    assert_eq!(index.refresh(&key("ns/a"), bound), [], "only the claim's status has changed");
    assert_eq!(index.set_pod(&p, pod("1", "n", &["a"]), gone), [], "it keeps what its claim led to");
    assert_eq!(index.sites(&volume("a"))["n"].users.len(), 1);
    assert_eq!(index.set_pod(&p, pod("2", "n", &["a"]), gone), [volume("a")], "another pod has the name");
    assert!(index.sites(&volume("a")).is_empty());
    assert_eq!(index.set_pod(&p, pod("2", "n", &["a", "b"]), bound), [volume("a"), volume("b")]);
    assert_eq!(index.remove_pod(&p), [volume("a"), volume("b")]);
    assert!(index.all().is_empty());
}

#[test]
fn volumes_are_counted_by_plugin_where_they_are_to_be_attached() {
    let mut index = Index::default();
    let disk = VolumeName::parse("kubernetes.io/fc/[5005]:0").unwrap();
    let mut with_disk = pod("1", "n", &["a", "b"]);
    let spelt =
        Use { volume: disk.clone(), persistent_volume: "v".into(), exclusive: false, migrated: false };
    with_disk.disks.push(spelt);
    index.set_pod(&key("ns/p"), with_disk, bound);
    index.set_pod(&key("ns/q"), pod("2", "m", &["a"]), bound);
    let counts = |all: &[(&str, i64)]| -> BTreeMap<String, i64> {
        all.iter().map(|(plugin, count)| ((*plugin).to_owned(), *count)).collect()
    };
    let csi = "kubernetes.io/csi:d.example.com";
    assert_eq!(index.wanted(|_, _| true), counts(&[(csi, 3), ("kubernetes.io/fc", 1)]));
    assert_eq!(index.wanted(|_, node| node == "m"), counts(&[(csi, 1)]));
    assert_eq!(index.wanted(|volume, _| *volume == disk), counts(&[("kubernetes.io/fc", 1)]));
    assert_eq!(index.sites(&disk)["n"].users[0].persistent_volume, "v");
}

#[test]
fn the_volumes_of_a_node_are_those_of_its_pods_and_of_its_attachments() {
    let mut index = Index::default();
    let at = |index: &Index, node: &str| {
        let mut volumes = index.volumes_at(node);
        volumes.sort();
        volumes
    };
    let [p, q] = ["ns/p", "ns/q"].map(key);
    index.set_pod(&p, pod("1", "n", &["a", "b"]), bound);
    index.set_pod(&q, pod("2", "n", &["b"]), bound);
    index.set_attachment(&"of-a".into(), volume("a"), "n".into());
    index.set_attachment(&"of-c".into(), volume("c"), "m".into());
    assert_eq!(at(&index, "n"), [volume("a"), volume("b")]);
    assert_eq!(at(&index, "m"), [volume("c")]);
    index.remove_pod(&p);
    assert_eq!(at(&index, "n"), [volume("a"), volume("b")], "an attachment and another pod have them there");
    index.depart(&"n".into(), &["x".into()]);
    assert_eq!(index.last_use("n", &volume("a")), Some(false));
    index.remove_attachment("of-a");
    assert_eq!(at(&index, "n"), [volume("b")]);
    assert_eq!(index.last_use("n", &volume("a")), None, "no attachment names the node any more");
    index.remove_pod(&q);
    index.remove_attachment("of-c");
    assert!(at(&index, "n").is_empty() && at(&index, "m").is_empty());
    assert!(index.all().is_empty());
}
