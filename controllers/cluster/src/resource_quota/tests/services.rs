use serde_json::{Value, json};
use steersman_informer::View;
use steersman_kinds::service::Exposure;
use steersman_kinds::shared::Shared;

use super::super::MeasuredService;
use super::super::measures::of_service;
use super::text;

#[test]
fn node_ports_and_load_balancers_count_as_a_service_asks_for_them() {
    let two_ports = json!([{"port": 1, "nodePort": 30001}, {"port": 2}]);
    for (spec, balancers, node_ports) in [
        (json!({"type": "ClusterIP", "ports": two_ports}), 0, 0),
        (json!({"type": "ExternalName"}), 0, 0),
        (json!({"type": "NodePort", "ports": [{"port": 1}]}), 0, 1),
        (json!({"type": "NodePort", "ports": two_ports}), 0, 2),
        (json!({"type": "LoadBalancer"}), 1, 0),
        (json!({"type": "LoadBalancer", "ports": two_ports}), 1, 2),
        (json!({"type": "LoadBalancer", "ports": two_ports, "allocateLoadBalancerNodePorts": true}), 1, 2),
        (
            json!({"type": "LoadBalancer", "ports": [{"port": 1}], "allocateLoadBalancerNodePorts": false}),
            1,
            0,
        ),
        (json!({"type": "LoadBalancer", "ports": two_ports, "allocateLoadBalancerNodePorts": false}), 1, 1),
    ] {
        let expected = format!(
            "count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={node_ports}"
        );
        assert_eq!(usage(&spec), expected, "{spec}");
    }
}

fn usage(spec: &Value) -> String {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec});
    let service = View::<MeasuredService>::from_json(&service);
    text(&of_service(service.get::<Shared<Exposure>>()))
}
