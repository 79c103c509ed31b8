//! Flags that set fields of the KubeletConfiguration.

use clap::{Arg, ArgAction, ArgMatches};
use steersman_node::configuration::Setting;

use super::values::Kind::{
    self, Boolean, Duration, Gates, Headers, Integer, List, Pairs, Taints, Text, Thresholds,
};
use crate::cli::pflag::Refusal;

/// A flag: its name, the field it sets, how it is read, its part of the help, and what the help says.
type Row = (&'static str, &'static str, Kind, &'static str, &'static str);

const PODS: &str = "Pods";
const SERVER: &str = "Server";
const REGISTRATION: &str = "Registration";
const RUNTIME: &str = "Runtime and images";
const RESOURCES: &str = "Resources";
const LOGS: &str = "Logs";
/// In no help: the field has no effect, and a warning says so.
const HIDDEN: &str = "";

const FLAGS: [Row; 101] = [
    ("pod-manifest-path", "staticPodPath", Text, PODS, "Manifests of static pods: a folder, or one file"),
    ("manifest-url", "staticPodURL", Text, PODS, "Where manifests of static pods are fetched"),
    ("manifest-url-header", "staticPodURLHeader", Headers, PODS, "Headers to send there, as name:value"),
    ("file-check-frequency", "fileCheckFrequency", Duration, PODS, "How often manifests are looked through"),
    ("http-check-frequency", "httpCheckFrequency", Duration, PODS, "How often the URL is asked"),
    ("sync-frequency", "syncFrequency", Duration, PODS, "How long a pod may go without being looked at"),
    ("max-pods", "maxPods", Integer, PODS, "How many pods the node takes"),
    (
        "pods-per-core",
        "podsPerCore",
        Integer,
        PODS,
        "How many pods it takes for each processor; 0: any number",
    ),
    (
        "pod-max-pids",
        "podPidsLimit",
        Integer,
        PODS,
        "How many processes a pod may have; -1: as many as the node gives",
    ),
    ("pod-cidr", "podCIDR", Text, PODS, "The addresses of pods, for a node without API server"),
    (
        "cluster-dns",
        "clusterDNS",
        List,
        PODS,
        "DNS servers of the cluster, for pods with policy ClusterFirst",
    ),
    ("cluster-domain", "clusterDomain", Text, PODS, "The cluster's domain, which containers search"),
    ("resolv-conf", "resolvConf", Text, PODS, "The host's DNS settings, which pods get; empty: none"),
    ("allowed-unsafe-sysctls", "allowedUnsafeSysctls", List, PODS, "Unsafe sysctls that pods may set"),
    ("address", "address", Text, SERVER, "The address that the node's server listens at"),
    ("port", "port", Integer, SERVER, "The port that it listens at"),
    ("enable-server", "enableServer", Boolean, SERVER, "Whether there is a server"),
    (
        "enable-debugging-handlers",
        "enableDebuggingHandlers",
        Boolean,
        SERVER,
        "Whether it gives logs, runs commands and forwards ports",
    ),
    ("healthz-port", "healthzPort", Integer, SERVER, "The port of plain /healthz; 0: none"),
    ("healthz-bind-address", "healthzBindAddress", Text, SERVER, "The address for that"),
    (
        "tls-cert-file",
        "tlsCertFile",
        Text,
        SERVER,
        "The server's certificate; without, it makes its own in --cert-dir",
    ),
    ("tls-private-key-file", "tlsPrivateKeyFile", Text, SERVER, "The key of --tls-cert-file"),
    (
        "anonymous-auth",
        "authentication.anonymous.enabled",
        Boolean,
        SERVER,
        "Whether requests without credentials are let in, as system:anonymous",
    ),
    (
        "authentication-token-webhook",
        "authentication.webhook.enabled",
        Boolean,
        SERVER,
        "Whether the API server is asked about bearer tokens",
    ),
    (
        "authentication-token-webhook-cache-ttl",
        "authentication.webhook.cacheTTL",
        Duration,
        SERVER,
        "How long its answer holds",
    ),
    (
        "client-ca-file",
        "authentication.x509.clientCAFile",
        Text,
        SERVER,
        "Authorities whose client certificates are believed",
    ),
    (
        "authorization-mode",
        "authorization.mode",
        Text,
        SERVER,
        "Who may do what: AlwaysAllow, or Webhook: the API server is asked",
    ),
    (
        "authorization-webhook-cache-authorized-ttl",
        "authorization.webhook.cacheAuthorizedTTL",
        Duration,
        SERVER,
        "How long a yes holds",
    ),
    (
        "authorization-webhook-cache-unauthorized-ttl",
        "authorization.webhook.cacheUnauthorizedTTL",
        Duration,
        SERVER,
        "How long a no holds",
    ),
    ("register-node", "registerNode", Boolean, REGISTRATION, "Whether the node registers itself"),
    (
        "register-with-taints",
        "registerWithTaints",
        Taints,
        REGISTRATION,
        "Taints it registers with, as key=value:effect",
    ),
    ("provider-id", "providerID", Text, REGISTRATION, "What a cloud calls this machine"),
    (
        "node-status-update-frequency",
        "nodeStatusUpdateFrequency",
        Duration,
        REGISTRATION,
        "How often the node's status is worked out",
    ),
    (
        "node-status-max-images",
        "nodeStatusMaxImages",
        Integer,
        REGISTRATION,
        "How many images it tells; -1: all",
    ),
    ("kube-api-qps", "kubeAPIQPS", Integer, REGISTRATION, "Requests a second to the API server"),
    ("kube-api-burst", "kubeAPIBurst", Integer, REGISTRATION, "Requests at once after a quiet time"),
    ("event-qps", "eventRecordQPS", Integer, REGISTRATION, "Events a second; 0: any number"),
    ("event-burst", "eventBurst", Integer, REGISTRATION, "Events at once after a quiet time"),
    ("container-runtime-endpoint", "containerRuntimeEndpoint", Text, RUNTIME, "The runtime's socket"),
    (
        "image-service-endpoint",
        "imageServiceEndpoint",
        Text,
        RUNTIME,
        "The socket for images, if it is another",
    ),
    (
        "runtime-request-timeout",
        "runtimeRequestTimeout",
        Duration,
        RUNTIME,
        "How long the runtime may take for an ordinary call",
    ),
    ("registry-qps", "registryPullQPS", Integer, RUNTIME, "Pulls a second; 0: any number"),
    ("registry-burst", "registryBurst", Integer, RUNTIME, "Pulls at once after a quiet time"),
    (
        "serialize-image-pulls",
        "serializeImagePulls",
        Boolean,
        RUNTIME,
        "Whether images are pulled one at a time",
    ),
    (
        "container-log-max-size",
        "containerLogMaxSize",
        Text,
        RUNTIME,
        "How long a container's log may be before it is rotated",
    ),
    ("container-log-max-files", "containerLogMaxFiles", Integer, RUNTIME, "How many files it may have"),
    ("cgroup-driver", "cgroupDriver", Text, RESOURCES, "Who makes cgroups: cgroupfs or systemd"),
    ("cgroup-root", "cgroupRoot", Text, RESOURCES, "The cgroup under which all pods are"),
    ("cgroups-per-qos", "cgroupsPerQOS", Boolean, RESOURCES, "Whether pods get cgroups"),
    ("cpu-cfs-quota", "cpuCFSQuota", Boolean, RESOURCES, "Whether containers' CPU limits become quotas"),
    ("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", Duration, RESOURCES, "The period of such quotas"),
    (
        "enforce-node-allocatable",
        "enforceNodeAllocatable",
        List,
        RESOURCES,
        "What is held to its share: none, or pods and others",
    ),
    (
        "system-reserved",
        "systemReserved",
        Pairs,
        RESOURCES,
        "What the system keeps for itself, as cpu=200m,memory=1Gi",
    ),
    ("kube-reserved", "kubeReserved", Pairs, RESOURCES, "What Kubernetes's own daemons keep, likewise"),
    (
        "eviction-hard",
        "evictionHard",
        Thresholds,
        RESOURCES,
        "What the node must always have, as memory.available<100Mi; kept back from pods, told as pressure",
    ),
    ("fail-swap-on", "failSwapOn", Boolean, RESOURCES, "Whether the start fails where memory is swapped"),
    ("fail-cgroupv1", "failCgroupV1", Boolean, RESOURCES, "Whether it fails on a machine with cgroup v1"),
    (
        "feature-gates",
        "featureGates",
        Gates,
        RESOURCES,
        "Feature gates, as Name=true|false; others than those in use are warned of",
    ),
    (
        "v",
        "logging.verbosity",
        Integer,
        LOGS,
        "How much to log: 0 to 3 what an operator wants to know, 4 for debugging, 6 to 10 everything",
    ),
    ("logging-format", "logging.format", Text, LOGS, "The form of the log: text or json"),
    (
        "enable-controller-attach-detach",
        "enableControllerAttachDetach",
        Boolean,
        REGISTRATION,
        "Whether a controller attaches volumes to this node",
    ),
    (
        "local-storage-capacity-isolation",
        "localStorageCapacityIsolation",
        Boolean,
        RESOURCES,
        "Whether ephemeral storage is a resource",
    ),
    (
        "tls-min-version",
        "tlsMinVersion",
        Text,
        SERVER,
        "The oldest version of TLS: VersionTLS12 or VersionTLS13",
    ),
    ("tls-cipher-suites", "tlsCipherSuites", List, SERVER, "The cipher suites of TLS 1.2 that are spoken"),
    (
        "eviction-soft",
        "evictionSoft",
        Thresholds,
        RESOURCES,
        "What it must not lack for longer than a grace period, likewise; told as pressure",
    ),
    (
        "eviction-soft-grace-period",
        "evictionSoftGracePeriod",
        Pairs,
        RESOURCES,
        "Those periods, as memory.available=1m30s",
    ),
    (
        "eviction-pressure-transition-period",
        "evictionPressureTransitionPeriod",
        Duration,
        RESOURCES,
        "How long pressure is told of after the last sign of it",
    ),
    ("contention-profiling", "enableContentionProfiling", Boolean, HIDDEN, ""),
    ("cpu-manager-policy", "cpuManagerPolicy", Text, HIDDEN, ""),
    ("cpu-manager-policy-options", "cpuManagerPolicyOptions", Pairs, HIDDEN, ""),
    ("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod", Duration, HIDDEN, ""),
    ("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", Integer, HIDDEN, ""),
    ("eviction-minimum-reclaim", "evictionMinimumReclaim", Pairs, HIDDEN, ""),
    ("hairpin-mode", "hairpinMode", Text, HIDDEN, ""),
    ("image-gc-high-threshold", "imageGCHighThresholdPercent", Integer, HIDDEN, ""),
    ("image-gc-low-threshold", "imageGCLowThresholdPercent", Integer, HIDDEN, ""),
    ("kernel-memcg-notification", "kernelMemcgNotification", Boolean, HIDDEN, ""),
    ("kube-api-content-type", "contentType", Text, HIDDEN, ""),
    ("kube-reserved-cgroup", "kubeReservedCgroup", Text, RESOURCES, "The group of Kubernetes's daemons"),
    ("kubelet-cgroups", "kubeletCgroups", Text, HIDDEN, ""),
    ("log-flush-frequency", "logging.flushFrequency", Duration, HIDDEN, ""),
    (
        "make-iptables-util-chains",
        "makeIPTablesUtilChains",
        Boolean,
        RESOURCES,
        "Whether there are the iptables chains of a kubelet",
    ),
    ("max-open-files", "maxOpenFiles", Integer, RESOURCES, "How many files this process may have open"),
    ("memory-manager-policy", "memoryManagerPolicy", Text, HIDDEN, ""),
    ("minimum-image-ttl-duration", "imageMinimumGCAge", Duration, HIDDEN, ""),
    ("oom-score-adj", "oomScoreAdj", Integer, HIDDEN, ""),
    (
        "protect-kernel-defaults",
        "protectKernelDefaults",
        Boolean,
        RESOURCES,
        "Whether the start fails where kernel settings are not those of a node, rather than set them",
    ),
    ("qos-reserved", "qosReserved", Pairs, HIDDEN, ""),
    ("read-only-port", "readOnlyPort", Integer, HIDDEN, ""),
    ("reserved-cpus", "reservedSystemCPUs", Text, HIDDEN, ""),
    ("rotate-certificates", "rotateCertificates", Boolean, HIDDEN, ""),
    ("rotate-server-certificates", "serverTLSBootstrap", Boolean, HIDDEN, ""),
    ("runonce", "runOnce", Boolean, HIDDEN, ""),
    ("streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", Duration, HIDDEN, ""),
    ("system-cgroups", "systemCgroups", Text, HIDDEN, ""),
    ("system-reserved-cgroup", "systemReservedCgroup", Text, RESOURCES, "The group of the system's daemons"),
    ("topology-manager-policy", "topologyManagerPolicy", Text, HIDDEN, ""),
    ("topology-manager-policy-options", "topologyManagerPolicyOptions", Pairs, HIDDEN, ""),
    ("topology-manager-scope", "topologyManagerScope", Text, HIDDEN, ""),
    ("volume-plugin-dir", "volumePluginDir", Text, HIDDEN, ""),
    ("volume-stats-agg-period", "volumeStatsAggPeriod", Duration, HIDDEN, ""),
];

/// All of them.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    FLAGS.iter().map(|(name, _, kind, heading, help)| {
        let arg = Arg::new(*name).long(*name).action(ArgAction::Append).value_name(kind.name());
        let arg = if *name == "v" { arg.short('v') } else { arg };
        let arg = match kind {
            Boolean => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            _ => arg.num_args(1),
        };
        match *heading {
            HIDDEN => arg.hide(true),
            heading => arg.help_heading(heading).help(*help),
        }
    })
}

/// Those that were given.
///
/// # Errors
/// A value that a flag does not take.
pub(super) fn given(matches: &ArgMatches) -> Result<Vec<Setting>, Refusal> {
    let mut settings = Vec::new();
    for (name, path, kind, ..) in FLAGS {
        let Some(texts) = matches.get_many::<String>(name) else { continue };
        let flag = format!("--{name}");
        let texts: Vec<String> = texts.cloned().collect();
        let value = kind.read(&texts).map_err(|(text, why)| Refusal::of_value(&flag, &text, why))?;
        settings.push(Setting { flag, path, value });
    }
    Ok(settings)
}
