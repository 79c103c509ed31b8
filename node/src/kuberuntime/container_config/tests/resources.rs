//! Requests and limits as the runtime is told them.

use super::*;

/// The first container's resources and the sandbox's.
fn resources(pod: &Pod, node: &NodeFacts) -> (v1::LinuxContainerResources, v1::LinuxContainerResources) {
    (container_resources(pod, first(pod), node), sandbox_resources(pod, node))
}

fn pod_with(containers: Value, of_pod: Value) -> Pod {
    pod(json!({"containers": containers, "resources": of_pod}))
}

#[test]
fn requests_are_shares_and_limits_are_quotas_and_bytes() {
    let container = |resources: Value| json!([{"name": "app", "resources": resources}]);
    let both =
        json!({"requests": {"cpu": "1", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}});
    for (of_container, of_pod, shares, quota, memory_mib) in [
        (json!({}), Value::Null, 2, 0, 0),
        (both.clone(), Value::Null, 1024, 200_000, 256),
        (json!({"limits": {"cpu": "2"}}), Value::Null, 2048, 200_000, 0),
        (json!({"requests": {"cpu": "0"}, "limits": {"cpu": "2"}}), Value::Null, 2, 200_000, 0),
        (json!({"requests": {"cpu": "1m"}, "limits": {"cpu": "1m"}}), Value::Null, 2, 1000, 0),
        (json!({"requests": {"memory": "1Gi"}}), Value::Null, 2, 0, 0),
        // Limits that a container lacks are its pod's; requests are its own.
        (json!({}), both.clone(), 2048, 200_000, 256),
        (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), both.clone(), 1024, 100_000, 256),
        (json!({"limits": {"memory": "64Mi"}}), both.clone(), 2048, 200_000, 64),
    ] {
        let case = format!("{of_container} {of_pod}");
        let given = resources(&pod_with(container(of_container), of_pod), &node()).0;
        assert_eq!(given.cpu_shares, shares, "{case}");
        assert_eq!((given.cpu_quota, given.cpu_period), (quota, 100_000), "{case}");
        assert_eq!(given.memory_limit_in_bytes, memory_mib << 20, "{case}");
        assert_eq!(given.memory_swap_limit_in_bytes, 0, "{case}");
        assert!(given.unified.is_empty() && given.cpuset_cpus.is_empty(), "{case}");
    }
}

#[test]
fn quotas_are_of_the_period_that_is_set_or_not_at_all() {
    let limits = json!({"limits": {"cpu": "500m"}});
    let pod = pod_with(json!([{"name": "app", "resources": limits}]), Value::Null);
    let tuned = NodeFacts { cpu_cfs_quota_period: Duration::from_millis(5), ..node() };
    let off = NodeFacts { cpu_cfs_quota: false, ..node() };
    let quota = |node: &NodeFacts| {
        let (container, sandbox) = resources(&pod, node);
        assert_eq!((sandbox.cpu_quota, sandbox.cpu_period), (container.cpu_quota, container.cpu_period));
        (container.cpu_quota, container.cpu_period)
    };
    assert_eq!(quota(&node()), (50_000, 100_000));
    assert_eq!(quota(&tuned), (2500, 5000));
    assert_eq!(quota(&off), (0, 0));
}

#[test]
fn no_container_swaps_and_on_version_two_all_of_it_dies_together() {
    let limits = json!({"limits": {"memory": "1Ki"}});
    let pod = pod_with(json!([{"name": "app", "resources": limits}]), Value::Null);
    let (v1, v2) = (CgroupVersion::V1, CgroupVersion::V2);
    for (cgroup_version, swap_controller, single_process_oom_kill, swap, unified) in [
        (v1, false, true, 0, &[][..]),
        (v1, true, false, 1024, &[]),
        (v2, false, true, 0, &[]),
        (v2, true, true, 0, &[("memory.swap.max", "0")]),
        (v2, true, false, 0, &[("memory.oom.group", "1"), ("memory.swap.max", "0")]),
        (v2, false, false, 0, &[("memory.oom.group", "1")]),
    ] {
        let node = NodeFacts { cgroup_version, swap_controller, single_process_oom_kill, ..node() };
        let given = resources(&pod, &node).0;
        assert_eq!(given.memory_swap_limit_in_bytes, swap, "{node:?}");
        let given: Vec<(&str, &str)> =
            given.unified.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(given, unified, "{node:?}");
    }
}

