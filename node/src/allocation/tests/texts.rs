//! Tables: what is applied, what changes, what is said.

use jiff::Timestamp;

use super::*;
use crate::allocation::conditions::{Conditions, Pending};
use crate::allocation::resources::{asks_for_as_much, is_resized, operation, operations};
use crate::allocation::{PodResources, messages, order};
use crate::resources::{api_quantity, in_use};

#[test]
fn an_allocation_takes_the_place_of_what_the_spec_says_where_they_differ() {
    let spec = json!({
        "containers": [
            { "name": "c", "resources": { "requests": { "cpu": "1000m" }, "limits": {} } },
            { "name": "d" },
        ],
        "initContainers": [{ "name": "i", "resources": { "requests": { "memory": "1Gi" } } }],
    });
    let wanted = whole("u", spec);
    for (allocated, expected) in [
        (json!({ "ContainerResources": {} }), None),
        (json!({ "ContainerResources": null, "PodLevelResources": null }), None),
        (json!({ "ContainerResources": { "c": { "requests": { "cpu": "1" } }, "d": {}, "gone": {} } }), None),
        (
            json!({ "ContainerResources": { "i": { "requests": { "memory": "2Gi" } } } }),
            Some(("/spec/initContainers/0/resources", json!({ "requests": { "memory": "2Gi" } }))),
        ),
        (
            json!({ "ContainerResources": { "d": { "limits": { "cpu": "1" } } } }),
            Some(("/spec/containers/1/resources", json!({ "limits": { "cpu": "1" } }))),
        ),
        (
            json!({ "ContainerResources": {}, "PodLevelResources": { "limits": { "cpu": "1" } } }),
            Some(("/spec/resources", json!({ "limits": { "cpu": "1" } }))),
        ),
    ] {
        let resources: PodResources = serde_json::from_value(allocated.clone()).unwrap();
        let applied = resources.apply(&wanted).map(|pod| serde_json::to_value(pod).unwrap());
        let found =
            expected.as_ref().map(|(path, _)| applied.as_ref().unwrap().pointer(path).unwrap().clone());
        assert_eq!(found, expected.map(|(_, value)| value), "{allocated}");
        assert_eq!(applied.is_some(), found.is_some(), "{allocated}");
    }
}

#[test]
fn a_change_of_an_amount_has_a_name() {
    for (old, new, expected) in [
        ("0", "0", None),
        ("1", "0", Some("remove")),
        ("0", "1", Some("add")),
        ("1", "500m", Some("decrease")),
        ("1", "1001m", Some("increase")),
        ("1", "1000m", None),
    ] {
        assert_eq!(operation(old.parse().unwrap(), new.parse().unwrap()), expected, "{old} {new}");
    }
    let changed =
        |resources: Value| whole("u", json!({ "containers": [{ "name": "c", "resources": resources }] }));
    let old = changed(json!({ "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "memory": "1Gi" } }));
    let new = changed(json!({ "requests": { "cpu": "2", "memory": "1024Mi" }, "limits": { "cpu": "3" } }));
    assert_eq!(
        operations(&old, &new),
        [["memory", "limits", "remove"], ["cpu", "requests", "increase"], ["cpu", "limits", "add"]]
    );
    assert!(is_resized(&old, &new) && !is_resized(&old, &old));
    let level = whole("u", json!({ "containers": [], "resources": { "requests": { "cpu": "1" } } }));
    assert!(is_resized(&whole("u", json!({ "containers": [] })), &level));
}

#[test]
fn what_is_given_back_is_in_use_until_it_is_done() {
    let mut shrunk = pod("u", "1");
    let cpu = |pod: &Pod| api_quantity(in_use(pod)["cpu"]).0;
    assert_eq!(cpu(&shrunk), "1");
    shrunk.status = serde_json::from_value(json!({ "containerStatuses": [{
        "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "resources": { "requests": { "cpu": "3" } }, "allocatedResources": { "cpu": "2" },
    }] }))
    .unwrap();
    assert_eq!(cpu(&shrunk), "3");
    let mut as_a_whole = whole("u", json!({ "resources": { "requests": { "cpu": "1" } }, "containers": [] }));
    assert_eq!(cpu(&as_a_whole), "1");
    as_a_whole.status = serde_json::from_value(json!({
        "resources": { "requests": { "cpu": "2", "memory": "9Gi" } }, "allocatedResources": { "cpu": "4", "memory": "9Gi" },
    }))
    .unwrap();
    assert_eq!(cpu(&as_a_whole), "4");
    assert!(!in_use(&as_a_whole).contains_key("memory"), "its containers ask for none");
}

#[test]
fn only_what_can_be_resized_has_more_than_it_is_allocated() {
    let status = |resources: Option<Value>| {
        json!({
            "name": "i", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "resources": resources, "allocatedResources": { "cpu": "4" },
        })
    };
    let told = Some(json!({ "requests": { "cpu": "3" } }));
    for (policy, resources, cpu) in
        [(Some("Always"), told.clone(), "5"), (Some("Always"), None, "2"), (None, told, "1")]
    {
        let container = |name: &str| json!({ "name": name, "resources": { "requests": { "cpu": "1" } } });
        let mut init = container("i");
        init["restartPolicy"] = policy.into();
        let mut pod = whole("u", json!({ "containers": [container("c")], "initContainers": [init] }));
        let statuses = json!({ "initContainerStatuses": [status(resources.clone())] });
        pod.status = serde_json::from_value(statuses).unwrap();
        assert_eq!(api_quantity(in_use(&pod)["cpu"]).0, cpu, "{policy:?} {resources:?}");
    }
}

#[test]
fn one_pod_asks_for_as_much_as_another_if_it_does_of_all() {
    let asking = |cpu: &str, memory: &str| {
        let requests = json!({ "cpu": cpu, "memory": memory });
        whole("u", json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] }))
    };
    for (cpu, memory, expected) in
        [("1", "1Gi", true), ("2", "1Gi", true), ("2", "2Gi", true), ("2", "1Mi", false), ("0", "1Gi", false)]
    {
        assert_eq!(asks_for_as_much(&asking(cpu, memory), &asking("1", "1Gi")), expected, "{cpu} {memory}");
    }
}

