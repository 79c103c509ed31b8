//! Labels, uses and conflicts, in the situations of upstream's tests; and the controller on a server.

use serde_json::{Value, json};
use steersman_api::{ObjectKey, Uid};
use steersman_controller::testing::{Cluster, eventually};
use steersman_informer::wire::{Encoding, Group, Object};
use steersman_kinds::pod::Pod;
use steersman_kinds::selinux::{SelinuxMounts, SelinuxOptions};

use super::conflict::{Conflict, Property};
use super::construct;
use super::label::Label;
use super::uses::{Lookup, Manner, SharedVolume, Use, Uses, uses};
use super::volumes::{MOST_REPORTED, Volumes};

fn label(text: &str) -> Label {
    let mut parts = text.splitn(4, ':').map(Into::into);
    let mut part = || parts.next().unwrap_or_default();
    let (user, role, kind, level) = (part(), part(), part(), part());
    Label::of(&SelinuxOptions { user, role, kind, level })
}

#[test]
fn labels_are_written_as_upstream_writes_them() {
    for (text, expected) in [
        ("system_u:system_r:container_t:s0:c0,c1", "system_u:system_r:container_t:s0:c0,c1"),
        ("::container_t:s0:c0,c1", "::container_t:s0:c0,c1"),
        (":::s0:c0,c1", ":::s0:c0,c1"),
        (":::", ""),
        ("", ""),
    ] {
        assert_eq!(label(text).to_string(), expected);
    }
}

#[test]
fn labels_are_in_conflict_if_no_node_can_make_them_equal() {
    for (a, b, conflict) in [
        ("", "", false),
        ("u:r:t:l", "u:r:t:l", false),
        ("u:r:t:s0:c1,c2", ":::s0:c1,c2", false),
        ("u:r:t:s0:c1,c2", ":::s0:c98,c99", true),
        (":::s0:c1,c2", "", true),
        ("u:r:t:l", "u:r:t", true),
        ("u:r:t:l", "x:r:t:l", true),
        ("u:r:t:l", "u:x:t:l", true),
        ("u:r:t:l", "u:r:x:l", true),
        ("u::t:l", ":r:t:l", false),
        ("u::t:l", "x:r:t:l", true),
    ] {
        assert_eq!(label(a).conflicts_with(&label(b)), conflict, "{a} {b}");
        assert_eq!(label(b).conflicts_with(&label(a)), conflict, "{b} {a}");
    }
}

fn labelled(level: &str) -> Value {
    json!({"seLinuxOptions": {"level": level}})
}

fn container(security: Value, volumes: &[&str]) -> Value {
    let mounts: Vec<_> = volumes.iter().map(|name| json!({"name": name, "mountPath": "/x"})).collect();
    json!({"name": "c", "image": "busybox", "securityContext": security, "volumeMounts": mounts})
}

