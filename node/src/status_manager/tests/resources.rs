//! What is told of the resources of containers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use serde_json::{Value, json};

use super::read;
use crate::container::ContainerResources;
use crate::status_manager::resources::resources;
use crate::status_manager::statuses::{ObservedContainer, ObservedState};

fn observed(state: ObservedState, given: Option<ContainerResources>) -> ObservedContainer {
    ObservedContainer {
        name: "a".to_owned(),
        id: "containerd://1".to_owned(),
        state,
        image: String::new(),
        image_ref: String::new(),
        restart_count: 0,
        created_at: Timestamp::UNIX_EPOCH,
        resources: given,
        user: None,
    }
}

fn runs() -> ObservedState {
    ObservedState::Running { started_at: Timestamp::UNIX_EPOCH }
}

/// Requests and limits of both.
fn both(cpu: &str, memory: &str) -> Value {
    let list = json!({ "cpu": cpu, "memory": memory });
    json!({ "limits": list, "requests": list })
}

fn given(milli: i64, memory: i64) -> Option<ContainerResources> {
    Some(ContainerResources {
        cpu_request_milli: Some(milli),
        cpu_limit_milli: Some(milli),
        memory_request: Some(memory),
        memory_limit: Some(memory),
    })
}

fn told(
    allocated: &Value,
    state: ObservedState,
    given: Option<ContainerResources>,
    old: Option<&ContainerStatus>,
) -> Value {
    let container: Container = read(json!({ "name": "a", "resources": allocated }));
    serde_json::to_value(resources(&container, &observed(state, given), old)).unwrap()
}

#[test]
fn a_running_container_has_what_it_was_given() {
    const MI: i64 = 1 << 20;
    for (allocated, given, expected) in [
        (both("1", "1Gi"), given(1000, 1024 * MI), both("1", "1Gi")),
        (both("1", "1Gi"), given(500, 512 * MI), both("500m", "512Mi")),
        (both("1", "1Gi"), None, both("1", "1Gi")),
        (json!({}), given(500, MI), json!({})),
        (
            json!({ "requests": { "cpu": "100m", "memory": "100M" } }),
            given(100, 100_000_000),
            json!({ "requests": { "cpu": "100m", "memory": "100M" } }),
        ),
        // What control groups can't tell apart is told as allocated, on both sides of the bound.
        (
            json!({ "requests": { "cpu": "1m" } }),
            given(2, MI),
            json!({ "requests": { "cpu": "1m", "memory": "1Mi" } }),
        ),
        (
            json!({ "requests": { "cpu": "3m" } }),
            given(2, MI),
            json!({ "requests": { "cpu": "2m", "memory": "1Mi" } }),
        ),
        (
            json!({ "limits": { "cpu": "5m" } }),
            given(10, MI),
            json!({ "limits": { "cpu": "5m", "memory": "1Mi" } }),
        ),
        (
            json!({ "limits": { "cpu": "11m" } }),
            given(10, MI),
            json!({ "limits": { "cpu": "10m", "memory": "1Mi" } }),
        ),
    ] {
        assert_eq!(told(&allocated, runs(), given, None), expected, "{allocated} {given:?}");
    }
}

#[test]
fn what_the_runtime_does_not_tell_stays_as_it_was_told_of_the_same_container() {
    let old = |id: &str, state: Value| -> ContainerStatus {
        read(json!({
            "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0, "containerID": id,
            "state": state, "resources": both("500m", "512Mi"),
        }))
    };
    let allocated = both("1", "1Gi");
    let same = old("containerd://1", json!({ "running": {} }));
    assert_eq!(told(&allocated, runs(), None, Some(&same)), both("500m", "512Mi"));
    let half = ContainerResources { cpu_limit_milli: Some(1000), ..ContainerResources::default() };
    let mut expected = both("500m", "512Mi");
    expected["limits"]["cpu"] = json!("1");
    assert_eq!(told(&allocated, runs(), Some(half), Some(&same)), expected);
    for other in
        [old("containerd://0", json!({ "running": {} })), old("containerd://1", json!({ "waiting": {} }))]
    {
        assert_eq!(told(&allocated, runs(), None, Some(&other)), allocated);
    }
    let ended = ObservedState::Unknown;
    assert_eq!(
        told(&allocated, ended, given(1, 1), Some(&same)),
        allocated,
        "it will have it when it starts"
    );
}

#[test]
fn a_resized_container_tells_the_request_for_memory_that_it_was_given() {
    const MI: i64 = 1 << 20;
    let list = |memory: &str| json!({ "requests": { "cpu": "100m", "memory": memory } });
    let before: ContainerStatus = read(json!({
        "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": "containerd://1", "state": { "running": {} }, "resources": list("35Mi"),
    }));
    for (allocated, given, expected) in [
        // Given what it was allocated.
        ("40Mi", given(100, 40 * MI), "40Mi"),
        ("40000k", given(100, 40_000_000), "40000k"),
        // Allocated, not yet given.
        ("40Mi", given(100, 35 * MI), "35Mi"),
        // Nobody knows what it was given.
        ("40Mi", None, "35Mi"),
    ] {
        let told = told(&list(allocated), runs(), given, Some(&before));
        assert_eq!(told, list(expected), "{allocated} {given:?}");
    }
}
