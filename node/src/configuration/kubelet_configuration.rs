//! The settings themselves.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};
use steersman_api::Quantity;

use super::sections::{
    Authentication, Authorization, CgroupDriver, CrashLoopBackOff, Enforcement, LoggingConfiguration,
    TlsMinVersion,
};
use steersman_api::GoDuration;

/// `KubeletConfiguration` of `kubelet.config.k8s.io/v1beta1`: what an agent is told that may hold for many nodes alike.
///
/// Fields of upstream's that are not here are not supported (`unsupported.rs` lists them). Defaults are upstream's, and hold for
/// fields that are absent, `null` or, where zero would mean nothing, zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletConfiguration {
    // Where pods come from.
    /// Manifests of static pods: a folder, or one file. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_pod_path: Option<PathBuf>,
    /// Where manifests of static pods are fetched. Default: none.
    #[serde(rename = "staticPodURL", skip_serializing_if = "Option::is_none")]
    pub static_pod_url: Option<String>,
    /// Headers to send there, which may be secret; a name may have several values. Default: none.
    #[serde(rename = "staticPodURLHeader")]
    pub static_pod_url_header: BTreeMap<String, Vec<String>>,
    /// How often the files are looked through, besides what the file system tells. Default: 20 seconds.
    pub file_check_frequency: GoDuration,
    /// How often the URL is asked. Default: 20 seconds.
    #[serde(rename = "httpCheckFrequency")]
    pub http_check_frequency: GoDuration,
    /// How long a pod may go without being looked at, when nothing happens to it. Default: 1 minute.
    pub sync_frequency: GoDuration,

    // The node's server.
    /// Whether there is one. Default: true.
    pub enable_server: bool,
    /// The address it listens at. Default: 0.0.0.0, all of IPv4.
    pub address: IpAddr,
    /// The port it listens at. Default: 10250.
    pub port: u16,
    /// PEM file of its certificate and those between it and its authority. Default: none, and the server makes its own
    /// in the folder of certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert_file: Option<PathBuf>,
    /// PEM file of that certificate's key. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_private_key_file: Option<PathBuf>,
    /// The oldest version of TLS that clients may speak. Default: not set, which is 1.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_min_version: Option<TlsMinVersion>,
    /// The cipher suites it speaks with clients of TLS 1.2. Default: none are named, which means all that are good.
    pub tls_cipher_suites: Vec<String>,
    /// Who is there.
    pub authentication: Authentication,
    /// Who may do what.
    pub authorization: Authorization,
    /// Whether it gives logs, runs commands, attaches and forwards ports. Default: true.
    pub enable_debugging_handlers: bool,
    /// The port of plain `/healthz`; 0 for none. Default: 10248.
    pub healthz_port: u16,
    /// The address for that. Default: 127.0.0.1.
    pub healthz_bind_address: IpAddr,

    // The API server.
    /// Whether the node registers itself. Default: true.
    pub register_node: bool,
    /// Taints the node registers with; they change nothing for one that is registered. Default: none.
    pub register_with_taints: Vec<Taint>,
    /// What a cloud calls this machine (`spec.providerID`). Default: none.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Whether a controller attaches volumes to this node (an annotation of the node asks for that). Default: true.
    pub enable_controller_attach_detach: bool,
    /// How often the node's status is worked out. Default: 10 seconds.
    pub node_status_update_frequency: GoDuration,
    /// How often it is written although nothing changed. Default: 5 minutes, or `nodeStatusUpdateFrequency` where a file
    /// sets that.
    pub node_status_report_frequency: GoDuration,
    /// How long the node's lease holds, in seconds; at least 1. Default: 40.
    pub node_lease_duration_seconds: i32,
    /// How many images the node's status tells; -1 for all. Default: 50.
    pub node_status_max_images: i32,
    /// Requests a second to the API server, but for events and leases; 0 means upstream's 50. Default: 50.
    #[serde(rename = "kubeAPIQPS")]
    pub kube_api_qps: u32,
    /// Requests to the API server at once after a quiet time. Default: 100.
    #[serde(rename = "kubeAPIBurst")]
    pub kube_api_burst: u32,
    /// Events a second; 0 for no limit. Default: 50.
    #[serde(rename = "eventRecordQPS")]
    pub event_record_qps: u32,
    /// Events at once after a quiet time. Default: 100.
    pub event_burst: u32,

    // The runtime and its images.
    /// The runtime's socket. Default: `unix:///run/containerd/containerd.sock`.
    pub container_runtime_endpoint: String,
    /// The socket for images. Default: the runtime's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_service_endpoint: Option<String>,
    /// How long the runtime may take for an ordinary call. Default: 2 minutes.
    pub runtime_request_timeout: GoDuration,
    /// Pulls a second; 0 for no limit. Default: 5.
    #[serde(rename = "registryPullQPS")]
    pub registry_pull_qps: u32,
    /// Pulls at once after a quiet time. Default: 10.
    pub registry_burst: u32,
    /// Whether images are pulled one at a time. Default: true, or false where `maxParallelImagePulls` is above 1.
    pub serialize_image_pulls: bool,
    /// How many images are pulled at a time; at least 1. Default: any number, unless they are pulled one at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_image_pulls: Option<u32>,
    /// Whose images a pod may use that are there already and that it did not pull: `NeverVerify` all,
    /// `NeverVerifyPreloadedImages` those that were not pulled for pods, `NeverVerifyAllowlistedImages` of these the ones
    /// on the list, `AlwaysVerify` none. Default: `NeverVerifyPreloadedImages`.
    pub image_pull_credentials_verification_policy: String,
    /// That list: repositories, or `host/path/*`. Default: none.
    pub preloaded_images_verification_allowlist: Vec<String>,

    // Pods and containers.
    /// How many pods the node takes; pods of all kinds count. Default: 110.
    pub max_pods: u32,
    /// How many pods it takes for each processor, within `maxPods`; 0 for no such limit. Default: 0.
    pub pods_per_core: u32,
    /// The addresses of pods, for a node without API server. Default: none, the runtime's own.
    #[serde(rename = "podCIDR", skip_serializing_if = "Option::is_none")]
    pub pod_cidr: Option<String>,
    /// DNS servers of the cluster, for pods with policy `ClusterFirst`. Default: none.
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Vec<IpAddr>,
    /// The cluster's domain, which containers search. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_domain: Option<String>,
    /// The host's DNS settings, which pods get; an empty path: they get none. Default: `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Whether containers without a seccomp profile get the runtime's. Default: false.
    pub seccomp_default: bool,
    /// Unsafe sysctls that pods may set; one that ends in `*` means all that begin so. Default: none.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// The longest wait of containers that keep ending.
    pub crash_loop_back_off: CrashLoopBackOff,
    /// Whether of a container that runs out of memory one process alone is killed: with cgroup v1 always so. Default:
    /// not set, which is false with cgroup v2.
    #[serde(rename = "singleProcessOOMKill", skip_serializing_if = "Option::is_none")]
    pub single_process_oom_kill: Option<bool>,

    // Logs of containers.
    /// The folder of pods' logs; absolute. Default: `/var/log/pods`.
    pub pod_logs_dir: PathBuf,
    /// How long a log may be before it is rotated, in bytes. Default: 10Mi.
    pub container_log_max_size: Quantity,
    /// How many files a container's log may have; at least 2. Default: 5.
    pub container_log_max_files: u32,
    /// How many logs are rotated at a time; at least 1. Default: 1.
    pub container_log_max_workers: u32,
    /// How often logs are looked at; at least 3 seconds. Default: 10 seconds.
    pub container_log_monitor_interval: GoDuration,

    // Control groups and what the machine keeps for itself.
    /// Whether pods get cgroups, under one for each quality of service. Default: true.
    #[serde(rename = "cgroupsPerQOS")]
    pub cgroups_per_qos: bool,
    /// Who makes them. Default: [`CgroupDriver::Cgroupfs`]; a runtime that tells its own is followed.
    pub cgroup_driver: CgroupDriver,
    /// The cgroup under which all pods are, by its path without the driver's dressing. Default: none, the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_root: Option<String>,
    /// Whether containers' CPU limits become quotas. Default: true.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: bool,
    /// The period of such quotas; 1 millisecond to 1 second. Default: 100 milliseconds.
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: GoDuration,
    /// How many processes a pod may have; -1: as many as the node has for pods. Default: -1.
    pub pod_pids_limit: i64,
    /// What is held to its share. Default: pods.
    pub enforce_node_allocatable: Vec<Enforcement>,
    /// What the system keeps of `cpu`, `memory`, `ephemeral-storage` and `pid`. Default: nothing.
    pub system_reserved: BTreeMap<String, Quantity>,
    /// What Kubernetes's own daemons keep, likewise. Default: nothing.
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// The cgroup of the system's daemons, for enforcement. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserved_cgroup: Option<String>,
    /// The cgroup of Kubernetes's own daemons, for enforcement. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved_cgroup: Option<String>,
    /// Whether ephemeral storage is a resource that pods may ask for. Default: true.
    pub local_storage_capacity_isolation: bool,
    /// Whether the start fails where memory is swapped. Default: true.
    pub fail_swap_on: bool,
    /// Whether the start fails on a machine with cgroup v1. Default: true.
    pub fail_cgroup_v1: bool,

    // The machine's kernel.
    /// Whether the start fails where the kernel's settings are not those that nodes need, rather than set them. Default:
    /// false.
    pub protect_kernel_defaults: bool,
    /// Whether there are the iptables chains of a kubelet, which other components look for. Default: true.
    #[serde(rename = "makeIPTablesUtilChains")]
    pub make_iptables_util_chains: bool,

    // Pressure on the node. See `thresholds` for these put together. Conditions tell of it; nothing is evicted yet.
    /// By signal, what the node must always have: an amount or a percentage. Default: `memory.available` 100Mi,
    /// `nodefs.available` 10%, `nodefs.inodesFree` 5%, `imagefs.available` 15%, `imagefs.inodesFree` 5%.
    pub eviction_hard: BTreeMap<String, String>,
    /// By signal, what it must not lack for longer than the grace period. Default: none.
    pub eviction_soft: BTreeMap<String, String>,
    /// By signal, that period; wanted for each of `evictionSoft`. Default: none.
    pub eviction_soft_grace_period: BTreeMap<String, GoDuration>,
    /// By signal, how much to reclaim at least once it is met. Default: none.
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// How long a pressure condition stays after the last sign of it. Default: 5 minutes.
    pub eviction_pressure_transition_period: GoDuration,
    /// The most seconds that a pod gets to end after a soft threshold is met; negative: the pod's own. Default: 0.
    pub eviction_max_pod_grace_period: i32,
    /// Whether `evictionHard` adds to its defaults, rather than stands in their place. Default: false.
    pub merge_default_eviction_settings: bool,

    // The agent itself.
    /// How many files it may have open. Default: 1,000,000.
    pub max_open_files: u64,
    /// Gates by name. Default: none, upstream's defaults hold.
    pub feature_gates: BTreeMap<String, bool>,
    /// How it logs.
    pub logging: LoggingConfiguration,
}
