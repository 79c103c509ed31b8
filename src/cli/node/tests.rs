use std::path::Path;

use clap::CommandFactory;
use steersman_node::configuration::{AuthorizationMode, CgroupDriver};

use super::*;
use crate::cli::{Cli, Invocation, parse};

/// The flags of the kubelet 1.36.3, from its help.
const KUBELETS: &str = "address allowed-unsafe-sysctls anonymous-auth application-metrics-count-limit \
    authentication-token-webhook authentication-token-webhook-cache-ttl authorization-mode \
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl boot-id-file \
    bootstrap-kubeconfig cert-dir cgroup-driver cgroup-root cgroups-per-qos client-ca-file \
    cloud-provider cluster-dns cluster-domain config config-dir container-hints container-log-max-files \
    container-log-max-size container-runtime-endpoint containerd containerd-namespace \
    contention-profiling cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy \
    cpu-manager-policy-options cpu-manager-reconcile-period enable-controller-attach-detach \
    enable-debugging-handlers enable-load-reader enable-server enforce-node-allocatable event-burst \
    event-qps event-storage-age-limit event-storage-event-limit eviction-hard \
    eviction-max-pod-grace-period eviction-minimum-reclaim eviction-pressure-transition-period \
    eviction-soft eviction-soft-grace-period exit-on-lock-contention \
    experimental-allocatable-ignore-eviction experimental-mounter-path fail-cgroupv1 fail-swap-on \
    feature-gates file-check-frequency global-housekeeping-interval hairpin-mode healthz-bind-address \
    healthz-port hostname-override housekeeping-interval http-check-frequency \
    image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold \
    image-gc-low-threshold image-service-endpoint kernel-memcg-notification kube-api-burst \
    kube-api-content-type kube-api-qps kube-reserved kube-reserved-cgroup kubeconfig kubelet-cgroups \
    local-storage-capacity-isolation lock-file log-cadvisor-usage log-flush-frequency \
    log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream \
    logging-format machine-id-file make-iptables-util-chains manifest-url manifest-url-header \
    max-open-files max-pods maximum-dead-containers maximum-dead-containers-per-container \
    memory-manager-policy minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels \
    node-status-max-images node-status-update-frequency oom-score-adj pod-cidr pod-manifest-path \
    pod-max-pids pods-per-core port protect-kernel-defaults provider-id qos-reserved read-only-port \
    register-node register-with-taints registry-burst registry-qps reserved-cpus reserved-memory \
    resolv-conf root-dir rotate-certificates rotate-server-certificates runonce runtime-cgroups \
    runtime-request-timeout seccomp-default serialize-image-pulls storage-driver-buffer-duration \
    storage-driver-db storage-driver-host storage-driver-password storage-driver-secure \
    storage-driver-table storage-driver-user streaming-connection-idle-timeout sync-frequency \
    system-cgroups system-reserved system-reserved-cgroup tls-cert-file tls-cipher-suites \
    tls-min-version tls-private-key-file topology-manager-policy topology-manager-policy-options \
    topology-manager-scope v vmodule volume-plugin-dir volume-stats-agg-period";

fn parsed(flags: &str) -> Result<Node, String> {
    let args = ["steersman", "node"].into_iter().chain(flags.split_whitespace());
    match parse(args.map(OsString::from)) {
        Ok(Invocation::Node(node)) => Ok(*node),
        Ok(_) => panic!("{flags:?} is something else"),
        Err(refusal) => Err(refusal.to_string()),
    }
}

fn node(flags: &str) -> Node {
    parsed(flags).unwrap_or_else(|refusal| panic!("{flags:?}: {refusal}"))
}

fn refused(flags: &str) -> String {
    parsed(flags).err().unwrap_or_else(|| panic!("{flags:?} must be refused"))
}

fn configuration(lines: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    std::fs::write(file.path(), format!("{head}{lines}")).unwrap();
    file
}

