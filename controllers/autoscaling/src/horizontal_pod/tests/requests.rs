//! What pods request.

use serde_json::{Value, json};

use super::super::pods::Pod;
use super::super::requests::requests;
use super::scenes::{demand, pod};

fn requested(spec: Value, container: &str, resource: &str, counts_pod_level: bool) -> Result<i64, String> {
    let pods = [Pod { demand: demand(spec), ..pod("p") }];
    requests(&pods, container, resource, counts_pod_level).map(|requests| requests["p"])
}

fn container(name: &str, cpu: Option<&str>) -> Value {
    json!({"name": name, "resources": {"requests": cpu.map(|cpu| json!({"cpu": cpu}))}})
}

fn sidecar(name: &str, cpu: Option<&str>) -> Value {
    let mut sidecar = container(name, cpu);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

#[test]
fn requests_are_those_of_the_containers_that_run_together() {
    let two = json!([container("a", Some("100m")), container("b", Some("50m"))]);
    let init = json!([sidecar("s", Some("10m")), container("i", Some("9"))]);
    let plain = json!({"containers": two});
    let with_init = json!({"containers": two, "initContainers": init});
    for (spec, container, expected) in [
        (&plain, "", 150),
        (&plain, "b", 50),
        (&with_init, "", 160),
        (&with_init, "s", 10),
        (&with_init, "a", 100),
    ] {
        assert_eq!(requested(spec.clone(), container, "cpu", true), Ok(expected), "{container} of {spec}");
    }
    let lacks = json!({"containers": [container("a", Some("1")), container("b", None)]});
    let missing = "missing request for cpu in container b of Pod p";
    assert_eq!(requested(lacks.clone(), "", "cpu", true), Err(missing.to_owned()));
    assert_eq!(requested(lacks.clone(), "b", "cpu", true), Err(missing.to_owned()));
    assert_eq!(requested(lacks.clone(), "a", "cpu", true), Ok(1000));
    assert_eq!(requested(with_init, "i", "cpu", true), Err("container i not found in Pod p".to_owned()));
    assert_eq!(
        requested(plain, "", "memory", true),
        Err("missing request for memory in container a of Pod p".to_owned())
    );
}

#[test]
fn requests_of_the_whole_pod_come_first() {
    let whole = |requests: Value| {
        json!({
            "containers": [container("a", Some("100m")), container("b", None)],
            "initContainers": [container("i", Some("700m")), sidecar("s", Some("50m"))],
            "resources": {"requests": requests}, "overhead": {"cpu": "5m"},
        })
    };
    assert_eq!(requested(whole(json!({"cpu": "1"})), "", "cpu", true), Ok(1005));
    // The containers tell what the pod as a whole does not.
    assert_eq!(requested(whole(json!({"memory": "1Gi"})), "", "cpu", true), Ok(705));
    assert_eq!(
        requested(whole(json!({"cpu": "1"})), "", "memory", true),
        Err("missing pod-level request for memory in Pod p".to_owned())
    );
    assert_eq!(requested(whole(json!({"cpu": "1"})), "a", "cpu", true), Ok(100));
    let missing = "missing request for cpu in container b of Pod p";
    assert_eq!(requested(whole(json!({"cpu": "1"})), "", "cpu", false), Err(missing.to_owned()));
    assert_eq!(requested(whole(json!({"example.com/x": "1"})), "", "cpu", true), Err(missing.to_owned()));
}
