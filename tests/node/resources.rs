//! What containers get of the machine.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::cgroups::{TOP, version_2};
use crate::pods::{Pods, container, staying};
use support::eventually;

/// A file of a control group: of version 1 in the hierarchy of a controller, else of version 2.
struct File {
    controller: &'static str,
    v1: &'static str,
    v2: &'static str,
}

const SHARES: File = File { controller: "cpu", v1: "cpu.shares", v2: "cpu.weight" };
const QUOTA: File = File { controller: "cpu", v1: "cpu.cfs_quota_us", v2: "cpu.max" };
const MEMORY: File = File { controller: "memory", v1: "memory.limit_in_bytes", v2: "memory.max" };

impl File {
    fn read(&self, group: &str) -> String {
        let mut path = PathBuf::from(TOP);
        if !version_2() {
            path.push(self.controller);
        }
        path.push(group);
        path.push(if version_2() { self.v2 } else { self.v1 });
        let text = std::fs::read_to_string(&path);
        text.unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
    }
}

pub async fn requests_and_limits_are_in_control_groups_by_class(pods: Pods) {
    let with =
        |resources| json!({ "containers": [{ "command": staying()["command"], "resources": resources }] });
    let little = json!({ "cpu": "100m", "memory": "32Mi" });
    pods.run("guaranteed", with(json!({ "requests": little, "limits": little }))).await;
    let burstable = json!({ "requests": { "cpu": "50m" }, "limits": { "memory": "64Mi" } });
    pods.run("burstable", with(burstable)).await;
    pods.run("best-effort", with(json!({}))).await;

    let guaranteed = pods.ready("guaranteed").await;
    for group in
        [pods.world.cgroups.of_container("", &guaranteed), pods.world.cgroups.of_pod("", &guaranteed)]
    {
        assert_eq!(MEMORY.read(&group), (32 << 20).to_string());
        if version_2() {
            assert_eq!(QUOTA.read(&group), "10000 100000");
        } else {
            assert_eq!(QUOTA.read(&group), "10000");
            assert_eq!(SHARES.read(&group), "102");
        }
    }
    let burstable = pods.ready("burstable").await;
    let group = pods.world.cgroups.of_container("burstable", &burstable);
    assert_eq!(MEMORY.read(&group), (64 << 20).to_string());
    assert!(["-1", "max 100000"].contains(&&*QUOTA.read(&group)));
    if !version_2() {
        assert_eq!(SHARES.read(&group), "51");
    }
    let best_effort = pods.ready("best-effort").await;
    let group = pods.world.cgroups.of_container("besteffort", &best_effort);
    let shares = SHARES.read(&group);
    assert_eq!(shares, if version_2() { "1" } else { "2" });
    assert_eq!(guaranteed.status.unwrap().qos_class.as_deref(), Some("Guaranteed"));

    pods.delete("best-effort").await;
    pods.gone("best-effort").await;
    let group = pods.world.cgroups.of_pod("besteffort", &best_effort);
    assert!(!Path::new("/sys/fs/cgroup/cpu").join(&group).exists(), "{group} is left");
    assert!(!Path::new(TOP).join(&group).exists(), "{group} is left");
}

pub async fn a_running_containers_resources_change_in_place(pods: Pods) {
    let resources = |cpu: &str, memory: &str| {
        let amounts = json!({ "cpu": cpu, "memory": memory });
        json!({ "requests": amounts, "limits": amounts })
    };
    let main = json!({ "command": staying()["command"], "resources": resources("100m", "32Mi") });
    pods.run("grows", json!({ "containers": [main] })).await;
    let before = pods.ready("grows").await;
    let change =
        json!({ "spec": { "containers": [{ "name": "main", "resources": resources("200m", "64Mi") }] } });
    pods.kubectl_ok(&["patch", "pod", "grows", "--subresource", "resize", "--patch", &change.to_string()])
        .await;

    let quota = if version_2() { "20000 100000" } else { "20000" };
    for group in [pods.world.cgroups.of_container("", &before), pods.world.cgroups.of_pod("", &before)] {
        eventually(&format!("{group} has grown"), || async {
            let is = (QUOTA.read(&group), MEMORY.read(&group));
            (is == (quota.to_owned(), (64 << 20).to_string())).then_some(())
        })
        .await;
    }
    let id = |pod: &Pod| container(pod, "main").unwrap().container_id;
    let after = pods
        .wait("grows", "its status tells so", |pod| {
            let given = container(pod, "main")?.resources?.limits?;
            (given["cpu"].0 == "200m" && given["memory"].0 == "64Mi").then(|| pod.clone())
        })
        .await;
    assert_eq!(id(&after), id(&before));
    assert_eq!(container(&after, "main").unwrap().restart_count, 0);
    assert!(container(&after, "main").unwrap().ready);
}

pub async fn a_pod_as_a_whole_has_and_tells_its_resources(pods: Pods) {
    let whole = |cpu: &str, memory: &str| {
        let amounts = json!({ "cpu": cpu, "memory": memory });
        json!({ "requests": amounts, "limits": amounts })
    };
    let told = async |what: &str, resources: serde_json::Value| {
        pods.wait("whole", what, |pod| {
            let status = pod.status.as_ref()?;
            let told = (json!(status.resources), json!(status.allocated_resources));
            (told == (resources.clone(), resources["requests"].clone())).then(|| pod.clone())
        })
        .await
    };
    pods.run("whole", json!({ "resources": whole("200m", "64Mi"), "containers": [staying()] })).await;
    pods.ready("whole").await;
    let before = told("it tells what it has", whole("200m", "64Mi")).await;
    let limits = |cpu: &str, memory: i64| {
        let quota = if version_2() { format!("{cpu} 100000") } else { cpu.to_owned() };
        (quota, memory.to_string())
    };
    let group = pods.world.cgroups.of_pod("", &before);
    assert_eq!((QUOTA.read(&group), MEMORY.read(&group)), limits("20000", 64 << 20));
    let change = json!({ "spec": { "resources": whole("300m", "96Mi") } });
    pods.kubectl_ok(&["patch", "pod", "whole", "--subresource", "resize", "--patch", &change.to_string()])
        .await;
    let after = told("it tells that it has grown", whole("300m", "96Mi")).await;
    assert_eq!((QUOTA.read(&group), MEMORY.read(&group)), limits("30000", 96 << 20));
    let id = |pod: &Pod| container(pod, "main").unwrap().container_id;
    assert_eq!(id(&after), id(&before));
}
