//! The annotations by which Deployments and ReplicaSets remember revisions and sizes.

use steersman_api::ArcStr;
use steersman_kinds::annotation::{Annotations, LAST_APPLIED};

use super::owner::Deployment;
use super::replica_set::ReplicaSet;

/// The number of a ReplicaSet in the sequence of rollouts; on a Deployment, that of its new ReplicaSet.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier revision numbers of a ReplicaSet that users have rolled back to, separated by commas.
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's `replicas` when it last scaled the ReplicaSet. If it differs from the current one, users have scaled the
/// Deployment.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The greatest number of pods that the Deployment could have when it last scaled the ReplicaSet.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Asks for a rollback to this revision; 0 for the last one. The field of `extensions/v1beta1` that became an annotation.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// The maximum length of [`REVISION_HISTORY`] in bytes.
const MAX_HISTORY: usize = 2000;

/// Whether an annotation is never copied between a Deployment and its ReplicaSets.
pub(super) fn is_own(key: &str) -> bool {
    [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO].contains(&key)
}

/// The annotations `desired-replicas` and `max-replicas` that a Deployment gives a ReplicaSet which it scales.
pub(super) fn of_size(deployment: &Deployment) -> [(&'static str, ArcStr); 2] {
    let text = |number: i32| ArcStr::from(number.to_string());
    [(DESIRED_REPLICAS, text(deployment.replicas)), (MAX_REPLICAS, text(deployment.max_replicas()))]
}

/// Whether [`of_size`] differs from the annotations of a ReplicaSet.
pub(super) fn size_is_outdated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    of_size(deployment).iter().any(|(key, value)| set.annotations.get(key) != Some(value))
}

/// The annotations of a new ReplicaSet that is about to be created with this revision.
pub(super) fn of_created(deployment: &Deployment, revision: i64) -> Annotations {
    let mut annotations = Annotations::default();
    copy(deployment, &mut annotations);
    annotations.insert(REVISION.into(), revision.to_string().into());
    for (key, value) in of_size(deployment) {
        annotations.insert(key.into(), value);
    }
    annotations
}

/// The annotations that the new ReplicaSet should have, given that `revision` follows those of all old ReplicaSets, and
/// whether that alone is a reason to write them. Upstream's `SetNewReplicaSetAnnotations`.
///
/// - The Deployment's annotations are copied. An annotation that the Deployment has lost stays.
/// - A lower revision is raised. Then the set was rolled back to, and remembers its earlier revision.
/// - A revision that is no number stays, and nothing is written on account of annotations.
pub(super) fn of_new(deployment: &Deployment, set: &ReplicaSet, revision: i64) -> (Annotations, bool) {
    let mut annotations = set.annotations.clone();
    let mut changed = copy(deployment, &mut annotations);
    let old = set.annotations.get(REVISION);
    let number = match old.map(|old| old.as_str()) {
        None | Some("") => 0,
        Some(old) => match old.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return (annotations, false),
        },
    };
    if number < revision {
        annotations.insert(REVISION.into(), revision.to_string().into());
        changed = true;
        if let Some(old) = old {
            let history = set.annotations.get(REVISION_HISTORY).map_or("", |history| history.as_str());
            if let Some(history) = appended(history, old) {
                annotations.insert(REVISION_HISTORY.into(), history.into());
            }
        }
    }
    (annotations, changed)
}

/// Copies a Deployment's annotations, and returns whether any of them changed.
fn copy(deployment: &Deployment, to: &mut Annotations) -> bool {
    let mut changed = false;
    for (key, value) in deployment.annotations.iter().filter(|(key, _)| !is_own(key)) {
        if to.get(key) != Some(value) {
            to.insert(key.clone(), value.clone());
            changed = true;
        }
    }
    changed
}

/// A history with one more revision, without as many of the oldest as it takes to stay within [`MAX_HISTORY`]. `None` if
/// the revision alone is too long.
fn appended(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut rest = Some(history);
    while let Some(kept) = rest
        && kept.len() + 1 + revision.len() > MAX_HISTORY
    {
        rest = kept.split_once(',').map(|(_, newer)| newer);
    }
    match rest {
        Some(kept) => Some(format!("{kept},{revision}")),
        None => (revision.len() <= MAX_HISTORY).then(|| revision.to_owned()),
    }
}
