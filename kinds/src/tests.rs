//! The same fields are decoded from both encodings of an object.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_api::schema;
use steersman_informer::Object;
use steersman_informer::wire::Encoding;

use super::endpoints::Endpoints;
use super::node::Node;
use super::pod::Pod;
use super::service::Service;

/// The fields of all groups, decoded from an object's JSON and from its protobuf.
fn kept<K: Object>(kind: &str, object: &Value) -> [String; 2] {
    let kind = schema::table().kind("", "v1", kind).unwrap();
    let protobuf = schema::to_protobuf(kind, object).unwrap();
    [(object.to_string().into(), Encoding::Json), (protobuf.into(), Encoding::Protobuf)]
        .map(|(body, encoding)| format!("{:?}", K::decode(&body, encoding, u64::MAX).unwrap()))
}

fn name() -> impl Strategy<Value = String> {
    "[a-c]{0,2}"
}

fn ip() -> impl Strategy<Value = String> {
    prop_oneof!["10\\.0\\.0\\.[1-9]", "fd00::[1-9a-f]", Just("010.0.0.01".to_owned()), Just("no".to_owned())]
}

fn conditions() -> impl Strategy<Value = Vec<Value>> {
    let kind = prop_oneof![Just("Ready"), Just("DisruptionTarget"), Just("Initialized")];
    let status = prop_oneof![Just("True"), Just("False"), Just("Unknown")];
    let one = (kind, status, option::of(0..9_u8)).prop_map(|(kind, status, day)| {
        let changed = day.map(|day| format!("2026-01-0{}T00:00:00Z", day + 1));
        json!({"type": kind, "status": status, "lastTransitionTime": changed})
    });
    vec(one, 0..4)
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let protocol = prop_oneof![Just("TCP"), Just("UDP")];
    let port = (name(), protocol, 1..9_i32).prop_map(
        |(name, protocol, port)| json!({"name": name, "protocol": protocol, "containerPort": port}),
    );
    let policy = option::of(prop_oneof![Just("Always"), Just("Never")]);
    let one = (name(), vec(port, 0..3), policy)
        .prop_map(|(name, ports, policy)| json!({"name": name, "ports": ports, "restartPolicy": policy}));
    vec(one, 0..3)
}

fn subsets() -> impl Strategy<Value = Vec<Value>> {
    let address = (ip(), option::of(name()), option::of(name())).prop_map(|(ip, node, target)| {
        json!({"ip": ip, "nodeName": node, "targetRef": target.map(|name| json!({"kind": "Pod", "name": name, "uid": name}))})
    });
    let port = (name(), 1..4_i32, option::of(name()))
        .prop_map(|(name, port, protocol)| json!({"name": name, "port": port, "appProtocol": protocol}));
    let addresses = vec(address, 0..3).boxed();
    let one = (addresses.clone(), addresses, vec(port, 0..3)).prop_map(
        |(ready, others, ports)| json!({"addresses": ready, "notReadyAddresses": others, "ports": ports}),
    );
    vec(one, 0..3)
}

proptest! {
    #[test]
    fn pods_and_nodes_are_the_same_in_both_encodings(
        conditions in conditions(), containers in containers(), init in containers(),
        hostname in name(), ips in vec(ip(), 0..3),
    ) {
        let pod_ips: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        let pod = json!({
            "spec": {"hostname": hostname, "initContainers": init, "containers": containers, "nodeName": "n"},
            "status": {"phase": "Failed", "podIP": ips.first(), "podIPs": pod_ips, "conditions": conditions},
        });
        let [json, protobuf] = kept::<Pod>("Pod", &pod);
        prop_assert_eq!(json, protobuf);
        let taints = json!([{"key": hostname, "effect": "NoExecute"}]);
        let node = json!({"spec": {"taints": taints}, "status": {"conditions": conditions}});
        let [json, protobuf] = kept::<Node>("Node", &node);
        prop_assert_eq!(json, protobuf);
    }

    #[test]
    fn services_and_endpoints_are_the_same_in_both_encodings(
        subsets in subsets(), name in name(), number in 1..9_i32, families in vec("IPv[46]", 0..3), any_state in any::<bool>(),
    ) {
        let service = json!({"spec": {
            "type": "ClusterIP", "clusterIP": "None", "ipFamilies": families, "publishNotReadyAddresses": any_state,
            "selector": {"app": name}, "ports": [
                {"name": name, "protocol": "TCP", "targetPort": number},
                {"name": "named", "targetPort": name, "appProtocol": name},
            ],
        }});
        let [json, protobuf] = kept::<Service>("Service", &service);
        prop_assert_eq!(json, protobuf);
        let endpoints = json!({"metadata": {"annotations": {"a": name}}, "subsets": subsets});
        let [json, protobuf] = kept::<Endpoints>("Endpoints", &endpoints);
        prop_assert_eq!(json, protobuf);
    }
}
