//! Which pods wait for a node, and whether the node takes them. Pure.

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use steersman_node::admission::predicates;
use steersman_node::status_manager::conditions::is_terminal;

/// Whom pods name that do not name a scheduler.
pub(in crate::standalone) const SCHEDULER: &str = "default-scheduler";
/// What stands for a node that is marked unschedulable, to those who tolerate that.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Upstream's words where there is no node at all.
const NO_NODES: &str = "no nodes available to schedule pods";

/// Whether the pod is ours to place, and may be placed.
pub(super) fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let unbound = node_of(pod).is_none();
    let ours = spec.scheduler_name.as_deref().unwrap_or(SCHEDULER) == SCHEDULER;
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    unbound && ours && !gated && pod.metadata.deletion_timestamp.is_none() && !has_ended(pod)
}

/// Whether the pod takes room on the node that it is bound to.
pub(super) fn takes_room(pod: &Pod) -> bool {
    !has_ended(pod)
}

/// Where the pod is bound to.
fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// Whether a binding was refused since the pod is bound to that very node.
pub(super) fn is_there_already(code: u16, message: &str, node: &str) -> bool {
    code == 409 && message.ends_with(&format!("is already assigned to node {node:?}"))
}

fn has_ended(pod: &Pod) -> bool {
    is_terminal(pod.status.as_ref().and_then(|status| status.phase.as_deref()))
}

/// Whether the node takes the pod, beside `others`, which are on it.
///
/// # Errors
/// Why not, as kube-scheduler says it.
pub(super) fn fits(pod: &Pod, node: Option<&Node>, others: &[&Pod]) -> Result<(), String> {
    let node = node.ok_or(NO_NODES)?;
    let mut reasons = unfit(pod, node, others);
    if reasons.is_empty() {
        return Ok(());
    }
    reasons.iter_mut().for_each(|reason| reason.insert_str(0, "1 "));
    reasons.sort();
    Err(format!("0/1 nodes are available: {}.", reasons.join(", ")))
}

/// What the first rule says that the node does not meet, in the order of kube-scheduler's plugins.
fn unfit(pod: &Pod, node: &Node, others: &[&Pod]) -> Vec<String> {
    let spec = node.spec.as_ref();
    let marked = spec.and_then(|spec| spec.unschedulable) == Some(true);
    let mark = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let taints = spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut keeping_off = taints.filter(|taint| ["NoSchedule", "NoExecute"].contains(&&*taint.effect));
    let rule = if marked && !predicates::tolerates(pod, &mark) {
        Some("node(s) were unschedulable")
    } else if keeping_off.any(|taint| !predicates::tolerates(pod, taint)) {
        Some("node(s) had untolerated taint(s)")
    } else if !predicates::matches_affinity(pod, node) {
        Some("node(s) didn't match Pod's node affinity/selector")
    } else if !predicates::ports_are_free(pod, others) {
        Some("node(s) didn't have free ports for the requested pod ports")
    } else {
        None
    };
    if let Some(rule) = rule {
        return vec![rule.to_owned()];
    }
    let short = predicates::insufficient(pod, node, others).into_iter();
    short
        .map(|resource| match &*resource {
            "pods" => "Too many pods".to_owned(),
            other => format!("Insufficient {other}"),
        })
        .collect()
}