/// The uses of a pod with the volume `v`.
fn uses_of(mut spec: Value, lookup: &Lookup) -> Uses {
    spec["volumes"] = json!([{"name": "v"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": spec}).to_string();
    let pod = Pod::decode(&pod.into(), Encoding::Json, SelinuxMounts::BIT).unwrap();
    uses(SelinuxMounts::of(&pod).unwrap(), |_| lookup.clone())
}

fn shared(is_labelled: bool) -> SharedVolume {
    SharedVolume { name: "csi/v".into(), driver: Some("csi".into()), is_labelled }
}

#[test]
fn a_pod_uses_a_volume_with_the_label_and_the_policy_that_apply() {
    let plain = container(Value::Null, &["v"]);
    let level = |level: &str| container(labelled(level), &["v"]);
    let pod_level = |level: &str, policy: Value| json!({"seLinuxOptions": {"level": level}, "seLinuxChangePolicy": policy});
    let mount_option = |label: &'static str| Some((label, "MountOption"));
    let recursive = Some(("", "Recursive"));
    for (what, spec, is_labelled, expected) in [
        ("no label", json!({"containers": [plain]}), true, recursive),
        ("a container's", json!({"containers": [level("1")]}), true, mount_option(":::1")),
        ("one of two containers'", json!({"containers": [plain, level("1")]}), true, mount_option(":::1")),
        ("the same of two", json!({"containers": [level("1"), level("1")]}), true, mount_option(":::1")),
        (
            "an init container's",
            json!({"initContainers": [level("2")], "containers": [container(labelled("1"), &[])]}),
            true,
            mount_option(":::2"),
        ),
        (
            "the pod's",
            json!({"securityContext": pod_level("1", Value::Null), "containers": [plain]}),
            true,
            mount_option(":::1"),
        ),
        (
            "a container's rather than the pod's",
            json!({"securityContext": pod_level("1", json!("MountOption")), "containers": [level("2")]}),
            true,
            mount_option(":::2"),
        ),
        (
            "of a pod that opts out",
            json!({"securityContext": pod_level("1", json!("Recursive")), "containers": [plain]}),
            true,
            recursive,
        ),
        ("for a driver without labels", json!({"containers": [level("1")]}), false, recursive),
        (
            "an empty one",
            json!({"containers": [container(json!({"seLinuxOptions": {}}), &["v"])]}),
            true,
            recursive,
        ),
        ("not mounted", json!({"containers": [container(labelled("1"), &["w"])]}), true, None),
    ] {
        let Uses { shared, torn } = uses_of(spec, &Lookup::Shared(shared(is_labelled)));
        let found: Vec<_> = shared
            .iter()
            .map(|used| (used.manner.label.to_string(), used.manner.policy.as_str().to_owned()))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(label, policy)| ((*label).to_owned(), (*policy).to_owned())).collect();
        assert_eq!(found, expected, "{what}");
        assert!(torn.is_empty(), "{what}");
    }
}

#[test]
fn containers_that_disagree_are_told_of_for_all_volumes_that_are_known() {
    let both = [container(labelled("1"), &["v"]), container(labelled("2"), &["v"])];
    for (lookup, torn) in
        [(Lookup::Shared(shared(false)), true), (Lookup::Private, true), (Lookup::Unknown, false)]
    {
        let uses = uses_of(json!({"containers": both}), &lookup);
        assert_eq!(uses.torn.len(), usize::from(torn), "{lookup:?}");
        assert!(uses.shared.is_empty());
    }
}

/// A use of the volume, as [`uses_of`] finds it for a pod with this label and policy.
fn used(level: &str, policy: &str) -> Use {
    let security = json!({"seLinuxOptions": {"level": level}, "seLinuxChangePolicy": policy});
    let spec = json!({"securityContext": security, "containers": [container(Value::Null, &["v"])]});
    uses_of(spec, &Lookup::Shared(shared(true))).shared.remove(0)
}

fn pod(name: &str) -> (ObjectKey, Uid) {
    (ObjectKey::new("ns", name), Uid::from(name))
}

fn add(volumes: &mut Volumes, name: &str, used: &Use) -> Vec<(Property, String, String)> {
    let (key, uid) = pod(name);
    let conflicts = volumes.add(&key, &uid, used);
    conflicts
        .into_iter()
        .map(|conflict| (conflict.property, conflict.pod.name.to_string(), conflict.other.name.to_string()))
        .collect()
}

#[test]
fn a_conflict_is_reported_to_both_pods_once() {
    let (one, two, out) = (used("1", "MountOption"), used("2", "MountOption"), used("", "Recursive"));
    let mut volumes = Volumes::default();
    let pair = |property, a: &str, b: &str| {
        [(property, a.to_owned(), b.to_owned()), (property, b.to_owned(), a.to_owned())]
    };
    assert_eq!(add(&mut volumes, "a", &one), []);
    assert_eq!(add(&mut volumes, "b", &one), [], "the same label");
    assert_eq!(add(&mut volumes, "a", &one), [], "nothing new");
    let both = [pair(Property::Label, "c", "a"), pair(Property::Label, "c", "b")].concat();
    assert_eq!(add(&mut volumes, "c", &two), both);
    assert_eq!(add(&mut volumes, "c", &two), [], "nothing new");
    volumes.remove(&pod("a").0);
    volumes.remove(&pod("b").0);
    let both = [pair(Property::ChangePolicy, "d", "c"), pair(Property::Label, "d", "c")].concat();
    assert_eq!(add(&mut volumes, "d", &out), both);
    assert_eq!(volumes.conflicts(100).len(), 4);
    assert_eq!(add(&mut volumes, "d", &two), [], "the pod's driver has learnt labels");
    assert_eq!(volumes.conflicts(100).len(), 0);
}

#[test]
fn a_pod_of_the_same_name_takes_over_nothing() {
    let mut volumes = Volumes::default();
    let other = Use {
        volume: SharedVolume { name: "csi/w".into(), ..shared(true) },
        manner: Manner { ..used("1", "MountOption").manner },
    };
    assert_eq!(add(&mut volumes, "a", &other), []);
    volumes.add(&pod("a").0, &Uid::from("later"), &used("1", "MountOption"));
    assert_eq!(add(&mut volumes, "b", &Use { volume: other.volume, ..used("2", "MountOption") }), []);
    assert_eq!(volumes.pods_of_driver("csi").len(), 2);
    assert!(volumes.pods_of_driver("other").is_empty());
}

#[test]
fn a_volume_of_many_pods_has_bounded_reports() {
    let mut volumes = Volumes::default();
    for number in 0..MOST_REPORTED {
        add(&mut volumes, &format!("a-{number}"), &used("1", "MountOption"));
    }
    assert_eq!(add(&mut volumes, "b", &used("2", "MountOption")).len(), MOST_REPORTED);
    assert_eq!(volumes.conflicts(500).len(), 500);
    assert_eq!(volumes.conflicts(usize::MAX).len(), 2 * MOST_REPORTED);
}

#[test]
fn messages_are_upstreams_and_keep_other_namespaces_secret() {
    let conflict = |other: ObjectKey| Conflict {
        property: Property::Label,
        pod: ObjectKey::new("ns", "a"),
        value: ":::1".to_owned(),
        other,
        other_value: ":::2".to_owned(),
    };
    assert_eq!(
        conflict(ObjectKey::new("ns", "b")).to_string(),
        "SELinuxLabel \":::1\" conflicts with pod b that uses the same volume as this pod with SELinuxLabel \":::2\". If both \
         pods land on the same node, only one of them may access the volume."
    );
    assert_eq!(
        conflict(ObjectKey::new("other", "b")).to_string(),
        "SELinuxLabel\":::1\" conflicts with another pod that uses the same volume as this pod with a different SELinuxLabel. \
         If both pods land on the same node, only one of them may access the volume."
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_share_a_disk_are_warned_until_one_is_gone() {
    let cluster = Cluster::start().await;
    let running = cluster.run(construct);
    for (name, level) in [("a", "s0:c1"), ("b", "s0:c2")] {
        cluster
            .create(&json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "containers": [container(labelled(level), &["disk"])],
                    "volumes": [{"name": "disk", "iscsi": {"targetPortal": "t", "iqn": "iqn.2026-01.x:y", "lun": 0}}],
                },
            }))
            .await;
    }
    let scrape = || {
        let families = running.metrics.gather();
        let text = prometheus::TextEncoder::new().encode_to_string(&families).unwrap();
        text.lines().filter(|line| line.starts_with("selinux_warning")).map(str::to_owned).collect::<Vec<_>>()
    };
    let shown = eventually("a conflict", || Some(scrape()).filter(|lines| lines.len() == 2)).await;
    assert_eq!(
        shown[0],
        "selinux_warning_controller_selinux_volume_conflict{pod1_name=\"a\",pod1_namespace=\"default\",\
         pod1_value=\":::s0:c1\",pod2_name=\"b\",pod2_namespace=\"default\",pod2_value=\":::s0:c2\",\
         property=\"SELinuxLabel\"} 1"
    );
    cluster.patch_status("Pod", "default/a", json!({"phase": "Succeeded"})).await;
    eventually("no conflict", || scrape().is_empty().then_some(())).await;
    running.stop().await;
}
