//! The protection of PodGroups from the deletion of groups that have pods.

use std::sync::Arc;

use steersman_api::{Meta, ObjectKey};
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::SyncError;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, Index, IndexValue, Lister, View, keep};
use steersman_kinds::pod::{Phase, Pod};
use steersman_kinds::pod_group::{Membership, PodGroup};

use super::Guard;
use super::engine::Protection;

/// The registry's entry of the PodGroup protection controller. It runs only with the feature gate `GenericWorkload`, which is off
/// by default.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("podgroup-protection-controller", &[], construct).rules(&[
        Rule::new(&["scheduling.k8s.io"], &["podgroups"], &["get", "list", "watch", "update"]),
        Rule::new(&[""], &["pods"], &["list", "watch"]),
    ]);

/// Keeps a PodGroup until all of its pods have ended.
pub(super) const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

keep! {
    /// What the controller reads of a PodGroup: its metadata.
    pub struct ProtectedGroup: PodGroup =>
}

keep! {
    /// What the controller reads of a pod.
    pub struct GroupedPod: Pod => Phase, Membership
}

/// Makes the controller.
///
/// # Errors
/// The cache of pods runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let groups = context.informers.informer::<ProtectedGroup>()?;
    let pods = context.informers.informer::<GroupedPod>()?;
    let queue = context.queue("podgroupprotection");
    groups.map({
        let queue = queue.clone();
        move |change| {
            if change.new().is_some_and(|group| waits(group.meta())) {
                queue.add(change.key().clone());
            }
        }
    });
    pods.map({
        let (groups, queue) = (groups.lister(), queue.clone());
        move |change| {
            for group in released(change).filter_map(group) {
                // The API server adds the finalizer to new groups. Unlike other protected objects, older ones never get it.
                if groups.meta(&group).is_some_and(|group| waits(&group)) {
                    queue.add(group);
                }
            }
        }
    });
    let guard =
        GroupGuard { by_group: pods.add_index("active pods by group", by_group), pods: pods.lister() };
    let client = Client::new(context.client_for("podgroup-protection-controller"));
    let controller = Protection { objects: groups.lister(), client, guard };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [groups.any(), pods.any()]))
}

/// Whether a group waits for the end of its pods.
fn waits(group: &Meta) -> bool {
    group.is_deleting() && group.has_finalizer(FINALIZER)
}

/// The pods of a change that no longer keep their group.
fn released(change: &Change<GroupedPod>) -> impl Iterator<Item = &View<GroupedPod>> {
    let gone = change.old().filter(|old| change.new().is_none_or(|new| new.meta().uid != old.meta().uid));
    gone.into_iter().chain(change.new().filter(|pod| pod.get::<Phase>().is_terminal()))
}

/// The group of a pod.
fn group(pod: &View<GroupedPod>) -> Option<ObjectKey> {
    let name = pod.get::<Membership>().group.name.as_ref()?;
    Some(ObjectKey::new(pod.meta().key.namespace.clone(), name.as_arc().clone()))
}

/// The group that a pod keeps.
fn by_group(pod: &View<GroupedPod>) -> Vec<IndexValue> {
    let group = group(pod).filter(|_| !pod.get::<Phase>().is_terminal());
    group.map(|group| IndexValue::Pair(group.namespace, group.name)).into_iter().collect()
}

/// Knows the pods of groups.
struct GroupGuard {
    pods: Lister<GroupedPod>,
    by_group: Index<GroupedPod>,
}

impl Guard for GroupGuard {
    type Cached = ProtectedGroup;
    const FINALIZER: &'static str = FINALIZER;

    fn is_used(&self, group: &View<ProtectedGroup>) -> Result<bool, SyncError> {
        let ObjectKey { namespace, name } = group.meta().key.clone();
        Ok(self.pods.count_by_index(&self.by_group, &IndexValue::Pair(namespace, name)) > 0)
    }

    /// Upstream relies on its cache, and so does this: a list of a namespace's pods for each of its groups would cost too much,
    /// and a pod that outlives its group takes no harm.
    async fn is_used_now(&self, _: &Meta) -> Result<bool, SyncError> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, spec: &Value, phase: &str) -> View<GroupedPod> {
        View::from_json(&json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": uid}, "spec": spec, "status": {"phase": phase},
        }))
    }

    #[test]
    fn a_group_is_kept_by_its_pods_that_have_not_ended() {
        let member = json!({"schedulingGroup": {"podGroupName": "g"}});
        for (spec, phase, keeps) in [
            (&member, "Pending", true),
            (&member, "Running", true),
            (&member, "Unknown", true),
            (&member, "Succeeded", false),
            (&member, "Failed", false),
            (&json!({}), "Running", false),
            (&json!({"schedulingGroup": {}}), "Running", false),
        ] {
            let expected = if keeps { vec![IndexValue::Pair("ns".into(), "g".into())] } else { Vec::new() };
            assert_eq!(by_group(&pod("u", spec, phase)), expected, "{spec} {phase}");
        }
    }

    #[test]
    fn the_end_of_a_pod_queues_its_group() {
        let running =
            |uid: &str, name: &str| pod(uid, &json!({"schedulingGroup": {"podGroupName": name}}), "Running");
        let ended = pod("u", &json!({"schedulingGroup": {"podGroupName": "g"}}), "Failed");
        let updated = |new: View<GroupedPod>| Change::Updated { old: running("u", "g"), new };
        for (what, change, expected) in [
            ("runs on", updated(running("u", "g")), vec![]),
            ("ended", updated(ended), vec!["g"]),
            ("replaced by a pod of another group", updated(running("v", "h")), vec!["g"]),
            ("gone", Change::Deleted { last: running("u", "g") }, vec!["g"]),
        ] {
            let groups: Vec<_> =
                released(&change).filter_map(group).map(|key| key.name.to_string()).collect();
            assert_eq!(groups, expected, "{what}");
        }
    }
}