/// What a node is as far as placing pods is concerned: its heartbeats are no reason to try again.
pub(super) fn same_for_pods(one: &Node, other: &Node) -> bool {
    let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    one.spec == other.spec
        && one.metadata.labels == other.metadata.labels
        && allocatable(one) == allocatable(other)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(steersman_testing::pod("p").uid("u").spec(spec).build()).unwrap()
    }

    fn node(spec: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"disk": "fast"}},
            "spec": spec,
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"}},
        }))
        .unwrap()
    }

    fn asking(cpu: &str, memory: &str) -> Value {
        json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
    }

    #[test]
    fn pods_of_others_and_those_that_are_held_back_do_not_wait() {
        for (spec, expected) in [
            (json!({}), true),
            (json!({"schedulerName": "default-scheduler", "nodeName": ""}), true),
            (json!({"schedulerName": "mine"}), false),
            (json!({"nodeName": "n"}), false),
            (json!({"schedulingGates": [{"name": "g"}]}), false),
        ] {
            assert_eq!(waits(&pod(spec.clone())), expected, "{spec}");
        }
        let mut ended = pod(json!({}));
        ended.status = serde_json::from_value(json!({"phase": "Failed"})).unwrap();
        assert!(!waits(&ended));
        let mut deleted = pod(json!({}));
        deleted.metadata =
            serde_json::from_value(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})).unwrap();
        assert!(!waits(&deleted));
    }

    #[test]
    fn a_node_says_why_it_does_not_take_a_pod_in_upstreams_words() {
        let port = json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
        let taint = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
        let soft = json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]});
        let other = |spec: &Value| {
            let mut other = pod(spec.clone());
            other.metadata.uid = Some("o".to_owned());
            other
        };
        let none = json!({});
        for (wanted, there, others, expected) in [
            (json!({}), none.clone(), vec![], None),
            (json!({}), json!({"unschedulable": true}), vec![], Some("1 node(s) were unschedulable")),
            (json!({"tolerations": [{"operator": "Exists"}]}), json!({"unschedulable": true}), vec![], None),
            (json!({}), taint.clone(), vec![], Some("1 node(s) had untolerated taint(s)")),
            (json!({"tolerations": [{"key": "k", "value": "v"}]}), taint, vec![], None),
            (json!({}), soft, vec![], None),
            (
                json!({"nodeSelector": {"disk": "slow"}}),
                none.clone(),
                vec![],
                Some("1 node(s) didn't match Pod's node affinity/selector"),
            ),
            (json!({"nodeSelector": {"disk": "fast"}}), none.clone(), vec![], None),
            (
                port.clone(),
                none.clone(),
                vec![other(&port)],
                Some("1 node(s) didn't have free ports for the requested pod ports"),
            ),
            (asking("2", "1Gi"), none.clone(), vec![], None),
            (asking("2001m", "2Gi"), none.clone(), vec![], Some("1 Insufficient cpu, 1 Insufficient memory")),
            (asking("1", "0"), none.clone(), vec![other(&asking("1500m", "0"))], Some("1 Insufficient cpu")),
            (asking("1", "0"), none.clone(), vec![other(&none), other(&none)], Some("1 Too many pods")),
            (
                json!({"containers": [{"name": "a", "resources": {"requests": {"example.com/gpu": "1"}}}]}),
                none.clone(),
                vec![],
                Some("1 Insufficient example.com/gpu"),
            ),
        ] {
            let others: Vec<&Pod> = others.iter().collect();
            let answer = fits(&pod(wanted.clone()), Some(&node(there.clone())), &others);
            let expected = expected.map(|reason| format!("0/1 nodes are available: {reason}."));
            assert_eq!(answer.err(), expected, "{wanted} on {there}");
        }
        assert_eq!(fits(&pod(none), None, &[]), Err(NO_NODES.to_owned()));
    }

    #[test]
    fn heartbeats_are_no_reason_to_try_again() {
        let before = node(json!({}));
        let mut beat = before.clone();
        beat.metadata.resource_version = Some("7".to_owned());
        assert!(same_for_pods(&before, &beat));
        assert!(!same_for_pods(&before, &node(json!({"unschedulable": true}))));
    }

    #[test]
    fn who_is_refused_as_bound_to_the_node_already_is_bound() {
        let said =
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"";
        assert!(is_there_already(409, said, "n"));
        assert!(!is_there_already(409, said, "m"));
        assert!(!is_there_already(409, "pod p has non-empty .spec.schedulingGates", "n"));
    }
}
