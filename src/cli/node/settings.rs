//! The flags that set fields of the KubeletConfiguration.

use clap::{Arg, ArgAction, ArgMatches};
use steersman_node::configuration::Setting;

use super::values::Kind::{
    self, Boolean, Duration, Gates, Headers, Integer, List, Pairs, Taints, Text, Thresholds,
};
use crate::cli::pflag::Refusal;

/// A flag: its name, the field that it sets, the type of its value, its group in the help, and its help text.
type Row = (&'static str, &'static str, Kind, &'static str, &'static str);

const PODS: &str = "Pods";
const SERVER: &str = "Server";
const REGISTRATION: &str = "Registration";
const RUNTIME: &str = "Runtime and images";
const RESOURCES: &str = "Resources";
const LOGS: &str = "Logs";
/// The group of flags that the help does not show: their field has no effect, and the log says so.
const HIDDEN: &str = "";

const FLAGS: [Row; 101] = [
    ("pod-manifest-path", "staticPodPath", Text, PODS, "Manifests of static pods: a folder, or one file"),
    ("manifest-url", "staticPodURL", Text, PODS, "URL of manifests of static pods"),
    (
        "manifest-url-header",
        "staticPodURLHeader",
        Headers,
        PODS,
        "Headers of requests to --manifest-url, as name:value",
    ),
    (
        "file-check-frequency",
        "fileCheckFrequency",
        Duration,
        PODS,
        "Time between two checks of the manifest files",
    ),
    (
        "http-check-frequency",
        "httpCheckFrequency",
        Duration,
        PODS,
        "Time between two requests to --manifest-url",
    ),
    ("sync-frequency", "syncFrequency", Duration, PODS, "Maximum time between two syncs of a pod"),
    ("max-pods", "maxPods", Integer, PODS, "Maximum number of pods on the node"),
    (
        "pods-per-core",
        "podsPerCore",
        Integer,
        PODS,
        "Maximum number of pods for each processor; 0: any number",
    ),
    (
        "pod-max-pids",
        "podPidsLimit",
        Integer,
        PODS,
        "Maximum number of processes in a pod; -1: the node's limit",
    ),
    ("pod-cidr", "podCIDR", Text, PODS, "Address range of pods, for a node without API server"),
    (
        "cluster-dns",
        "clusterDNS",
        List,
        PODS,
        "The cluster's DNS servers, for pods with DNS policy ClusterFirst",
    ),
    (
        "cluster-domain",
        "clusterDomain",
        Text,
        PODS,
        "The cluster's DNS domain, added to the search list of containers",
    ),
    ("resolv-conf", "resolvConf", Text, PODS, "File with the host's DNS settings for pods; empty: none"),
    ("allowed-unsafe-sysctls", "allowedUnsafeSysctls", List, PODS, "Unsafe sysctls that pods may set"),
    ("address", "address", Text, SERVER, "Address of the node's HTTPS server"),
    ("port", "port", Integer, SERVER, "Port of the node's HTTPS server"),
    ("enable-server", "enableServer", Boolean, SERVER, "Whether to run the HTTPS server"),
    (
        "enable-debugging-handlers",
        "enableDebuggingHandlers",
        Boolean,
        SERVER,
        "Whether the server provides logs, exec, attach and port forwarding",
    ),
    ("healthz-port", "healthzPort", Integer, SERVER, "Port of /healthz over plain HTTP; 0: none"),
    ("healthz-bind-address", "healthzBindAddress", Text, SERVER, "Address of --healthz-port"),
    (
        "tls-cert-file",
        "tlsCertFile",
        Text,
        SERVER,
        "The server's certificate; without it, the server makes one in --cert-dir",
    ),
    ("tls-private-key-file", "tlsPrivateKeyFile", Text, SERVER, "The key of --tls-cert-file"),
    (
        "anonymous-auth",
        "authentication.anonymous.enabled",
        Boolean,
        SERVER,
        "Whether requests without credentials are accepted, as user system:anonymous",
    ),
    (
        "authentication-token-webhook",
        "authentication.webhook.enabled",
        Boolean,
        SERVER,
        "Whether the API server authenticates bearer tokens",
    ),
    (
        "authentication-token-webhook-cache-ttl",
        "authentication.webhook.cacheTTL",
        Duration,
        SERVER,
        "How long the API server's answers about tokens are cached",
    ),
    (
        "client-ca-file",
        "authentication.x509.clientCAFile",
        Text,
        SERVER,
        "Certificate authorities of accepted client certificates",
    ),
    (
        "authorization-mode",
        "authorization.mode",
        Text,
        SERVER,
        "Authorization: AlwaysAllow, or Webhook, in which the API server decides",
    ),
    (
        "authorization-webhook-cache-authorized-ttl",
        "authorization.webhook.cacheAuthorizedTTL",
        Duration,
        SERVER,
        "How long permissions are cached",
    ),
    (
        "authorization-webhook-cache-unauthorized-ttl",
        "authorization.webhook.cacheUnauthorizedTTL",
        Duration,
        SERVER,
        "How long refusals are cached",
    ),
    ("register-node", "registerNode", Boolean, REGISTRATION, "Whether the node registers itself"),
    (
        "register-with-taints",
        "registerWithTaints",
        Taints,
        REGISTRATION,
        "Taints that the node registers with, as key=value:effect",
    ),
    ("provider-id", "providerID", Text, REGISTRATION, "The machine's ID at its cloud provider"),
    (
        "node-status-update-frequency",
        "nodeStatusUpdateFrequency",
        Duration,
        REGISTRATION,
        "Time between two computations of the node's status",
    ),
    (
        "node-status-max-images",
        "nodeStatusMaxImages",
        Integer,
        REGISTRATION,
        "Maximum number of images in the node's status; -1: all",
    ),
    (
        "kube-api-qps",
        "kubeAPIQPS",
        Integer,
        REGISTRATION,
        "Maximum number of requests per second to the API server",
    ),
    ("kube-api-burst", "kubeAPIBurst", Integer, REGISTRATION, "Maximum number of requests in a burst"),
    (
        "event-qps",
        "eventRecordQPS",
        Integer,
        REGISTRATION,
        "Maximum number of events per second; 0: any number",
    ),
    ("event-burst", "eventBurst", Integer, REGISTRATION, "Maximum number of events in a burst"),
    (
        "container-runtime-endpoint",
        "containerRuntimeEndpoint",
        Text,
        RUNTIME,
        "Socket of the container runtime",
    ),
    (
        "image-service-endpoint",
        "imageServiceEndpoint",
        Text,
        RUNTIME,
        "Socket of the image service, if it differs from the runtime's",
    ),
    (
        "runtime-request-timeout",
        "runtimeRequestTimeout",
        Duration,
        RUNTIME,
        "Timeout of calls to the runtime, except long ones such as pulls",
    ),
    (
        "registry-qps",
        "registryPullQPS",
        Integer,
        RUNTIME,
        "Maximum number of image pulls per second; 0: any number",
    ),
    ("registry-burst", "registryBurst", Integer, RUNTIME, "Maximum number of image pulls in a burst"),
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
        "Size at which a container's log is rotated",
    ),
    (
        "container-log-max-files",
        "containerLogMaxFiles",
        Integer,
        RUNTIME,
        "Maximum number of log files of a container",
    ),
    ("cgroup-driver", "cgroupDriver", Text, RESOURCES, "The cgroup driver: cgroupfs or systemd"),
    ("cgroup-root", "cgroupRoot", Text, RESOURCES, "Parent of the pods' cgroups"),
    ("cgroups-per-qos", "cgroupsPerQOS", Boolean, RESOURCES, "Whether each pod and QoS class gets a cgroup"),
    (
        "cpu-cfs-quota",
        "cpuCFSQuota",
        Boolean,
        RESOURCES,
        "Whether CPU limits of containers are enforced by CFS quotas",
    ),
    ("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", Duration, RESOURCES, "Period of CFS quotas"),
    (
        "enforce-node-allocatable",
        "enforceNodeAllocatable",
        List,
        RESOURCES,
        "What is limited to its share of the node: none, or pods, system-reserved, kube-reserved",
    ),
    (
        "system-reserved",
        "systemReserved",
        Pairs,
        RESOURCES,
        "Resources reserved for the system's daemons, as cpu=200m,memory=1Gi",
    ),
    (
        "kube-reserved",
        "kubeReserved",
        Pairs,
        RESOURCES,
        "Resources reserved for Kubernetes's daemons, as cpu=200m,memory=1Gi",
    ),
    (
        "eviction-hard",
        "evictionHard",
        Thresholds,
        RESOURCES,
        "Hard eviction thresholds, as memory.available<100Mi; reserved, and reported as pressure",
    ),
    (
        "fail-swap-on",
        "failSwapOn",
        Boolean,
        RESOURCES,
        "Whether the agent refuses to start on a machine with swap",
    ),
    (
        "fail-cgroupv1",
        "failCgroupV1",
        Boolean,
        RESOURCES,
        "Whether the agent refuses to start on a machine with cgroup v1",
    ),
    (
        "feature-gates",
        "featureGates",
        Gates,
        RESOURCES,
        "Feature gates, as Name=true|false; logs a warning for each gate without effect",
    ),
    (
        "v",
        "logging.verbosity",
        Integer,
        LOGS,
        "Verbosity of the log: 0 to 3 for operation, 4 for debugging, 6 to 10 for everything",
    ),
    ("logging-format", "logging.format", Text, LOGS, "Format of the log: text or json"),
    (
        "enable-controller-attach-detach",
        "enableControllerAttachDetach",
        Boolean,
        REGISTRATION,
        "Whether the attach-detach controller attaches this node's volumes",
    ),
    (
        "local-storage-capacity-isolation",
        "localStorageCapacityIsolation",
        Boolean,
        RESOURCES,
        "Whether the node accounts for ephemeral storage",
    ),
    ("tls-min-version", "tlsMinVersion", Text, SERVER, "Minimum TLS version: VersionTLS12 or VersionTLS13"),
    ("tls-cipher-suites", "tlsCipherSuites", List, SERVER, "Cipher suites for TLS 1.2"),
    (
        "eviction-soft",
        "evictionSoft",
        Thresholds,
        RESOURCES,
        "Soft eviction thresholds, as memory.available<300Mi; reported as pressure after their grace period",
    ),
    (
        "eviction-soft-grace-period",
        "evictionSoftGracePeriod",
        Pairs,
        RESOURCES,
        "Grace periods of --eviction-soft, as memory.available=1m30s",
    ),
    (
        "eviction-pressure-transition-period",
        "evictionPressureTransitionPeriod",
        Duration,
        RESOURCES,
        "How long pressure is reported after it has ended",
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
    ("kube-reserved-cgroup", "kubeReservedCgroup", Text, RESOURCES, "The cgroup of Kubernetes's daemons"),
    ("kubelet-cgroups", "kubeletCgroups", Text, HIDDEN, ""),
    ("log-flush-frequency", "logging.flushFrequency", Duration, HIDDEN, ""),
    (
        "make-iptables-util-chains",
        "makeIPTablesUtilChains",
        Boolean,
        RESOURCES,
        "Whether the agent creates the kubelet's iptables chains",
    ),
    ("max-open-files", "maxOpenFiles", Integer, RESOURCES, "Maximum number of open files of this process"),
    ("memory-manager-policy", "memoryManagerPolicy", Text, HIDDEN, ""),
    ("minimum-image-ttl-duration", "imageMinimumGCAge", Duration, HIDDEN, ""),
    ("oom-score-adj", "oomScoreAdj", Integer, HIDDEN, ""),
    (
        "protect-kernel-defaults",
        "protectKernelDefaults",
        Boolean,
        RESOURCES,
        "Whether the agent refuses to start if kernel settings are not a node's, instead of setting them",
    ),
    ("qos-reserved", "qosReserved", Pairs, HIDDEN, ""),
    ("read-only-port", "readOnlyPort", Integer, HIDDEN, ""),
    ("reserved-cpus", "reservedSystemCPUs", Text, HIDDEN, ""),
    ("rotate-certificates", "rotateCertificates", Boolean, HIDDEN, ""),
    ("rotate-server-certificates", "serverTLSBootstrap", Boolean, HIDDEN, ""),
    ("runonce", "runOnce", Boolean, HIDDEN, ""),
    ("streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", Duration, HIDDEN, ""),
    ("system-cgroups", "systemCgroups", Text, HIDDEN, ""),
    ("system-reserved-cgroup", "systemReservedCgroup", Text, RESOURCES, "The cgroup of the system's daemons"),
    ("topology-manager-policy", "topologyManagerPolicy", Text, HIDDEN, ""),
    ("topology-manager-policy-options", "topologyManagerPolicyOptions", Pairs, HIDDEN, ""),
    ("topology-manager-scope", "topologyManagerScope", Text, HIDDEN, ""),
    ("volume-plugin-dir", "volumePluginDir", Text, HIDDEN, ""),
    ("volume-stats-agg-period", "volumeStatsAggPeriod", Duration, HIDDEN, ""),
];

/// All flags, for clap.
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

/// The settings of the flags on the command line.
///
/// # Errors
/// If a flag's value is invalid.
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