#[test]
fn every_flag_of_the_kubelet_is_taken() {
    let command = Cli::command().mut_subcommand("node", describe);
    let command = command.find_subcommand("node").unwrap();
    let known: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let missing: Vec<_> = KUBELETS.split(' ').filter(|flag| !known.contains(flag)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    let ours: Vec<_> =
        known.iter().filter(|flag| !KUBELETS.split(' ').any(|theirs| theirs == **flag)).collect();
    assert_eq!(ours, Vec::<&&str>::new());
}

#[test]
fn without_flags_all_is_as_in_a_configuration_that_sets_nothing() {
    let node = node("");
    assert_eq!(node.config, KubeletConfiguration::default());
    assert_eq!(node.warnings, Vec::<String>::new());
    assert_eq!(
        node.flags,
        NodeFlags {
            kubeconfig: None,
            hostname_override: None,
            node_ips: Vec::new(),
            root_dir: "/var/lib/kubelet".into(),
            cert_dir: "/var/lib/kubelet/pki".into(),
            node_labels: BTreeMap::new(),
            external_cloud_provider: false,
            image_credential_provider_config: None,
            image_credential_provider_bin_dir: None,
            garbage: garbage::Policy::default(),
        },
    );
}

#[test]
fn flags_override_the_file() {
    let file = configuration(
        "maxPods: 1\npodsPerCore: 2\nclusterDNS: [10.0.0.1]\nauthentication: {anonymous: {enabled: true}}\n\
         featureGates: {SidecarContainers: true}\nlogging: {verbosity: 2}\n",
    );
    let node = node(&format!(
        "--config {} --max-pods=9 --cluster-dns=10.0.0.2,10.0.0.3 --cluster_dns 10.0.0.4 -v4 \
         --feature-gates=InPlacePodVerticalScaling=true --authorization-mode=AlwaysAllow --cgroup-driver=systemd \
         --system-reserved=cpu=100m --eviction-hard=memory.available<1Gi --register-with-taints=a=b:NoSchedule \
         --seccomp-default --fail-swap-on=false --container-runtime-endpoint=unix:///run/x.sock",
        file.path().display(),
    ));
    let config = &node.config;
    assert_eq!((config.max_pods, config.pods_per_core), (9, 2));
    assert_eq!(config.cluster_dns.len(), 3);
    assert!(config.authentication.anonymous.enabled && config.seccomp_default && !config.fail_swap_on);
    assert_eq!(config.feature_gates.len(), 2);
    assert_eq!(config.authorization.mode, AuthorizationMode::AlwaysAllow);
    assert_eq!(config.cgroup_driver, CgroupDriver::Systemd);
    assert_eq!(config.system_reserved["cpu"].milli_value(), 100);
    assert_eq!(config.eviction_hard.len(), 1);
    assert_eq!(config.register_with_taints[0].value.as_deref(), Some("b"));
    assert_eq!(config.container_runtime_endpoint, "unix:///run/x.sock");
    assert_eq!((node.logging.verbosity, node.logging.format), (4, Format::Text));
    assert_eq!(node.warnings, Vec::<String>::new());
}

#[test]
fn what_is_of_this_node_alone_is_told_by_flags() {
    let flags = node(
        "--kubeconfig=/etc/kubelet.conf --hostname-override=Node1 --node-ip=10.0.0.1,fd00::1 --root-dir=/r \
         --cert-dir=/c --cloud-provider=external --node-labels=a=b --node-labels c=d --maximum-dead-containers-per-container=-1 \
         --maximum-dead-containers 7 --minimum-container-ttl-duration=1m",
    )
    .flags;
    assert_eq!(flags.kubeconfig.as_deref(), Some(Path::new("/etc/kubelet.conf")));
    assert_eq!(flags.hostname_override.as_deref(), Some("node1"));
    assert_eq!(flags.node_ips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
    assert_eq!((&*flags.root_dir, &*flags.cert_dir), (Path::new("/r"), Path::new("/c")));
    assert_eq!(flags.node_labels.into_iter().map(|(k, v)| k + &v).collect::<Vec<_>>(), ["ab", "cd"]);
    assert!(flags.external_cloud_provider);
    let kept = flags.garbage;
    assert_eq!((kept.min_age.as_secs(), kept.max_per_container, kept.max_containers), (60, None, Some(7)));
    let flags = node("--kubeconfig= --hostname-override= --node-ip=").flags;
    assert_eq!((flags.kubeconfig, flags.hostname_override, flags.node_ips), (None, None, Vec::new()));
}

#[test]
fn flags_without_effect_are_warned_of() {
    let warnings = node(
        "--lock-file=/l --cpu-manager-policy=static --read-only-port=0 --rotate-certificates \
         --runtime-cgroups /a --log-cadvisor-usage=false",
    )
    .warnings;
    assert_eq!(
        warnings,
        [
            "flag --log-cadvisor-usage has no effect in this version",
            "flag --lock-file has no effect in this version",
            "flag --runtime-cgroups has no effect in this version",
            "flag --cpu-manager-policy: cpuManagerPolicy: \"static\" is not supported in this version and has no effect",
            "flag --rotate-certificates: rotateCertificates: true is not supported in this version and has no effect",
        ],
    );
}

#[test]
fn a_refusal_is_one_line_that_says_which_and_why() {
    let file = configuration("maxPodz: 1\n");
    let path = file.path().display();
    for (flags, line) in [
        ("--bogus", "unknown flag: --bogus; steersman node --help lists the flags".to_owned()),
        ("pods", "unexpected argument \"pods\"; steersman node takes flags only".to_owned()),
        (
            "--max-pods=many",
            "invalid argument \"many\" for \"--max-pods\" flag: must be a whole number".to_owned(),
        ),
        (
            "--register-node=perhaps",
            "invalid argument \"perhaps\" for \"--register-node\" flag: must be true or false".to_owned(),
        ),
        (
            "--cluster-dns=dns",
            "reading the configuration: flag --cluster-dns: clusterDNS[0]: \"dns\": invalid IP address syntax"
                .to_owned(),
        ),
        (
            "--cloud-provider=mine",
            "invalid argument \"mine\" for \"--cloud-provider\" flag: must be external or empty".to_owned(),
        ),
        ("--port=0", "invalid configuration: port: 0: must be between 1 and 65535, inclusive".to_owned()),
        (
            "--node-ip=10.0.0.1,10.0.0.2",
            "invalid argument \"10.0.0.1,10.0.0.2\" for \"--node-ip\" flag: must be either a single IP or a dual-stack pair of IPs".to_owned(),
        ),
        (
            "--node-ip=here",
            "invalid argument \"here\" for \"--node-ip\" flag: could not parse \"here\"".to_owned(),
        ),
        (
            "--node-labels=-a=b",
            "invalid argument \"-a=b\" for \"--node-labels\" flag: invalid node label -a=b".to_owned(),
        ),
        (
            &*format!("--config={path}"),
            format!("reading the configuration: file {path}: maxPodz: 1: unknown field"),
        ),
    ] {
        assert_eq!(refused(flags), line);
    }
}

#[test]
fn help_shows_what_has_an_effect() {
    let Ok(Invocation::Help(help)) = parse(["steersman", "node", "--help"].map(OsString::from)) else {
        panic!("help must be printed");
    };
    let help = help.to_string();
    for heading in
        ["Configuration", "Registration", "Pods", "Server", "Runtime and images", "Resources", "Logs"]
    {
        assert!(help.contains(&format!("\n{heading}:\n")), "{heading} in {help}");
    }
    assert!(help.contains("--max-pods <int>") && help.contains("--register-node[=<bool>]"), "{help}");
    assert!(!help.contains("--cpu-manager-policy") && !help.contains("--lock-file"), "{help}");
}

#[test]
fn the_manifests_are_taken_without_a_warning() {
    let unit = include_str!("../../../manifests/node/steersman-node.service").replace("\\\n", " ");
    let line =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/steersman node")).unwrap();
    let settings = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/node/kubelet.yaml");
    let node = node(&line.replace("/etc/steersman/kubelet.yaml", settings));
    assert_eq!(node.warnings, Vec::<String>::new());
    assert_eq!(node.config.cgroup_driver, CgroupDriver::Systemd);
    assert!(node.flags.kubeconfig.is_some());
    let pod = include_bytes!("../../../examples/static-pod.yaml");
    let origin = steersman_node::pod_config::manifest::Origin::File("static-pod.yaml");
    let pods = steersman_node::pod_config::manifest::decode(pod, origin, "node1").unwrap();
    assert_eq!(pods[0].metadata.name.as_deref(), Some("web-node1"));
}
