//! Whose replicas count for a pod.

use steersman_api::ArcStr;

use crate::disruption::owners::{Cached, Found};

use super::*;

fn reference(api_version: &str, kind: &str, name: &str) -> OwnerReference {
    OwnerReference::controller(api_version, kind, name, name.into())
}

fn found(name: &str, replicas: i32, controller: Option<OwnerReference>) -> Found {
    Found { scale: Scale { uid: name.into(), replicas }, controller }
}

/// The caches of a cluster with an object of each kind, and ReplicaSets of several owners.
fn look(kind: Cached, key: &ObjectKey) -> Result<Option<Found>, String> {
    let of = |api_version, kind, name| Some(reference(api_version, kind, name));
    assert_eq!(key.namespace, "ns");
    Ok(match (kind, &*key.name) {
        (Cached::ReplicationController, "rc") => Some(found("rc", 1, None)),
        (Cached::StatefulSet, "sts") => Some(found("sts", 2, None)),
        (Cached::ReplicaSet, "rs") => Some(found("rs", 3, None)),
        (Cached::ReplicaSet, "of-deployment") => {
            Some(found("of-deployment", 4, of("apps/v1", "Deployment", "d")))
        }
        (Cached::ReplicaSet, "of-old-group") => {
            Some(found("of-old-group", 4, of("extensions/v1beta1", "Deployment", "d")))
        }
        (Cached::ReplicaSet, "of-gone") => Some(found("of-gone", 4, of("apps/v1", "Deployment", "gone"))),
        (Cached::ReplicaSet, "of-foreign") => {
            Some(found("of-foreign", 4, of("example.com/v1", "Deployment", "d")))
        }
        (Cached::ReplicaSet, "of-rollout") => {
            Some(found("of-rollout", 5, of("argoproj.io/v1alpha1", "Rollout", "r")))
        }
        (Cached::Deployment, "d") => Some(found("d", 6, None)),
        (_, "broken") => return Err("ReplicaSet ns/broken can't be read".to_owned()),
        _ => None,
    })
}

#[test]
fn the_highest_cached_owner_counts_and_any_other_is_asked_for_its_scale() {
    for (owner, expected) in [
        (reference("v1", "ReplicationController", "rc"), Some(("rc", 1))),
        (reference("v1beta1", "ReplicationController", "rc"), Some(("rc", 1))),
        (reference("apps/v1", "ReplicationController", "rc"), None),
        (reference("apps/v1", "StatefulSet", "sts"), Some(("sts", 2))),
        (reference("apps/v1beta1", "StatefulSet", "sts"), Some(("sts", 2))),
        (reference("extensions/v1beta1", "StatefulSet", "sts"), None),
        (reference("apps/v1", "ReplicaSet", "rs"), Some(("rs", 3))),
        (reference("extensions/v1beta1", "ReplicaSet", "rs"), Some(("rs", 3))),
        (reference("example.com/v1", "ReplicaSet", "rs"), None),
        (reference("apps/v1", "ReplicaSet", "gone"), None),
        (OwnerReference { uid: "older".into(), ..reference("apps/v1", "ReplicaSet", "rs") }, None),
        (reference("apps/v1", "ReplicaSet", "of-deployment"), Some(("d", 6))),
        (reference("apps/v1", "ReplicaSet", "of-old-group"), Some(("d", 6))),
        (reference("apps/v1", "ReplicaSet", "of-gone"), None),
        (reference("apps/v1", "ReplicaSet", "of-foreign"), None),
        (reference("apps/v1", "ReplicaSet", "of-rollout"), Some(("of-rollout", 5))),
        (reference("apps/v1", "Deployment", "d"), None),
        (reference("batch/v1", "Job", "job"), None),
    ] {
        let expected = match expected {
            Some((uid, replicas)) => Owner::Scaled(Scale { uid: uid.into(), replicas }),
            None => Owner::Foreign(owner.clone()),
        };
        assert_eq!(Owner::of(&owner, &ArcStr::from("ns"), look), expected, "{owner:?}");
    }
    let broken = Owner::of(&reference("apps/v1", "ReplicaSet", "broken"), &ArcStr::from("ns"), look);
    assert_eq!(broken, Owner::Unreadable("ReplicaSet ns/broken can't be read".to_owned()));
}
