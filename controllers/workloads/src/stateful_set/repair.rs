//! Pods of broken revisions.
//!
//! A rolling update of ordered pods stops at the first pod that does not become ready, and goes on only once that pod is
//! ready; if its template is broken, this is never, though the set has a better template since (k/k#67250, k/k#78007). A
//! set with the annotation `steersman.io/replace-broken-pods: "true"` has such pods deleted.

use jiff::Timestamp;
use serde_json::Value;

use super::observed::Observed;
use super::pods::Pod;

/// The longest time between the start of a pod and the first time of its condition `Ready`. The kubelet takes both from the
/// clock, one soon after the other, and in whole seconds.
const AT_START: i64 = 2;

/// Whether a pod with this status was ever ready: its condition `Ready` has changed since the kubelet started the pod.
pub(super) fn was_ever_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let Some(ready) = conditions.into_iter().find(|condition| condition["type"] == "Ready") else {
        return false;
    };
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    match (time(&status["startTime"]), time(&ready["lastTransitionTime"])) {
        _ if ready["status"] == "True" => true,
        // No kubelet has started the pod.
        (None, _) => false,
        (Some(_), None) => true,
        (Some(started), Some(changed)) => changed.as_second() - started.as_second() > AT_START,
    }
}

impl Observed {
    /// Whether a rolling update has left a pod's revision behind, and the set's user has asked for the replacement of such
    /// pods. The current revision counts as broken only if no pod of it is ready.
    pub(super) fn may_be_broken(&self, ordinal: i32, pod: &Pod) -> bool {
        let set = &self.set;
        let is_out_of_reach = set.update.on_delete || i64::from(ordinal) < set.first_updated();
        if !set.replaces_broken_pods || is_out_of_reach || pod.deleting || pod.ready.is_some() {
            return false;
        }
        let Some(update) = self.revisions.update() else { return false };
        let is_current = Some(pod.revision()) == self.revisions.current(&set.status.current_revision);
        let works = |other: &Pod| other.ready.is_some() && other.revision() == pod.revision();
        pod.revision() != update && !(is_current && self.numbered().any(works))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_was_ready_if_its_condition_has_changed_since_it_started() {
        let start = "2026-01-01T00:00:00Z";
        let ready = |status: &str, since: &str| json!({"startTime": start, "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]});
        for (name, status, expected) in [
            ("not scheduled", json!({}), false),
            ("scheduled", json!({"conditions": [{"type": "PodScheduled", "status": "True"}]}), false),
            ("started", ready("False", start), false),
            ("started, at the end of a second", ready("False", "2026-01-01T00:00:01Z"), false),
            ("ready", ready("True", start), true),
            ("ready once", ready("False", "2026-01-01T00:00:09Z"), true),
            ("on a node out of reach", ready("Unknown", "2026-01-01T00:00:09Z"), true),
        ] {
            assert_eq!(was_ever_ready(&status), expected, "{name}");
        }
    }
}
