//! Finds the services that must be synced because a pod changed.

use std::collections::BTreeSet;

use steersman_api::meta::Labels;
use steersman_api::{ObjectKey, Uid};
use steersman_informer::View;
use steersman_informer::shared_informer::Change;

use super::ServedPod;
use steersman_kinds::pod::{Addresses, DnsName, Phase, Placement, Readiness};

/// The fields of a pod that its endpoint depends on. `None` if no service lists the pod: it has ended or has no
/// address.
///
/// (The ports are not included: they can't change once the pod has an address.)
#[derive(PartialEq, Eq)]
struct Standing<'a> {
    uid: &'a Uid,
    ready: bool,
    terminating: bool,
    addresses: &'a Addresses,
    node: &'a str,
    hostname: &'a str,
    subdomain: &'a str,
}

impl<'a> Standing<'a> {
    fn of(pod: &'a View<ServedPod>) -> Option<Self> {
        let (addresses, name) = (pod.get::<Addresses>(), pod.get::<DnsName>());
        if pod.get::<Phase>().is_terminal() || addresses.is_empty() {
            return None;
        }
        Some(Self {
            uid: &pod.meta().uid,
            ready: pod.get::<Readiness>().ready.is_true(),
            terminating: pod.meta().is_deleting(),
            addresses,
            node: &pod.get::<Placement>().node,
            hostname: &name.hostname,
            subdomain: &name.subdomain,
        })
    }
}

/// The services whose endpoints may depend on a pod's change. `selecting` returns the services of the pod's namespace that
/// select these labels.
///
/// If only the pod's labels changed, this leaves out the services that select the pod both before and after, as upstream's
/// `GetServicesToUpdate` does. It returns no service if no service could list the pod before the change or after it.
pub(super) fn services_to_sync(
    change: &Change<ServedPod>,
    selecting: impl Fn(&Labels) -> BTreeSet<ObjectKey>,
) -> BTreeSet<ObjectKey> {
    if matches!(change, Change::Resync { .. }) {
        return BTreeSet::new();
    }
    let standing = |pod| Some((pod, Standing::of(pod)?));
    let before = change.old().and_then(standing);
    let after = change.new().and_then(standing);
    match (before, after) {
        (None, None) => BTreeSet::new(),
        (Some((pod, _)), None) | (None, Some((pod, _))) => selecting(&pod.meta().labels),
        (Some((old, before)), Some((new, after))) => {
            let (was, is) = (&old.meta().labels, &new.meta().labels);
            match (before == after, was == is) {
                (true, true) => BTreeSet::new(),
                (false, true) => selecting(is),
                (true, false) => &selecting(was) ^ &selecting(is),
                (false, false) => &selecting(was) | &selecting(is),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A ready pod with an address and the label `app: a`, changed by `patch`.
    fn pod(patch: &Value) -> View<ServedPod> {
        let pod = steersman_testing::pod("a").namespace("ns").uid("u").label("app", "a").on("n");
        View::from_json(&pod.phase("Running").ip("10.0.0.1").ready().with(patch.clone()).build())
    }

    /// The services to sync, where each label of the pod selects one service named after it.
    fn synced(change: &Change<ServedPod>) -> Vec<String> {
        let selecting = |labels: &Labels| {
            labels.iter().map(|(key, value)| ObjectKey::new(key.clone(), value.clone())).collect()
        };
        services_to_sync(change, selecting).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn services_are_synced_only_for_changes_that_endpoints_depend_on() {
        let plain = json!({});
        let gone = json!({"status": {"podIP": null, "podIPs": null}});
        let ended = json!({"status": {"phase": "Succeeded"}});
        let relabelled = json!({"metadata": {"labels": {"app": "b"}}});
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let both = json!({"metadata": {"labels": {"app": "b", "keep": "x"}}});
        let kept = json!({"metadata": {"labels": {"keep": "x"}}});
        for (old, new, expected) in [
            (&plain, &plain, &[][..]),
            (&plain, &json!({"metadata": {"annotations": {"x": "y"}, "resourceVersion": "2"}}), &[]),
            (&plain, &json!({"status": {"reason": "x"}}), &[]),
            (&plain, &unready, &["app/a"]),
            (&plain, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), &["app/a"]),
            (&plain, &json!({"metadata": {"uid": "v"}}), &["app/a"]),
            (&plain, &json!({"status": {"podIPs": [{"ip": "10.0.0.2"}]}}), &["app/a"]),
            (&plain, &json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}), &["app/a"]),
            (&gone, &plain, &["app/a"]),
            (&plain, &ended, &["app/a"]),
            (&gone, &ended, &[]),
            (&ended, &relabelled, &["app/b"]),
            (&plain, &relabelled, &["app/a", "app/b"]),
            (&kept, &both, &["app/a", "app/b"]),
        ] {
            let change = Change::Updated { old: pod(old), new: pod(new) };
            assert_eq!(synced(&change), expected, "{old} -> {new}");
        }
        let mut changed = both.clone();
        json_patch::merge(&mut changed, &unready);
        let change = Change::Updated { old: pod(&kept), new: pod(&changed) };
        assert_eq!(synced(&change), ["app/a", "app/b", "keep/x"]);
    }

    #[test]
    fn an_added_or_deleted_pod_syncs_services_only_if_they_could_list_it() {
        let waiting = json!({"status": {"podIP": null, "podIPs": null}});
        assert_eq!(synced(&Change::Added { object: pod(&json!({})), initial: false }), ["app/a"]);
        assert_eq!(synced(&Change::Deleted { last: pod(&json!({})) }), ["app/a"]);
        assert!(synced(&Change::Added { object: pod(&waiting), initial: false }).is_empty());
        assert!(synced(&Change::Deleted { last: pod(&waiting) }).is_empty());
        assert!(synced(&Change::Resync { object: pod(&json!({})) }).is_empty());
    }
}
