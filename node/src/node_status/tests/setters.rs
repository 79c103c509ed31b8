//! Each setter by itself.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;

use super::*;
use crate::machine::{Family, Interface, Route};
use crate::node_status::addresses::{self, HostNetwork, PROVIDED_NODE_IP};
use crate::node_status::pressure::Pressure;
use crate::node_status::{capacity, conditions as condition_setters, images, system_info};

fn network(resolved: &[&str]) -> HostNetwork {
    let parse = |addresses: &[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
    let interface = |name: &str, loopback, addresses: &[&str]| Interface {
        name: name.to_owned(),
        up: true,
        loopback,
        point_to_point: false,
        addresses: parse(addresses),
    };
    let route = |family| Route { interface: "eth0".to_owned(), family };
    HostNetwork {
        interfaces: vec![
            interface("lo", true, &["127.0.0.1"]),
            interface("eth0", false, &["10.0.0.1", "10.0.0.2", "fd00::1"]),
        ],
        routes: Some(vec![route(Family::V4), route(Family::V6)]),
        resolved: parse(resolved),
    }
}

fn given(node_ips: &[&str], name: &str) -> Settings {
    let node_ips = node_ips.iter().map(|address| address.parse::<IpAddr>().unwrap()).collect();
    Settings { node_ips, node_name: name.to_owned(), ..settings() }
}

/// `InternalIP=10.0.0.1 Hostname=n`.
fn told(node: &Node) -> String {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    addresses.map(|one| format!("{}={}", one.type_, one.address)).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_address_is_the_one_given_else_of_the_name_else_of_the_default_route() {
    let of = |settings: &Settings, resolved: &[&str]| {
        let mut node = Node::default();
        addresses::set(&mut node, settings, &network(resolved)).map(|()| told(&node))
    };
    for (node_ips, name, resolved, expected) in [
        (&["10.0.0.2"][..], "n", &[][..], "InternalIP=10.0.0.2 Hostname=n"),
        (&["10.0.0.2", "fd00::1"], "n", &[], "InternalIP=10.0.0.2 InternalIP=fd00::1 Hostname=n"),
        (&[], "192.0.2.10", &["10.0.0.2"], "InternalIP=192.0.2.10 Hostname=192.0.2.10"),
        (&[], "n", &["127.0.0.1", "10.0.0.2", "10.0.0.1"], "InternalIP=10.0.0.2 Hostname=n"),
        (&[], "n", &["fd00::1", "10.0.0.2"], "InternalIP=10.0.0.2 Hostname=n"),
        (&[], "n", &["fd00::1"], "InternalIP=fd00::1 Hostname=n"),
        (&["::"], "n", &["10.0.0.2", "fd00::1"], "InternalIP=fd00::1 Hostname=n"),
        (&[], "n", &["127.0.0.1", "10.9.9.9"], "InternalIP=10.0.0.1 Hostname=n"),
        (&["0.0.0.0"], "n", &[], "InternalIP=10.0.0.1 Hostname=n"),
        (&["::"], "n", &[], "InternalIP=fd00::1 Hostname=n"),
    ] {
        assert_eq!(
            of(&given(node_ips, name), resolved).as_deref(),
            Ok(expected),
            "{node_ips:?} {resolved:?}"
        );
    }
    let error = of(&given(&["10.9.9.9"], "n"), &[]).unwrap_err();
    assert_eq!(
        error,
        "failed to validate nodeIP: node IP: \"10.9.9.9\" not found in the host's network interfaces"
    );
    let mut alone = given(&["127.0.0.1"], "n");
    assert_eq!(of(&alone, &[]).unwrap_err(), "failed to validate nodeIP: nodeIP can't be loopback address");
    alone.loopback = true;
    assert_eq!(of(&alone, &[]).as_deref(), Ok("InternalIP=127.0.0.1 Hostname=n"));
    let mut node = Node::default();
    let nothing = HostNetwork { routes: Some(vec![]), ..HostNetwork::default() };
    assert_eq!(
        addresses::set(&mut node, &given(&[], "n"), &nothing).unwrap_err(),
        "can't get ip address of node n. error: unable to select an IP from default routes."
    );
    assert!(addresses::needs_lookup(&given(&[], "n")) && addresses::needs_lookup(&given(&["::"], "n")));
    assert!(!addresses::needs_lookup(&given(&["10.0.0.1"], "n")));
    assert!(!addresses::needs_lookup(&given(&[], "192.0.2.10")));
}

#[test]
fn a_cloud_provider_is_told_the_given_address_and_its_own_addresses_stay() {
    let mut cloud = given(&[], "n");
    cloud.external_cloud_provider = true;
    let mut node = Node::default();
    addresses::set(&mut node, &cloud, &network(&[])).unwrap();
    assert_eq!(told(&node), "Hostname=n", "the rest is the cloud's to tell");
    cloud.node_ips = vec!["10.0.0.2".parse().unwrap()];
    let mut node = Node::default();
    addresses::set(&mut node, &cloud, &network(&[])).unwrap();
    assert_eq!(told(&node), "InternalIP=10.0.0.2 Hostname=n");
    assert_eq!(node.metadata.annotations.as_ref().unwrap()[PROVIDED_NODE_IP], "10.0.0.2");
    let external = json!([{ "type": "ExternalIP", "address": "198.51.100.1" }]);
    node.status.as_mut().unwrap().addresses = read(external);
    addresses::set(&mut node, &cloud, &network(&[])).unwrap();
    assert_eq!(told(&node), "ExternalIP=198.51.100.1");
    // Without a cloud provider the annotation goes.
    addresses::set(&mut node, &given(&[], "192.0.2.10"), &network(&[])).unwrap();
    assert_eq!(node.metadata.annotations, Some(Default::default()));
}

#[test]
fn pods_are_told_one_address_of_each_family() {
    let of = |addresses: Value| addresses::host_ips(&node(json!({ "status": { "addresses": addresses } })));
    let address = |kind: &str, address: &str| json!({ "type": kind, "address": address });
    assert_eq!(
        of(json!([
            address("ExternalIP", "198.51.100.1"),
            address("Hostname", "10.0.0.9"),
            address("InternalIP", "10.0.0.1"),
            address("InternalIP", "10.0.0.2"),
            address("InternalIP", "fd00::1"),
        ])),
        ["10.0.0.1", "fd00::1"]
    );
    assert_eq!(of(json!([address("ExternalIP", "fd00::1")])), ["fd00::1"]);
    assert!(of(json!([address("Hostname", "n")])).is_empty());
}

#[test]
fn capacity_is_what_the_machine_has() {
    let of = |facts: &Facts, settings: &Settings| json!(capacity::capacity(facts, settings));
    assert_eq!(
        of(&facts(), &settings()),
        json!({ "cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110" })
    );
    let huge_pages = [(2 << 20, 3), (1 << 30, 0)];
    let with_huge_pages = Facts {
        huge_pages: huge_pages.map(|(size, count)| crate::machine::HugePages { size, count }).into(),
        ..facts()
    };
    for (per_core, max, expected) in [(10, 110, "40"), (50, 110, "110"), (0, 7, "7")] {
        let settings = Settings {
            pods_per_core: per_core,
            max_pods: max,
            local_storage_capacity_isolation: false,
            ..settings()
        };
        assert_eq!(
            of(&with_huge_pages, &settings),
            json!({ "cpu": "4", "memory": "8Gi", "pods": expected, "hugepages-2Mi": "6Mi", "hugepages-1Gi": "0" })
        );
    }
}

#[test]
fn allocatable_is_what_is_left_of_it() {
    let configuration = KubeletConfiguration {
        system_reserved: read(json!({ "cpu": "500m", "memory": "1Gi" })),
        kube_reserved: read(json!({ "cpu": "250m", "ephemeral-storage": "1Gi" })),
        ..KubeletConfiguration::default()
    };
    let reserving = Settings::new("n", "v", &configuration).unwrap();
    let mut node = node(json!({ "status": {
        "capacity": { "example.com/gpu": "2", "memory": "1Gi" },
        "allocatable": { "example.com/gpu": "1", "example.com/gone": "1", "other": "1" },
    } }));
    capacity::set(&mut node, &facts(), &reserving);
    let status = node.status.unwrap();
    assert_eq!(
        json!(status.capacity),
        json!({ "cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110", "example.com/gpu": "2" })
    );
    // 100Gi, less 1Gi, less 10 % of it as upstream rounds that.
    let storage = (100_i64 << 30) - (1 << 30) - 10_737_418_400;
    assert_eq!(
        json!(status.allocatable),
        json!({
            "cpu": "3250m", "memory": "7068Mi", "ephemeral-storage": storage.to_string(), "pods": "110",
            "example.com/gpu": "2", "other": "1",
        })
    );
}

#[test]
fn huge_pages_are_no_memory_and_nothing_is_less_than_nothing() {
    let huge_pages = vec![crate::machine::HugePages { size: 1 << 30, count: 7 }];
    let mut node = Node::default();
    capacity::set(&mut node, &Facts { huge_pages: huge_pages.clone(), ..facts() }, &settings());
    let of =
        |node: &Node, name: &str| node.status.as_ref().unwrap().allocatable.as_ref().unwrap()[name].0.clone();
    assert_eq!((of(&node, "memory"), of(&node, "hugepages-1Gi")), ("924Mi".to_owned(), "7Gi".to_owned()));
    let small = Facts { memory: 1 << 30, huge_pages, ..facts() };
    capacity::set(&mut node, &small, &settings());
    assert_eq!(of(&node, "memory"), "0");
    for (name, extended) in [
        ("example.com/gpu", true),
        ("cpu", false),
        ("kubernetes.io/x", false),
        ("attachable-volumes-x", false),
        ("requests.example.com/x", false),
    ] {
        assert_eq!(capacity::is_extended_resource(name), extended, "{name}");
    }
}

#[test]
fn the_node_tells_what_it_runs() {
    let (_, inventory) = well();
    inventory.change(|known| {
        let features =
            Some(v1::RuntimeHandlerFeatures { recursive_read_only_mounts: true, user_namespaces: false });
        known.handlers = vec![v1::RuntimeHandler { name: String::new(), features }];
        known.features = Some(v1::RuntimeFeatures {
            supplemental_groups_policy: true,
            user_namespaces_host_network: false,
        });
    });
    let mut node = Node::default();
    let swapping = Facts { swap: 1 << 30, ..facts() };
    let rebooted = system_info::set(&mut node, &swapping, &inventory.get(), &settings());
    assert_eq!(rebooted, None, "it was not there before");
    assert_eq!(
        status_of(&node),
        json!({
            "nodeInfo": {
                "architecture": "amd64", "bootID": "b-1", "containerRuntimeVersion": "containerd://1.6.20",
                "kernelVersion": "6.1.0", "kubeProxyVersion": "", "kubeletVersion": "v1.36.3",
                "machineID": "m-1", "operatingSystem": "linux", "osImage": "Debian", "systemUUID": "u-1",
                "swap": { "capacity": 1 << 30 },
            },
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "runtimeHandlers": [
                { "name": "", "features": { "recursiveReadOnlyMounts": true, "userNamespaces": false } },
            ],
            "features": { "supplementalGroupsPolicy": true },
            "declaredFeatures": [
                "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
                "RestartAllContainersOnContainerExits",
            ],
        })
    );
    let again = Facts { boot_id: "b-2".to_owned(), ..facts() };
    let rebooted = system_info::set(&mut node, &again, &inventory.get(), &settings()).unwrap();
    assert_eq!(
        (rebooted.kind.as_str(), rebooted.reason, rebooted.message.as_str()),
        ("Warning", "Rebooted", "Node 192.0.2.10 has been rebooted, boot id: b-2")
    );
}

#[test]
fn versions_of_runtimes_are_printed_as_upstream_does() {
    for (version, expected) in [
        ("1.6.20", "1.6.20"),
        ("v1.7.0", "1.7.0"),
        ("1.6.20~ds1", "1.6.20"),
        ("2.0.0-rc.1", "2.0.0-rc.1"),
        ("1.2.3+build", "1.2.3+build"),
        ("1.30", "1.30"),
        ("1.30-x", "1.30"),
        ("0.0.1.2-x", "0.0.1.2"),
        ("unknown", "Unknown"),
        ("", "Unknown"),
        ("7", "Unknown"),
    ] {
        assert_eq!(system_info::runtime_version(version), expected, "{version}");
    }
}

#[test]
fn the_largest_images_are_told_with_five_names_each() {
    let image = |id: &str, size, digests: usize, tags: usize| v1::Image {
        id: id.to_owned(),
        size,
        repo_digests: (0..digests).map(|at| format!("{id}@{at}")).collect(),
        repo_tags: (0..tags).map(|at| format!("{id}:{at}")).collect(),
        ..v1::Image::default()
    };
    let mut all = vec![image("a", 1, 1, 1), image("b", 3, 3, 4), image("c", 1, 0, 1)];
    images::sort(&mut all);
    let mut node = Node::default();
    images::set(&mut node, &all, Some(2));
    assert_eq!(
        status_of(&node),
        json!({ "images": [
            { "names": ["b@0", "b@1", "b@2", "b:0", "b:1"], "sizeBytes": 3 },
            { "names": ["c:0"], "sizeBytes": 1 },
        ] })
    );
    images::set(&mut node, &all, None);
    assert_eq!(node.status.unwrap().images.unwrap().len(), 3);
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn pressures_become_conditions_and_their_changes_events() {
    let mut node = node(json!({ "metadata": { "name": "n" } }));
    let none = BTreeSet::new();
    let reasons = |events: &[crate::node_status::events::NodeEvent]| {
        events.iter().map(|event| event.reason).collect::<Vec<_>>()
    };
    let first = condition_setters::set_pressures(&mut node, &none, at(1));
    assert_eq!(reasons(&first), ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]);
    assert_eq!(first[0].message, "Node n status is now: NodeHasSufficientMemory");
    assert!(condition_setters::set_pressures(&mut node, &none, at(2)).is_empty());
    let all = BTreeSet::from([Pressure::Memory, Pressure::Disk, Pressure::Pid]);
    let changed = condition_setters::set_pressures(&mut node, &all, at(3));
    assert_eq!(
        reasons(&changed),
        ["NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID"]
    );
    condition_setters::set_pressures(&mut node, &BTreeSet::from([Pressure::Disk]), at(4));
    let condition = |kind: &str, status: &str, reason: &str, message: &str, since: u32| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "1970-01-01T00:00:04Z",
            "lastTransitionTime": format!("1970-01-01T00:00:0{since}Z"),
        })
    };
    assert_eq!(
        status_of(&node)["conditions"],
        json!([
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
                4
            ),
            condition(
                "DiskPressure",
                "True",
                "KubeletHasDiskPressure",
                "kubelet has disk pressure: it does not remove images or evict pods, so free disk space by hand",
                3
            ),
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
                4
            ),
        ])
    );
}

