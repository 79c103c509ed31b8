//! The names of revisions.

use steersman_api::ArcStr;

use crate::pod_template::fnv;

/// The label of a StatefulSet's revision with the hash in its name.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The longest part of an owner's name that the name of a StatefulSet's revision has.
const MAX_PREFIX: usize = 223;

/// The hash of a StatefulSet's revision, as upstream's `HashControllerRevision`. `collision_count` says how often a name was taken.
pub(crate) fn stateful_set_hash(data: &str, collision_count: i32) -> ArcStr {
    fnv::safe_encode(fnv::fnv1(&[data.as_bytes(), collision_count.to_string().as_bytes()]))
}

/// The name of a StatefulSet's revision, as upstream's `ControllerRevisionName`.
pub(crate) fn stateful_set_name(set: &str, hash: &str) -> ArcStr {
    // Names are ASCII.
    format!("{}-{hash}", set.get(..MAX_PREFIX).unwrap_or(set)).into()
}

/// The name of a DaemonSet's revision. `hash` is that of the template, with the set's collision count.
pub(crate) fn daemon_set_name(set: &str, hash: &str) -> ArcStr {
    format!("{set}-{hash}").into()
}
