//! The node's own port, and what the node says of itself.

use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

use crate::pods::{Pods, staying};
use support::eventually;

/// The status of an answer.
fn status(method: &str, url: &str, further: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "-X", method, url])
        .args(further)
        .output()
        .expect("curl must start");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub async fn a_command_without_credentials_is_refused(pods: Pods) {
    pods.run("works", json!({ "containers": [staying()] })).await;
    let address = pods.ready("works").await.status.unwrap().host_ip.unwrap();
    let base = format!("https://{address}:{}", pods.world.agent.port);
    let exec = format!("{base}/exec/{}/works/main?command=id&output=1", pods.namespace);
    assert_eq!(status("POST", &exec, &[]), "401");
    assert_eq!(status("POST", &exec, &["-H", "Authorization: Bearer nobody"]), "401");
    assert_eq!(status("GET", &format!("{base}/pods"), &[]), "401");
    assert_eq!(status("GET", &format!("{base}/containerLogs/{}/works/main", pods.namespace), &[]), "401");
    // A node is somebody, but may not look into others, nor into itself.
    let own = pods.world.server.folder();
    let (certificate, key) = (own.join("node.crt"), own.join("node.key"));
    let node = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(status("POST", &exec, &node), "403");
    let (certificate, key) = (own.join("toward-nodes.crt"), own.join("toward-nodes.key"));
    let api_server = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(status("GET", &format!("{base}/pods"), &api_server), "200");
    assert_eq!(status("GET", &format!("{base}/metrics"), &api_server), "200");
}

pub async fn the_node_is_ready_and_holds_its_lease(pods: Pods) {
    let node = pods.world.node().await;
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels.get("test.steersman.dev/here").map(String::as_str), Some("yes"));
    let status = node.status.unwrap();
    let capacity = status.capacity.unwrap();
    let processors = std::thread::available_parallelism().unwrap();
    assert_eq!(capacity["cpu"].0, processors.to_string());
    assert_eq!(
        status.daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port,
        i32::from(pods.world.agent.port)
    );
    assert!(status.node_info.unwrap().container_runtime_version.starts_with("containerd://"));
    let images = status.images.unwrap();
    assert!(
        images.iter().flat_map(|image| image.names.iter().flatten()).any(|name| name.contains("busybox"))
    );
    let declared = status.declared_features.unwrap();
    assert!(declared.contains(&"RestartAllContainersOnContainerExits".to_owned()), "{declared:?}");
    let leases = Api::<Lease>::namespaced(pods.world.client("default"), "kube-node-lease");
    let lease = eventually("the lease is there", || async {
        leases.get_opt(&pods.world.agent.node).await.expect("the API server must answer")
    })
    .await;
    assert_eq!(lease.spec.unwrap().holder_identity, Some(pods.world.agent.node.clone()));
}