#[test]
fn each_size_of_huge_pages_is_limited() {
    let node = NodeFacts { huge_page_sizes: vec!["1GB".to_owned(), "2MB".to_owned()], ..node() };
    let list = |amounts: Value| json!({"limits": amounts});
    for (of_container, of_pod, limits) in [
        (json!({}), Value::Null, [0, 0]),
        (list(json!({"hugepages-2Mi": "4Mi"})), Value::Null, [0, 4 << 20]),
        (list(json!({"hugepages-2048Ki": "4Mi"})), Value::Null, [0, 4 << 20]),
        (list(json!({"hugepages-64Ki": "64Ki"})), Value::Null, [0, 0]),
        (list(json!({"hugepages-1Gi": "1Gi"})), list(json!({"hugepages-2Mi": "6Mi"})), [1 << 30, 6 << 20]),
        (list(json!({"hugepages-2Mi": "2Mi"})), list(json!({"hugepages-2Mi": "6Mi"})), [0, 2 << 20]),
    ] {
        let case = format!("{of_container} {of_pod}");
        let pod = pod_with(json!([{"name": "app", "resources": of_container}]), of_pod);
        let given = resources(&pod, &node).0.hugepage_limits;
        let given: Vec<_> = given.iter().map(|limit| (limit.page_size.as_str(), limit.limit)).collect();
        assert_eq!(given, [("1GB", limits[0]), ("2MB", limits[1])], "{case}");
    }
}

#[test]
fn a_sandbox_is_told_the_sum_and_the_overhead() {
    let container = |cpu: &str, memory: &str| {
        let list = json!({"cpu": cpu, "memory": memory});
        json!({"name": "c", "resources": {"requests": list, "limits": list}})
    };
    let overhead = json!({"cpu": "250m", "memory": "1Ki"});
    let containers = json!([container("1", "1Ki"), container("500m", "2Ki")]);
    let pod = pod(json!({"containers": containers, "overhead": overhead}));
    let sum = |shares, quota, memory| v1::LinuxContainerResources {
        cpu_shares: shares,
        cpu_quota: quota,
        cpu_period: 100_000,
        memory_limit_in_bytes: memory,
        ..v1::LinuxContainerResources::default()
    };
    assert_eq!(sandbox_resources(&pod, &node()), sum(1536, 150_000, 3072));
    assert_eq!(sandbox_overhead(&pod, &node()), sum(256, 25_000, 1024));
    let none = super::pod(json!({"containers": []}));
    assert_eq!(sandbox_overhead(&none, &node()), v1::LinuxContainerResources::default());
}

#[test]
fn who_uses_more_than_asked_for_is_killed_first() {
    let container = |memory: &str| json!({"name": "app", "resources": {"requests": {"memory": memory}}});
    let limited = |cpu: &str, memory: &str| {
        let list = json!({"cpu": cpu, "memory": memory});
        json!({"name": "app", "resources": {"requests": list, "limits": list}})
    };
    let sidecar = |memory: &str| {
        let mut sidecar = container(memory);
        sidecar["name"] = json!("side");
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    };
    // The node has 8 GB.
    for (spec, score) in [
        (json!({"containers": [{"name": "app"}]}), 1000),
        (json!({"containers": [limited("1", "1G")]}), -997),
        (json!({"containers": [container("1")]}), 999),
        (json!({"containers": [container("800M")]}), 900),
        (json!({"containers": [container("7G")]}), 125),
        (json!({"containers": [container("8G")]}), 3),
        (json!({"containers": [container("80G")]}), 3),
        (json!({"containers": [{"name": "app"}, container("1G")]}), 999),
        // Of the 2 GB of the pod as a whole that no container asks for, each has 1 GB.
        (
            json!({"containers": [container("1G"), container("1G")], "resources": {"requests": {"memory": "4G"}}}),
            750,
        ),
        (json!({"containers": [container("1G")], "resources": {"requests": {"cpu": "1"}}}), 875),
        (json!({"containers": [container("1G")], "priorityClassName": "system-node-critical"}), 875),
        (
            json!({
                "containers": [{"name": "app"}], "priority": 2_000_001_000, "priorityClassName": "system-node-critical",
            }),
            -997,
        ),
        (
            json!({
                "containers": [container("1G")], "priority": 2_000_000_000,
                "priorityClassName": "system-cluster-critical",
            }),
            875,
        ),
    ] {
        let pod = pod(spec);
        let given = container_resources(&pod, first(&pod), &node());
        assert_eq!(given.oom_score_adj, score, "{:?}", pod.spec);
    }
    for (memory, of_others, score) in [("800M", "1600M", 800), ("1600M", "800M", 800), ("0", "0", 999)] {
        let containers = json!([container(of_others), container("4G")]);
        let pod = pod(json!({"containers": containers, "initContainers": [sidecar(memory)]}));
        let side = &pod.spec.as_ref().unwrap().init_containers.as_ref().unwrap()[0];
        assert_eq!(container_resources(&pod, side, &node()).oom_score_adj, score, "{memory}");
    }
}