#[test]
fn a_node_is_ready_unless_something_is_wrong() {
    let wrong = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let required = ["cpu", "memory"];
    let mut node = node(json!({
        "metadata": { "name": "n" },
        "status": { "capacity": { "cpu": "1", "memory": "1" } },
    }));
    let ready = |node: &Node| {
        let ready = condition_setters::condition(node, "Ready").unwrap().clone();
        (ready.status, ready.reason.unwrap(), ready.message.unwrap(), ready.last_transition_time.unwrap().0)
    };
    let of = |status: &str, reason: &str, message: &str, since| {
        (status.to_owned(), reason.to_owned(), message.to_owned(), at(since))
    };
    // The first time nobody is told.
    assert_eq!(condition_setters::set_ready(&mut node, wrong(&["a"]), &required, at(1)), None);
    assert_eq!(ready(&node), of("False", "KubeletNotReady", "a", 1));
    assert_eq!(condition_setters::set_ready(&mut node, wrong(&["a", "b", "a"]), &required, at(2)), None);
    assert_eq!(ready(&node), of("False", "KubeletNotReady", "[a, b]", 1));
    let event = condition_setters::set_ready(&mut node, vec![], &required, at(3)).unwrap();
    assert_eq!(event.message, "Node n status is now: NodeReady");
    assert_eq!(ready(&node), of("True", "KubeletReady", "kubelet is posting ready status", 3));
    assert!(condition_setters::is_ready(&node));
    let lacking = ["cpu", "pods", "ephemeral-storage"];
    let event = condition_setters::set_ready(&mut node, vec![], &lacking, at(4)).unwrap();
    assert_eq!(event.reason, "NodeNotReady");
    let missing = "missing node capacity for resources: pods, ephemeral-storage";
    assert_eq!(ready(&node), of("False", "KubeletNotReady", missing, 4));
}