pub async fn the_nodes_certificate_opens_what_its_pods_use_and_no_more(pods: Pods) {
    for name in ["used", "unused"] {
        pods.make::<Secret>(json!({ "metadata": { "name": name }, "stringData": { "word": name } })).await;
    }
    let from =
        json!([{ "name": "WORD", "valueFrom": { "secretKeyRef": { "name": "used", "key": "word" } } }]);
    let mut main = staying();
    main["env"] = from;
    pods.run("uses", json!({ "containers": [main] })).await;
    pods.ready("uses").await;
    assert_eq!(pods.exec("uses", "echo $WORD").await, "used\n");

    let kubeconfig = pods.world.agent.kubeconfig();
    let as_node = async |arguments: &[&str]| {
        let kubeconfig = kubeconfig.to_str().expect("the path of a temporary folder is text");
        let output = pods.kubectl(&[&["--kubeconfig", kubeconfig], arguments].concat(), "").await;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    assert_eq!(as_node(&["get", "secret", "used", "-o", "jsonpath={.metadata.name}"]).await.unwrap(), "used");
    let refused = as_node(&["get", "secret", "unused"]).await.unwrap_err();
    assert!(refused.contains("no relationship found between node"), "{refused}");
    let other = as_node(&["annotate", "node", "another", "a=b"]).await.unwrap_err();
    assert!(other.contains("Forbidden"), "{other}");
}

pub async fn a_reserved_group_that_is_missing_ends_the_start(pods: Pods) {
    let said = pods
        .world
        .agent
        .refused(&[
            ("kubeReserved", json!({ "memory": "1Gi" })),
            ("kubeReservedCgroup", json!("/steersman-test-none")),
            ("enforceNodeAllocatable", json!(["pods", "kube-reserved"])),
        ])
        .await;
    let errors: Vec<_> = said.lines().filter(|line| line.contains("steersman-test-none")).collect();
    let expected = "Failed to enforce Kube Reserved Cgroup Limits on";
    assert!(errors.len() == 1 && errors[0].contains(expected), "{said}");
}

/// What the dashboards and alerts of kubernetes-mixin ask kubelets for, and what each node measures besides.
const METRICS: &str = "kubelet_node_name kubelet_running_pods kubelet_running_containers volume_manager_total_volumes \
    kubelet_runtime_operations_total kubelet_runtime_operations_duration_seconds_bucket \
    kubelet_pod_start_duration_seconds_count kubelet_pod_start_sli_duration_seconds_count \
    kubelet_pod_start_total_duration_seconds_count kubelet_first_network_pod_start_sli_duration_seconds \
    kubelet_pod_worker_duration_seconds_count kubelet_pod_worker_start_duration_seconds_count \
    kubelet_pleg_relist_duration_seconds_count kubelet_pleg_relist_interval_seconds_bucket \
    kubelet_pleg_last_seen_seconds kubelet_cgroup_manager_duration_seconds_count \
    storage_operation_duration_seconds_count kubelet_started_pods_total kubelet_started_containers_total \
    kubelet_run_podsandbox_duration_seconds_count kubelet_desired_pods kubelet_active_pods kubelet_working_pods \
    kubelet_runtime_operations_errors_total kubelet_containers_per_pod_count_bucket kubelet_orphan_pod_cleaned_volumes kubelet_pod_status_sync_duration_seconds_count \
    rest_client_requests_total process_resident_memory_bytes process_cpu_seconds_total kubernetes_build_info";

/// What probes count, by themselves.
const PROBE_METRICS: &str = "prober_probe_total prober_probe_duration_seconds_count";

/// What upstream serves as stable beside them.
const RESOURCE_METRICS: &str = "node_cpu_usage_seconds_total node_memory_working_set_bytes \
    container_cpu_usage_seconds_total container_memory_working_set_bytes container_start_time_seconds \
    pod_cpu_usage_seconds_total pod_memory_working_set_bytes resource_scrape_error";

pub async fn the_metrics_that_dashboards_rely_on_are_served(pods: Pods) {
    let mut main = staying();
    main["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    main["readinessProbe"] = json!({ "exec": { "command": ["true"] }, "periodSeconds": 1 });
    let volumes = json!([{ "name": "data", "emptyDir": {} }]);
    // Nobody listens on the first port of the loopback: the runtime fails.
    let absent = json!({ "image": "127.0.0.1:1/none:1", "imagePullPolicy": "IfNotPresent" });
    pods.run("fails", json!({ "containers": [absent] })).await;
    pods.run("measured", json!({ "containers": [main], "volumes": volumes })).await;
    let address = pods.ready("measured").await.status.unwrap().host_ip.unwrap();
    let folder = pods.world.server.folder();
    let get = |path: &str| {
        let output = Command::new("curl")
            .args(["-sk", "--max-time", "20", &format!("https://{address}:{}/{path}", pods.world.agent.port)])
            .arg("--cert")
            .arg(folder.join("toward-nodes.crt"))
            .arg("--key")
            .arg(folder.join("toward-nodes.key"))
            .output()
            .expect("curl must start");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let families =
        [("metrics", METRICS), ("metrics/resource", RESOURCE_METRICS), ("metrics/probes", PROBE_METRICS)];
    for (path, names) in families {
        for name in names.split_whitespace() {
            eventually(&format!("{name} is served"), || async {
                get(path).lines().any(|line| line.split(['{', ' ']).next() == Some(name)).then_some(())
            })
            .await;
        }
    }
    let labels = format!("{{container=\"main\",pod=\"measured\",namespace=\"{}\"}} ", pods.namespace);
    let used = get("metrics/resource");
    assert!(used.contains(&format!("container_memory_working_set_bytes{labels}")), "{used}");
    assert!(used.contains("\nresource_scrape_error 0\n"), "{used}");
}
