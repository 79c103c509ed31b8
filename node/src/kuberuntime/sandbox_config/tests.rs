//! Sandboxes, as tables over specs.

use serde_json::{Value, json};

use super::*;
use crate::kuberuntime::container_config::NodeFacts;

fn pod(spec: Value) -> Pod {
    let metadata = json!({
        "name": "web", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"}, "annotations": {"a": "b"},
    });
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn configured(spec: Value) -> Result<v1::PodSandboxConfig, String> {
    configured_in(spec, "web", "")
}

fn configured_in(spec: Value, hostname: &str, domain: &str) -> Result<v1::PodSandboxConfig, String> {
    let dns = v1::DnsConfig { servers: vec!["10.0.0.10".to_owned()], ..v1::DnsConfig::default() };
    let node = NodeFacts { memory_capacity: 1, ..NodeFacts::of_this_machine("/var/lib/kubelet".as_ref()) };
    let inputs = SandboxInputs {
        dns: &dns,
        hostname,
        domain,
        cgroup_parent: "/kubepods/podu-1",
        log_directory: "/var/log/pods/shop_web_u-1",
        extra_supplemental_groups: &[77],
        node: &node,
    };
    pod_sandbox_config(&pod(spec), 3, &inputs)
}

fn security(spec: Value) -> v1::LinuxSandboxSecurityContext {
    configured(spec).unwrap().linux.unwrap().security_context.unwrap()
}

#[test]
fn a_sandbox_is_told_whose_it_is_and_what_it_is_given() {
    let config = configured(json!({
        "containers": [], "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "9"}]},
    }));
    let config = config.unwrap();
    let metadata = config.metadata.unwrap();
    assert_eq!((metadata.name.as_str(), metadata.namespace.as_str()), ("web", "shop"));
    assert_eq!((metadata.uid.as_str(), metadata.attempt), ("u-1", 3));
    assert_eq!(config.hostname, "web");
    assert_eq!(config.log_directory, "/var/log/pods/shop_web_u-1");
    assert_eq!(config.dns_config.unwrap().servers, ["10.0.0.10"]);
    assert_eq!(config.labels["app"], "web");
    assert_eq!(config.labels["io.kubernetes.pod.uid"], "u-1");
    assert_eq!(config.annotations["a"], "b");
    let linux = config.linux.unwrap();
    assert_eq!(linux.cgroup_parent, "/kubepods/podu-1");
    assert_eq!(linux.sysctls, [("net.core.somaxconn".to_owned(), "9".to_owned())].into());
    assert_eq!(linux.overhead, Some(v1::LinuxContainerResources::default()));
    assert_eq!(linux.resources.unwrap().cpu_shares, 2);
}

#[test]
fn settings_are_told_with_dots_between_their_parts() {
    for (name, told) in [
        ("kernel.shm_rmid_forced", "kernel.shm_rmid_forced"),
        ("kernel/shm_rmid_forced", "kernel.shm_rmid_forced"),
        ("net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
        ("net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
    ] {
        let context = json!({"sysctls": [{"name": name, "value": "1"}]});
        let config = configured(json!({"containers": [], "securityContext": context})).unwrap();
        assert_eq!(config.linux.unwrap().sysctls, [(told.to_owned(), "1".to_owned())].into(), "{name}");
    }
}

#[test]
fn host_names_are_of_pods_with_a_network_of_their_own() {
    let long = "d".repeat(61);
    let too_long = format!(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN web.{long} is too long (64 characters is the max, 65 characters requested)"
    );
    for (spec, domain, expected) in [
        (json!({}), "", Ok("web".to_owned())),
        (json!({}), "sub.local", Ok("web".to_owned())),
        (json!({"setHostnameAsFQDN": true}), "", Ok("web".to_owned())),
        (json!({"setHostnameAsFQDN": true}), "sub.local", Ok("web.sub.local".to_owned())),
        (json!({"setHostnameAsFQDN": true, "hostNetwork": true}), "sub.local", Ok(String::new())),
        (json!({"setHostnameAsFQDN": true}), long.as_str(), Err(too_long)),
        (json!({"setHostnameAsFQDN": true}), &long[1..], Ok(format!("web.{}", &long[1..]))),
    ] {
        let case = format!("{spec} {domain}");
        let mut spec = spec;
        spec["containers"] = json!([]);
        let given = configured_in(spec, "web", domain).map(|config| config.hostname);
        assert_eq!(given, expected, "{case}");
    }
}

#[test]
fn each_port_is_mapped_once() {
    let first = json!([
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 80, "hostPort": 8080, "protocol": "UDP"},
        {"containerPort": 80, "hostPort": 8080, "hostIP": "::"},
        {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1", "protocol": "SCTP"},
        {"name": "web", "containerPort": 81},
        {"name": "web", "containerPort": 82},
    ]);
    // Another container may say the same.
    let second = json!([{"name": "web", "containerPort": 83, "protocol": "ODD"}]);
    let init = json!([{"name": "i", "ports": [{"containerPort": 90}]}]);
    let containers = json!([{"name": "a", "ports": first}, {"name": "b", "ports": second}]);
    let config = configured(json!({"containers": containers, "initContainers": init})).unwrap();
    let ports: Vec<_> = config
        .port_mappings
        .iter()
        .map(|port| {
            (port.protocol().as_str_name(), port.container_port, port.host_port, port.host_ip.as_str())
        })
        .collect();
    assert_eq!(
        ports,
        [
            ("TCP", 80, 8080, ""),
            ("UDP", 80, 8080, ""),
            ("TCP", 80, 8080, "::"),
            ("SCTP", 80, 8080, "127.0.0.1"),
            ("TCP", 81, 0, ""),
            ("TCP", 83, 0, ""),
        ]
    );
}

#[test]
fn namespaces_are_as_the_pod_shares_them() {
    use v1::NamespaceMode::{Container, Node, Pod as OfPod};
    for (spec, network, pid, ipc) in [
        (json!({}), OfPod, Container, OfPod),
        (json!({"hostNetwork": true, "hostPID": true, "hostIPC": true}), Node, Node, Node),
        (json!({"shareProcessNamespace": true}), OfPod, OfPod, OfPod),
        (json!({"shareProcessNamespace": false}), OfPod, Container, OfPod),
        (json!({"shareProcessNamespace": true, "hostPID": true}), OfPod, Node, OfPod),
        (json!({"hostUsers": true}), OfPod, Container, OfPod),
    ] {
        let case = spec.to_string();
        let mut spec = spec;
        spec["containers"] = json!([]);
        let given = security(spec).namespace_options.unwrap();
        let expected = (network as i32, pid as i32, ipc as i32);
        assert_eq!((given.network, given.pid, given.ipc), expected, "{case}");
        let users = given.userns_options.unwrap();
        assert_eq!((users.mode, users.uids.len()), (Node as i32, 0), "{case}");
    }
    assert_eq!(
        configured(json!({"containers": [], "hostUsers": false})).unwrap_err(),
        "can't set spec.HostUsers to false: this node has no user namespaces for pods"
    );
}

#[test]
fn a_sandbox_runs_as_the_pod_says() {
    let context = security(json!({"containers": [], "securityContext": {
        "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4], "supplementalGroupsPolicy": "Strict",
        "seLinuxOptions": {"level": "s0"}, "seccompProfile": {"type": "Unconfined"},
    }}));
    assert_eq!(context.run_as_user, Some(v1::Int64Value { value: 1 }));
    assert_eq!(context.run_as_group, Some(v1::Int64Value { value: 2 }));
    assert_eq!(context.supplemental_groups, [3, 77, 4]);
    assert_eq!(context.supplemental_groups_policy, v1::SupplementalGroupsPolicy::Strict as i32);
    assert_eq!(context.selinux_options.unwrap().level, "s0");
    let runtime_default = v1::security_profile::ProfileType::RuntimeDefault as i32;
    assert_eq!(context.seccomp.unwrap().profile_type, runtime_default);
    let odd = json!({"containers": [], "securityContext": {"supplementalGroupsPolicy": "Odd"}});
    assert_eq!(configured(odd).unwrap_err(), "unsupported supplementalGroupsPolicy: Odd");
}

#[test]
fn one_privileged_container_makes_the_sandbox_privileged() {
    let of = |privileged| json!([{"name": "c", "securityContext": {"privileged": privileged}}]);
    for (spec, privileged) in [
        (json!({"containers": []}), false),
        (json!({"containers": of(false)}), false),
        (json!({"containers": of(true)}), true),
        (json!({"containers": [], "initContainers": of(true)}), true),
        (json!({"containers": [], "ephemeralContainers": of(true)}), true),
    ] {
        assert_eq!(security(spec.clone()).privileged, privileged, "{spec}");
    }
}
