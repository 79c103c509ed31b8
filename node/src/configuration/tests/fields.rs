use std::path::Path;
use std::time::Duration;

use super::{Folder, HEAD, configuration, load, loaded, refused, warnings};
use crate::configuration::{AuthorizationMode, CgroupDriver, Enforcement, LogFormat, TlsMinVersion};

#[test]
fn fields_are_read_from_yaml() {
    let found = configuration(
        "address: '::'\nport: 10260\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n\
         authentication: {anonymous: {enabled: true}, webhook: {cacheTTL: 1m30s}, x509: {clientCAFile: /ca.crt}}\n\
         authorization: {mode: AlwaysAllow}\ncgroupDriver: systemd\ncpuCFSQuotaPeriod: 10ms\n\
         enforceNodeAllocatable: [pods, system-reserved]\nsystemReservedCgroup: /system\n\
         systemReserved: {cpu: 200m, memory: 1Gi, pid: '1000'}\nlogging: {format: json, verbosity: 4}\n\
         registerWithTaints: [{key: a.b/c, value: d, effect: NoSchedule}]\nmaxParallelImagePulls: 3\n\
         staticPodURLHeader: {X-Token: [a, b]}\ncrashLoopBackOff: {maxContainerRestartPeriod: 30s}\n\
         podPidsLimit: 100\nserializeImagePulls: no\ntlsMinVersion: VersionTLS11\n\
         tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\nproviderID: x://y\n",
    );
    assert_eq!((found.address.to_string(), found.port), ("::".to_owned(), 10260));
    assert_eq!(found.cluster_dns[0].to_string(), "10.96.0.10");
    assert!(found.authentication.anonymous.enabled && found.authentication.webhook.enabled);
    assert_eq!(found.authentication.webhook.cache_ttl.0, Duration::from_secs(90));
    assert_eq!(found.authorization.mode, AuthorizationMode::AlwaysAllow);
    assert_eq!(found.cgroup_driver, CgroupDriver::Systemd);
    assert_eq!(found.cpu_cfs_quota_period.0, Duration::from_millis(10));
    assert_eq!(found.enforce_node_allocatable, [Enforcement::Pods, Enforcement::SystemReserved]);
    assert_eq!(found.system_reserved["cpu"].milli_value(), 200);
    assert_eq!((found.logging.format, found.logging.verbosity), (LogFormat::Json, 4));
    assert_eq!(found.register_with_taints[0].key, "a.b/c");
    assert_eq!(found.static_pod_url_header["X-Token"], ["a", "b"]);
    assert_eq!(found.crash_loop_back_off.max_container_restart_period.0, Duration::from_secs(30));
    assert_eq!((found.pod_pids_limit, found.serialize_image_pulls), (100, false));
    assert_eq!(found.tls_min_version, Some(TlsMinVersion::Tls12));
    assert_eq!(found.tls_cipher_suites, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    assert_eq!(found.provider_id.as_deref(), Some("x://y"));
}

#[test]
fn json_is_read_as_well() {
    let folder = Folder::new("").add(
        "kubelet.yaml",
        r#"{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "maxPods": 7}"#,
    );
    assert_eq!(load(&folder.sources()).unwrap().configuration.max_pods, 7);
}

#[test]
fn relative_paths_are_of_the_files_folder() {
    let folder = Folder::new("staticPodPath: manifests\nresolvConf: ''\npodLogsDir: /logs\n");
    let found = load(&folder.sources()).unwrap().configuration;
    assert_eq!(found.static_pod_path.as_deref(), Some(&*folder.0.path().join("manifests")));
    assert_eq!((&*found.resolv_conf, &*found.pod_logs_dir), (Path::new(""), Path::new("/logs")));
}

#[test]
fn logs_of_pods_are_where_collectors_look_for_them_unless_told_otherwise() {
    assert_eq!(configuration("").pod_logs_dir, Path::new("/var/log/pods"));
}

#[test]
fn a_refusal_is_one_line_with_file_field_and_value() {
    for (lines, line) in [
        ("maxPodz: 3", "maxPodz: 3: unknown field"),
        (
            "authentication: {anonymus: {enabled: true}}",
            "authentication.anonymus: {\"enabled\":true}: unknown field",
        ),
        ("maxPods: many", "maxPods: \"many\": must be an integer from 0 to 4294967295"),
        ("maxPods: '110'", "maxPods: \"110\": must be an integer from 0 to 4294967295"),
        ("maxPods: -1", "maxPods: -1: must be an integer from 0 to 4294967295"),
        ("port: 70000", "port: 70000: must be an integer from 0 to 65535"),
        ("failSwapOn: 'true'", "failSwapOn: \"true\": must be true or false"),
        ("syncFrequency: 60", "syncFrequency: 60: must be a text"),
        (
            "syncFrequency: 5 minutes",
            "syncFrequency: \"5 minutes\": time: unknown unit \" minutes\" in duration \"5 minutes\"",
        ),
        ("syncFrequency: -1s", "syncFrequency: \"-1s\": duration \"-1s\" must not be negative"),
        ("clusterDNS: [10.96.0.10, dns]", "clusterDNS[1]: \"dns\": invalid IP address syntax"),
        ("clusterDNS: 10.96.0.10", "clusterDNS: \"10.96.0.10\": must be a list"),
        ("authorization: {mode: Open}", "authorization.mode: \"Open\": must be `AlwaysAllow` or `Webhook`"),
        (
            "systemReserved: {cpu: much}",
            "systemReserved.cpu: \"much\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', which \"much\" does not",
        ),
        ("cpuManagerPolicy: [a]", "cpuManagerPolicy: [\"a\"]: must be a text"),
        ("volumeStatsAggPeriod: -soon", "volumeStatsAggPeriod: \"-soon\": time: invalid duration \"soon\""),
        ("tracing: {endpont: x}", "tracing.endpont: \"x\": unknown field"),
        ("tracing: x", "tracing: \"x\": must be an object"),
        ("staticPodURLHeader: {X-Token: secret}", "staticPodURLHeader.X-Token: <masked>: must be a list"),
    ] {
        assert_eq!(
            refused(lines),
            format!("reading the configuration: file kubelet.yaml: {line}"),
            "{lines}"
        );
    }
}

#[test]
fn a_file_that_is_none_is_refused() {
    for (text, line) in [
        ("", "file kubelet.yaml is empty"),
        (
            "maxPods: 3\n",
            "file kubelet.yaml: apiVersion: is missing: it must be kubelet.config.k8s.io/v1beta1",
        ),
        (
            "apiVersion: v1\nkind: Pod\n",
            "file kubelet.yaml: apiVersion: \"v1\": must be kubelet.config.k8s.io/v1beta1",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\n",
            "file kubelet.yaml: kind: \"CredentialProviderConfig\": must be KubeletConfiguration",
        ),
        ("- 1\n", "file kubelet.yaml: it is not an object"),
    ] {
        let folder = Folder::new("").add("kubelet.yaml", text);
        assert_eq!(folder.refusal(&folder.sources()), format!("reading the configuration: {line}"), "{text}");
    }
    for text in [format!("{HEAD}maxPods: 3\nmaxPods: 4\n"), format!("{HEAD}maxPods: [\n")] {
        let folder = Folder::new("").add("kubelet.yaml", &text);
        let line = folder.refusal(&folder.sources());
        assert!(line.starts_with("reading the configuration: file kubelet.yaml: "), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    let folder = Folder::new("");
    std::fs::remove_file(folder.0.path().join("kubelet.yaml")).unwrap();
    let line = folder.refusal(&folder.sources());
    assert!(line.starts_with("reading the configuration: file kubelet.yaml: No such file"), "{line}");
}

#[test]
fn a_field_not_heeded_is_warned_of_unless_it_says_what_happens_anyway() {
    let lines = "cpuManagerPolicy: static\nshutdownGracePeriod: 30s\nimageGCHighThresholdPercent: 85\n\
                 memorySwap: {swapBehavior: LimitedSwap}\nlogging: {vmodule: [{filePattern: a, verbosity: 3}]}\n\
                 evictionMaxPodGracePeriod: 10\n";
    let line =
        |what: &str| format!("file kubelet.yaml: {what} is not supported in this version and has no effect");
    assert_eq!(
        warnings(lines),
        [
            line("cpuManagerPolicy: \"static\""),
            line("evictionMaxPodGracePeriod: 10"),
            line("imageGCHighThresholdPercent: 85"),
            line("logging.vmodule: [{\"filePattern\":\"a\",\"verbosity\":3}]"),
            line("memorySwap.swapBehavior: \"LimitedSwap\""),
            line("shutdownGracePeriod: \"30s\""),
        ],
    );
    let quiet = "cpuManagerPolicy: none\nshutdownGracePeriod: 0s\nimageGCHighThresholdPercent: 100\n\
                 memorySwap: {}\nrotateCertificates: false\nreadOnlyPort: 0\ntracing: null\n\
                 streamingConnectionIdleTimeout: 1h\nlogging: {flushFrequency: 5000000000, options: {}}\n";
    assert_eq!(warnings(quiet), Vec::<String>::new());
}

#[test]
fn a_guarantee_that_is_not_given_is_told_apart_from_other_warnings() {
    let guarantees = |lines: &str| {
        let told = loaded(lines).unmet_guarantees;
        let paths = told.iter().map(|line| {
            assert!(line.ends_with("is not supported in this version and has no effect"), "{line}");
            line.split(": ").nth(1).unwrap().to_owned()
        });
        paths.collect::<Vec<_>>()
    };
    let lines = "cpuManagerPolicy: static\nmemoryManagerPolicy: Static\ntopologyManagerPolicy: restricted\n\
                 rotateCertificates: true\nserverTLSBootstrap: true\nshutdownGracePeriod: 30s\n\
                 imageGCHighThresholdPercent: 85\nfeatureGates: {Unheard: true}\n";
    assert_eq!(
        guarantees(lines),
        [
            "cpuManagerPolicy",
            "memoryManagerPolicy",
            "rotateCertificates",
            "serverTLSBootstrap",
            "shutdownGracePeriod",
            "topologyManagerPolicy",
        ]
    );
    let quiet =
        "cpuManagerPolicy: none\nrotateCertificates: false\nshutdownGracePeriod: 0s\nreadOnlyPort: 1\n";
    assert_eq!(guarantees(quiet), Vec::<String>::new());
}

#[test]
fn settings_of_the_kernel_are_heeded() {
    assert_eq!(warnings("protectKernelDefaults: true\nmakeIPTablesUtilChains: true\n"), Vec::<String>::new());
}

#[test]
fn what_kubeadm_writes_starts() {
    let lines = "authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, \
                 x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\n\
                 authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}\n\
                 cgroupDriver: systemd\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n\
                 containerRuntimeEndpoint: ''\ncpuManagerReconcilePeriod: 0s\ncrashLoopBackOff: {}\n\
                 evictionPressureTransitionPeriod: 0s\nfileCheckFrequency: 0s\nhealthzBindAddress: 127.0.0.1\n\
                 healthzPort: 10248\nhttpCheckFrequency: 0s\nimageMaximumGCAge: 0s\nimageMinimumGCAge: 0s\n\
                 logging: {flushFrequency: 0, options: {json: {infoBufferSize: '0'}, text: {infoBufferSize: '0'}}, \
                 verbosity: 0}\nmemorySwap: {}\nnodeStatusReportFrequency: 0s\nnodeStatusUpdateFrequency: 0s\n\
                 resolvConf: /run/systemd/resolve/resolv.conf\nrotateCertificates: true\n\
                 runtimeRequestTimeout: 0s\nshutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s\n\
                 staticPodPath: /etc/kubernetes/manifests\nstreamingConnectionIdleTimeout: 0s\n\
                 syncFrequency: 0s\nvolumeStatsAggPeriod: 0s\n";
    let warnings = warnings(lines);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("rotateCertificates: true"), "{warnings:?}");
}

#[test]
fn gates_are_warned_of_where_they_do_not_say_what_happens() {
    assert_eq!(
        warnings(
            "featureGates: {SidecarContainers: true, MemoryQoS: true, Unheard: false, CustomCPUCFSQuotaPeriod: false}"
        ),
        [
            "feature gate CustomCPUCFSQuotaPeriod can't be switched off here",
            "feature gate MemoryQoS can't be switched on here",
            "feature gate Unheard is not known here and has no effect",
        ],
    );
}

#[test]
fn configz_tells_all_settings_and_no_secrets() {
    let configz = configuration("maxPods: 7\nstaticPodURLHeader: {X-Token: [secret]}\n").to_configz();
    assert_eq!((&configz["maxPods"], &configz["port"]), (&7.into(), &10250.into()));
    assert_eq!(
        (&configz["cpuManagerPolicy"], &configz["memorySwap"]["swapBehavior"]),
        (&"none".into(), &"NoSwap".into())
    );
    assert_eq!(configz["staticPodURLHeader"]["X-Token"], serde_json::json!(["<masked>"]));
    assert!(!configz.to_string().contains("secret"));
}
