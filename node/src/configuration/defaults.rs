//! Upstream's defaults.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::{Map, Value};
use steersman_api::Quantity;

use super::document::{get, remove};
use super::kubelet_configuration::KubeletConfiguration;
use super::sections::{
    Authentication, Authorization, CgroupDriver, CrashLoopBackOff, Enforcement, LoggingConfiguration,
};
use steersman_api::GoDuration;

/// The hard thresholds of a node whose configuration has none.
pub(super) const EVICTION_HARD: [(&str, &str); 5] = [
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
];

impl Default for KubeletConfiguration {
    fn default() -> Self {
        Self {
            static_pod_path: None,
            static_pod_url: None,
            static_pod_url_header: Default::default(),
            file_check_frequency: GoDuration::seconds(20),
            http_check_frequency: GoDuration::seconds(20),
            sync_frequency: GoDuration::seconds(60),
            enable_server: true,
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 10250,
            tls_cert_file: None,
            tls_private_key_file: None,
            tls_min_version: None,
            tls_cipher_suites: Vec::new(),
            authentication: Authentication::default(),
            authorization: Authorization::default(),
            enable_debugging_handlers: true,
            healthz_port: 10248,
            healthz_bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            register_node: true,
            register_with_taints: Vec::new(),
            provider_id: None,
            enable_controller_attach_detach: true,
            node_status_update_frequency: GoDuration::seconds(10),
            node_status_report_frequency: GoDuration::seconds(300),
            node_lease_duration_seconds: 40,
            node_status_max_images: 50,
            kube_api_qps: 50,
            kube_api_burst: 100,
            event_record_qps: 50,
            event_burst: 100,
            container_runtime_endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
            image_service_endpoint: None,
            runtime_request_timeout: GoDuration::seconds(120),
            registry_pull_qps: 5,
            registry_burst: 10,
            serialize_image_pulls: true,
            max_parallel_image_pulls: None,
            image_pull_credentials_verification_policy: "NeverVerifyPreloadedImages".to_owned(),
            preloaded_images_verification_allowlist: Vec::new(),
            max_pods: 110,
            pods_per_core: 0,
            pod_cidr: None,
            cluster_dns: Vec::new(),
            cluster_domain: None,
            resolv_conf: "/etc/resolv.conf".into(),
            seccomp_default: false,
            allowed_unsafe_sysctls: Vec::new(),
            crash_loop_back_off: CrashLoopBackOff::default(),
            single_process_oom_kill: None,
            pod_logs_dir: "/var/log/pods".into(),
            container_log_max_size: Quantity::bytes(10 << 20),
            container_log_max_files: 5,
            container_log_max_workers: 1,
            container_log_monitor_interval: GoDuration::seconds(10),
            cgroups_per_qos: true,
            cgroup_driver: CgroupDriver::default(),
            cgroup_root: None,
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: GoDuration(Duration::from_millis(100)),
            pod_pids_limit: -1,
            enforce_node_allocatable: vec![Enforcement::Pods],
            system_reserved: Default::default(),
            kube_reserved: Default::default(),
            system_reserved_cgroup: None,
            kube_reserved_cgroup: None,
            local_storage_capacity_isolation: true,
            fail_swap_on: true,
            fail_cgroup_v1: true,
            protect_kernel_defaults: false,
            make_iptables_util_chains: true,
            eviction_hard: owned(&EVICTION_HARD),
            eviction_soft: Default::default(),
            eviction_soft_grace_period: Default::default(),
            eviction_minimum_reclaim: Default::default(),
            eviction_pressure_transition_period: GoDuration::seconds(300),
            eviction_max_pod_grace_period: 0,
            merge_default_eviction_settings: false,
            max_open_files: 1_000_000,
            feature_gates: Default::default(),
            logging: LoggingConfiguration::default(),
        }
    }
}

fn owned(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Fields whose zero stands for the default: numbers and durations.
const ZERO_IS_DEFAULT: [&str; 20] = [
    "authentication.webhook.cacheTTL",
    "authorization.webhook.cacheAuthorizedTTL",
    "authorization.webhook.cacheUnauthorizedTTL",
    "eventBurst",
    "evictionPressureTransitionPeriod",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "kubeAPIBurst",
    "maxOpenFiles",
    "maxPods",
    "nodeLeaseDurationSeconds",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "port",
    "registryBurst",
    "runtimeRequestTimeout",
    "syncFrequency",
    // Of fields that are not supported.
    "cpuManagerReconcilePeriod",
    "imageMinimumGCAge",
    "volumeStatsAggPeriod",
];

/// Fields whose empty text means something else than their absence.
const EMPTY_IS_MEANT: [&str; 1] = ["resolvConf"];

/// Objects whose keys are not fields.
const MAPS: [&str; 12] = [
    "cpuManagerPolicyOptions",
    "evictionHard",
    "evictionMinimumReclaim",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "featureGates",
    "kubeReserved",
    "logging.options",
    "qosReserved",
    "staticPodURLHeader",
    "systemReserved",
    "topologyManagerPolicyOptions",
];

/// Adds the default hard thresholds to those of a document that asks for it.
pub(super) fn merge_eviction_hard(document: &mut Map<String, Value>) {
    if document.get("mergeDefaultEvictionSettings") == Some(&Value::Bool(true))
        && let Some(Value::Object(hard)) = document.get_mut("evictionHard")
    {
        for (signal, threshold) in EVICTION_HARD {
            hard.entry(signal).or_insert_with(|| threshold.into());
        }
    }
}

/// Takes out of a document what says no more than if it were absent, and says what follows from what it has not.
pub(super) fn normalize(document: &mut Map<String, Value>) {
    drop_empty(document, "");
    for path in ZERO_IS_DEFAULT {
        if get(document, path).is_some_and(is_zero) {
            remove(document, path);
        }
    }
    // Whoever sets the one before there was the other expects both to be that.
    if let (Some(update), None) =
        (document.get("nodeStatusUpdateFrequency").cloned(), document.get("nodeStatusReportFrequency"))
    {
        document.insert("nodeStatusReportFrequency".to_owned(), update);
    }
    let several = document.get("maxParallelImagePulls").and_then(Value::as_i64).is_some_and(|most| most > 1);
    if several && !document.contains_key("serializeImagePulls") {
        document.insert("serializeImagePulls".to_owned(), Value::Bool(false));
    }
    if document.get("podPidsLimit").and_then(Value::as_i64).is_some_and(|limit| limit < 0) {
        document.remove("podPidsLimit");
    }
}

/// Whether an empty text says something else than none.
pub(super) fn means_something_empty(path: &str) -> bool {
    EMPTY_IS_MEANT.contains(&path)
}

fn drop_empty(object: &mut Map<String, Value>, prefix: &str) {
    object.retain(|key, value| {
        let path = format!("{prefix}{key}");
        match value {
            Value::Null => false,
            Value::String(text) if text.is_empty() => means_something_empty(&path),
            Value::Object(inner) => {
                if !MAPS.contains(&path.as_str()) {
                    drop_empty(inner, &format!("{path}."));
                }
                true
            }
            _ => true,
        }
    });
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.parse() == Ok(GoDuration::default()),
        _ => false,
    }
}