#[test]
fn events_say_what_upstreams_say() {
    let resources = |cpu: &str, memory: &str| json!({ "limits": { "cpu": cpu, "memory": memory }, "requests": { "cpu": cpu, "memory": memory } });
    let one = whole("u", json!({ "containers": [{ "name": "c0", "resources": resources("100m", "100") }] }));
    let error = "Node didn't have enough resource: memory";
    assert_eq!(
        messages::message("Pod resize Deferred", &one, Some(1), error),
        r#"Pod resize Deferred: {"containers":[{"name":"c0","resources":{"limits":{"cpu":"100m","memory":"100"},"requests":{"cpu":"100m","memory":"100"}}}],"generation":1,"error":"Node didn't have enough resource: memory"}"#
    );
    let several = whole(
        "u",
        json!({
            "initContainers": [{ "name": "c0", "resources": { "limits": { "cpu": "200m" }, "requests": { "cpu": "100m" } } }],
            "containers": [{ "name": "c1" }, { "name": "c2", "resources": { "limits": {}, "requests": { "cpu": "1" } } }],
        }),
    );
    assert_eq!(
        messages::message(messages::COMPLETED, &several, None, ""),
        r#"Pod resize completed: {"initContainers":[{"name":"c0","resources":{"limits":{"cpu":"200m"},"requests":{"cpu":"100m"}}}],"containers":[{"name":"c1","resources":{}},{"name":"c2","resources":{"requests":{"cpu":"1"}}}],"generation":0}"#
    );
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_pending_condition_is_new_with_its_reason_or_generation() {
    let mut conditions = Conditions::default();
    for (why, message, generation, second, is_new, since) in [
        (Pending::Deferred, "a", 1, 1, true, 1),
        (Pending::Deferred, "b", 1, 2, false, 1),
        (Pending::Deferred, "b", 2, 3, true, 1),
        (Pending::Infeasible, "c", 2, 4, true, 4),
    ] {
        let told = conditions.set_pending(why, message, Some(generation), at(second));
        assert_eq!(told, is_new, "{why:?} {message} {generation}");
        let pending = serde_json::to_value(conditions.pending.as_ref().unwrap()).unwrap();
        assert_eq!(
            pending,
            json!({
                "type": "PodResizePending", "status": "True", "reason": why.as_str(), "message": message,
                "observedGeneration": generation, "lastProbeTime": at(second), "lastTransitionTime": at(since),
            })
        );
    }
    assert_eq!(conditions.pending(), Some(Pending::Infeasible));
    let restored = Conditions::of(&conditions.list(), at(9));
    assert_eq!(restored.pending(), Some(Pending::Infeasible));
}

#[test]
fn a_resize_under_way_keeps_its_generation_and_how_it_failed() {
    let mut conditions = Conditions::default();
    let told = |conditions: &Conditions| {
        let told = conditions.in_progress.clone().unwrap();
        (told.reason.unwrap_or_default(), told.message.unwrap_or_default(), told.observed_generation)
    };
    conditions.set_pending(Pending::Deferred, "later", Some(2), at(1));
    conditions.allocated(Some(2), at(1));
    assert_eq!(
        (conditions.pending.is_none(), told(&conditions)),
        (true, (String::new(), String::new(), Some(2)))
    );
    assert_eq!(conditions.failed("no", Some(3), at(2)), Some(Some(2)));
    assert_eq!(conditions.failed("no", Some(3), at(3)), None, "that was told");
    conditions.goes_on(Some(3), at(4));
    assert_eq!(told(&conditions), ("Error".to_owned(), "no".to_owned(), Some(2)));
    assert_eq!(conditions.failed("not yet", Some(3), at(5)), Some(Some(2)));
    conditions.allocated(Some(4), at(6));
    assert_eq!(told(&conditions), (String::new(), String::new(), Some(4)));
}

#[test]
fn resizes_have_an_order() {
    let guaranteed = |cpu: &str| {
        let list = json!({ "cpu": cpu, "memory": "1Gi" });
        whole(
            "u",
            json!({ "containers": [{ "name": "c", "resources": { "limits": list, "requests": list } }] }),
        )
    };
    let with_priority = |mut pod: Pod, priority: i32| {
        pod.spec.as_mut().unwrap().priority = Some(priority);
        pod
    };
    let since = |second: i64| {
        let mut conditions = Conditions::default();
        conditions.set_pending(Pending::Deferred, "", None, at(second));
        conditions
    };
    let none = Conditions::default();
    let ranks = [
        order::rank(&pod("less", "1"), &pod("less", "2"), &none),
        order::rank(&with_priority(pod("prior", "2"), 1), &pod("prior", "1"), &none),
        order::rank(&guaranteed("2"), &guaranteed("1"), &none),
        order::rank(&pod("long", "2"), &pod("long", "1"), &since(1)),
        order::rank(&pod("short", "2"), &pod("short", "1"), &since(2)),
        order::rank(&pod("new", "2"), &pod("new", "1"), &none),
    ];
    assert!(ranks.is_sorted());
}
