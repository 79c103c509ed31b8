use serde_json::{Value, json};
use steersman_kinds::pod_resources::{PodAllotment, PodDemand};
use steersman_kinds::shared::Shared;
use steersman_testing::{Pod, pod};

use super::super::scopes::Scopes;
use super::{GATES, container, quota, view};

fn has(spec: &Value, pod: Pod) -> bool {
    let (quota, pod) = (quota(spec.clone(), json!({})), view(pod));
    Scopes::of(&quota.spec).have_pod(pod.get::<Shared<PodDemand>>(), pod.get::<Shared<PodAllotment>>(), GATES)
}

fn scope(name: &str, operator: &str, values: &[&str]) -> Value {
    json!({"scopeName": name, "operator": operator, "values": values})
}

fn selector(scopes: &[Value]) -> Value {
    json!({"scopeSelector": {"matchExpressions": scopes}})
}

#[test]
fn a_pod_is_counted_if_it_is_in_all_scopes() {
    let best_effort = || pod("a");
    let burstable = || pod("a").spec(json!({"containers": [container("c", json!({"cpu": "1"}), json!({}))]}));
    let ending = |pod: Pod| pod.spec(json!({"activeDeadlineSeconds": 30}));
    let class = |pod: Pod| pod.spec(json!({"priorityClassName": "high"}));
    for (spec, pods) in [
        (json!({}), [true, true, true, true]),
        (json!({"scopes": ["BestEffort"]}), [true, false, true, false]),
        (json!({"scopes": ["NotBestEffort"]}), [false, true, false, true]),
        (json!({"scopes": ["Terminating"]}), [false, false, true, false]),
        (json!({"scopes": ["NotTerminating"]}), [true, true, false, true]),
        (json!({"scopes": ["NotTerminating", "NotBestEffort"]}), [false, true, false, true]),
        (json!({"scopes": ["PriorityClass"]}), [false, false, false, true]),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), [false; 4]),
        (json!({"scopes": ["VolumeAttributesClass"]}), [false; 4]),
        (selector(&[scope("PriorityClass", "Exists", &[])]), [false, false, false, true]),
        (selector(&[scope("PriorityClass", "DoesNotExist", &[])]), [true, true, true, false]),
        (selector(&[scope("PriorityClass", "In", &["low", "high"])]), [false, false, false, true]),
        (selector(&[scope("PriorityClass", "In", &["low"])]), [false; 4]),
        (selector(&[scope("PriorityClass", "NotIn", &["high"])]), [true, true, true, false]),
        (selector(&[scope("PriorityClass", "Near", &["high"])]), [false; 4]),
        (
            selector(&[scope("PriorityClass", "In", &["high"]), scope("BestEffort", "Exists", &[])]),
            [false; 4],
        ),
    ] {
        let all = [best_effort(), burstable(), ending(best_effort()), class(burstable())];
        assert_eq!(all.map(|pod| has(&spec, pod)), pods, "{spec}");
    }
    let both = json!({
        "scopes": ["NotBestEffort"],
        "scopeSelector": {"matchExpressions": [scope("PriorityClass", "In", &["high"])]},
    });
    assert!(has(&both, class(burstable())) && !has(&both, class(best_effort())) && !has(&both, burstable()));
}

#[test]
fn a_deadline_of_zero_seconds_is_one() {
    let spec = json!({"scopes": ["Terminating"]});
    assert!(has(&spec, pod("a").spec(json!({"activeDeadlineSeconds": 0}))));
}

#[test]
fn affinity_to_pods_of_other_namespaces_is_in_a_scope_of_its_own() {
    let spec = json!({"scopes": ["CrossNamespacePodAffinity"]});
    let required = |kind: &str, term: Value| json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let preferred = |kind: &str, term: Value| {
        let weighted = json!({"weight": 1, "podAffinityTerm": term});
        json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}})
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (term, crosses) in [
            (json!({"topologyKey": "zone", "labelSelector": {}}), false),
            (json!({"topologyKey": "zone", "namespaces": []}), false),
            (json!({"topologyKey": "zone", "namespaces": ["other"]}), true),
            (json!({"topologyKey": "zone", "namespaceSelector": {}}), true),
        ] {
            for affinity in [required(kind, term.clone()), preferred(kind, term.clone())] {
                assert_eq!(has(&spec, pod("a").spec(affinity.clone())), crosses, "{affinity}");
            }
        }
    }
}
