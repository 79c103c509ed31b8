use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::*;
use crate::machine::Family;

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "1-2",
            "labels": { "tier": "front", "app.example.com/name": "we\"b\n" },
            "annotations": { "Note": "grüße \u{200b}\u{7}" },
        },
        "spec": {
            "nodeName": "n1", "serviceAccountName": "robot",
            "containers": [
                { "name": "limited", "resources": {
                    "limits": { "cpu": "1500m", "memory": "100Mi", "hugepages-2Mi": "4Mi" },
                    "requests": { "cpu": "250m", "memory": "1", "ephemeral-storage": "1Gi" } } },
                { "name": "free" },
            ],
            "initContainers": [{ "name": "init" }],
        },
    }))
    .unwrap()
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[test]
fn fields_of_the_pod_are_told_in_upstreams_form() {
    let addresses =
        PodAddresses::new(&texts(["fd00::5", "10.0.0.5"]), &texts(["192.168.0.1", "fd00::1"]), Family::V4);
    for (path, expected) in [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "1-2"),
        ("metadata.labels['tier']", "front"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['Note']", "grüße \u{200b}\u{7}"),
        ("metadata.labels", "app.example.com/name=\"we\\\"b\\n\"\ntier=\"front\""),
        ("metadata.annotations", "Note=\"grüße \\u200b\\a\""),
        ("spec.nodeName", "n1"),
        ("spec.host", "n1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.0.0.5"),
        ("status.podIPs", "10.0.0.5,fd00::5"),
        ("status.hostIP", "192.168.0.1"),
        ("status.hostIPs", "192.168.0.1,fd00::1"),
    ] {
        assert_eq!(field_value(&pod(), path, &addresses).as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn fields_that_are_none_are_refused_by_name() {
    for path in ["status.phase", "metadata", "spec['a']", "metadata.labels['a b']", "metadata.labels['']"] {
        let refused = field_value(&pod(), path, &PodAddresses::default()).unwrap_err();
        assert!(refused.contains(path), "{refused}");
    }
    assert!(field_value(&pod(), "status.hostIP", &PodAddresses::default()).is_err());
    let refused = metadata_value(&pod(), "spec.nodeName").unwrap_err();
    assert_eq!(refused, "unsupported fieldPath: spec.nodeName");
}

#[test]
fn a_pod_without_address_has_an_empty_one() {
    let addresses = PodAddresses::new(&[], &texts(["fd00::1"]), Family::V6);
    assert_eq!(field_value(&pod(), "status.podIPs", &addresses).as_deref(), Ok(""));
}

#[test]
fn a_pod_has_one_address_of_each_family_that_of_the_node_ip_first() {
    for (of_sandbox, node_ip, expected) in [
        (&["10.0.0.1"][..], Some("192.168.0.1"), &["10.0.0.1"][..]),
        (&["fd00::1", "10.0.0.1", "10.0.0.2"], Some("192.168.0.1"), &["10.0.0.1", "fd00::1"]),
        (&["10.0.0.1", "fd00:0:0::1"], Some("fd00::9"), &["fd00::1", "10.0.0.1"]),
        (&["10.0.0.1", "fd00::1"], Some("::"), &["fd00::1", "10.0.0.1"]),
        // Whatever addresses the node then has.
        (&["fd00::1", "10.0.0.1"], None, &["10.0.0.1", "fd00::1"]),
        (&["::ffff:10.0.0.1"], None, &["10.0.0.1"]),
        (&["", "none"], None, &[]),
        (&[], None, &[]),
    ] {
        let node_ips: Vec<_> = node_ip.iter().map(|ip| ip.parse().unwrap()).collect();
        let of_sandbox: Vec<_> = of_sandbox.iter().map(|ip| (*ip).to_owned()).collect();
        let told = PodAddresses::new(&of_sandbox, &[], Family::preferred(&node_ips));
        assert_eq!(told.pod_ips(), expected, "{of_sandbox:?} {node_ip:?}");
    }
}

fn allocatable() -> Allocatable {
    [("cpu", "2"), ("memory", "4Gi"), ("ephemeral-storage", "10Gi"), ("hugepages-2Mi", "8Mi")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into()
}

fn selector(container: &str, resource: &str, divisor: &str) -> ResourceFieldSelector {
    ResourceFieldSelector {
        container_name: Some(container.to_owned()),
        resource: resource.to_owned(),
        divisor: (!divisor.is_empty()).then(|| Quantity(divisor.to_owned())),
    }
}

#[test]
fn resources_are_in_units_of_the_divisor_rounded_up() {
    for (container, resource, divisor, expected) in [
        ("limited", "limits.cpu", "", "2"),
        ("limited", "limits.cpu", "0", "2"),
        ("limited", "limits.cpu", "1m", "1500"),
        ("limited", "limits.memory", "1", "104857600"),
        ("limited", "limits.memory", "1Mi", "100"),
        ("limited", "limits.memory", "1Gi", "1"),
        ("limited", "limits.hugepages-2Mi", "1Mi", "4"),
        ("limited", "limits.ephemeral-storage", "1Gi", "10"),
        ("limited", "requests.cpu", "1m", "250"),
        ("limited", "requests.memory", "1Mi", "1"),
        ("limited", "requests.ephemeral-storage", "1Mi", "1024"),
        ("free", "limits.cpu", "", "2"),
        ("free", "limits.memory", "1Mi", "4096"),
        ("free", "limits.hugepages-2Mi", "", "0"),
        ("free", "requests.cpu", "", "0"),
        ("init", "limits.cpu", "", "2"),
    ] {
        let selector = selector(container, resource, divisor);
        let value = file_resource_value(&pod(), &selector, &allocatable());
        assert_eq!(value.as_deref(), Ok(expected), "{container} {resource} / {divisor}");
    }
}

#[test]
fn an_environment_sees_the_pods_limits_where_the_container_has_none() {
    let mut pod = pod();
    let limits = BTreeMap::from([("cpu".to_owned(), Quantity("500m".to_owned()))]);
    let spec = pod.spec.as_mut().unwrap();
    spec.resources = Some(Default::default());
    spec.resources.as_mut().unwrap().limits = Some(limits);
    let free = pod.spec.as_ref().unwrap().containers[1].clone();
    for (container, resource, expected) in [
        ("", "limits.cpu", "500"),
        ("free", "limits.cpu", "500"),
        ("limited", "limits.cpu", "1500"),
        ("init", "limits.cpu", "0"),
    ] {
        let value = resource_value(&pod, &free, &selector(container, resource, "1m"), &allocatable());
        assert_eq!(value.as_deref(), Ok(expected), "{container:?} {resource}");
    }
    let memory = resource_value(&pod, &free, &selector("", "limits.memory", "1Gi"), &allocatable());
    assert_eq!(memory.as_deref(), Ok("4"));
}

#[test]
fn resources_that_are_none_are_refused_by_name() {
    for (container, resource, divisor, expected) in [
        ("limited", "limits.gpu", "", "unsupported container resource : limits.gpu"),
        ("limited", "cpu", "", "unsupported container resource : cpu"),
        ("limited", "usage.cpu", "", "unsupported container resource : usage.cpu"),
        ("absent", "limits.cpu", "", "container absent not found"),
        ("limited", "limits.cpu", "-0.1m", "the divisor of limits.cpu must be positive"),
    ] {
        let refused = file_resource_value(&pod(), &selector(container, resource, divisor), &allocatable());
        assert_eq!(refused.unwrap_err(), expected, "{resource}");
    }
}
