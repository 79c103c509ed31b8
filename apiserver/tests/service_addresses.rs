//! Ranges and addresses of services.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod common;

use common::{MERGE_PATCH, delete, get, patch, post};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

async fn service(server: &TestServer, name: &str, address: Value) -> Value {
    let spec = json!({"ports": [{"port": 80}], "clusterIP": address});
    post(server, SERVICES, json!({"metadata": {"name": name}, "spec": spec})).await.expect(201)
}

/// The names of all IPAddresses.
async fn given(server: &TestServer) -> Vec<String> {
    let all = get(server, ADDRESSES).await.expect(200);
    let names = all["items"].as_array().unwrap().iter().map(|address| &address["metadata"]["name"]);
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

async fn range(server: &TestServer, name: &str, cidrs: Value) -> common::Answer {
    post(server, CIDRS, json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}})).await
}

#[tokio::test]
async fn every_cluster_has_a_range_that_is_ready() {
    let server = TestServer::start().await;
    let cidr = get(&server, &format!("{CIDRS}/kubernetes")).await.expect(200);
    assert_eq!(cidr["spec"]["cidrs"], json!(["10.0.0.0/24"]));
    let ready = &cidr["status"]["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")));
    assert_eq!(ready["message"], "Kubernetes default Service CIDR is ready");
    delete(&server, &format!("{CIDRS}/kubernetes"), Value::Null).await.expect(200);
    let again = get(&server, &format!("{CIDRS}/kubernetes")).await.expect(200);
    assert_ne!(again["metadata"]["uid"], cidr["metadata"]["uid"]);
}

#[tokio::test]
async fn each_address_of_a_service_has_an_object_that_goes_with_it() {
    let server = TestServer::start().await;
    let web = service(&server, "web", Value::Null).await;
    let name = web["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert_eq!(given(&server).await, std::slice::from_ref(&name));
    let address = get(&server, &format!("{ADDRESSES}/{name}")).await.expect(200);
    let labels = json!({
        "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    assert_eq!(address["metadata"]["labels"], labels);
    let parent = json!({"resource": "services", "namespace": "default", "name": "web"});
    assert_eq!(address["spec"]["parentRef"], parent);
    assert_eq!(address["metadata"]["managedFields"][0]["manager"], "kube-apiserver");

    service(&server, "other", json!("10.0.0.77")).await;
    service(&server, "headless", json!("None")).await;
    assert_eq!(given(&server).await, [name.clone(), "10.0.0.77".to_owned()]);

    // An address that a service has comes back.
    delete(&server, &format!("{ADDRESSES}/{name}"), Value::Null).await.expect(200);
    let again = get(&server, &format!("{ADDRESSES}/{name}")).await.expect(200);
    assert_ne!(again["metadata"]["uid"], address["metadata"]["uid"]);

    delete(&server, &format!("{SERVICES}/web"), Value::Null).await.expect(200);
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": null, "clusterIPs": null}});
    patch(&server, MERGE_PATCH, &format!("{SERVICES}/other"), external).await.expect(200);
    assert!(given(&server).await.is_empty());
}

#[tokio::test]
async fn an_address_that_another_object_has_is_given_to_no_service() {
    let server = TestServer::start().await;
    let parent = json!({"group": "example.com", "resource": "gateways", "name": "a"});
    for name in ["10.0.0.2", "10.0.0.9"] {
        let address = json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
        post(&server, ADDRESSES, address).await.expect(201);
    }
    assert_eq!(service(&server, "web", Value::Null).await["spec"]["clusterIP"], "10.0.0.3");
    let taken =
        json!({"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.9"}});
    let (code, _, why) = post(&server, SERVICES, taken).await.refusal();
    assert!(
        code == 422 && why.contains("failed to allocate IP 10.0.0.9: provided IP is already allocated"),
        "{why}"
    );
    delete(&server, &format!("{ADDRESSES}/10.0.0.9"), Value::Null).await.expect(200);
    service(&server, "b", json!("10.0.0.9")).await;
}

#[tokio::test]
async fn services_get_addresses_from_further_ranges_while_these_are_ready() {
    let server = TestServer::start().await;
    range(&server, "more", json!(["10.9.0.0/30"])).await.expect(201);
    assert_eq!(service(&server, "a", json!("10.9.0.2")).await["spec"]["clusterIP"], "10.9.0.2");
    // The first range comes first.
    assert_eq!(service(&server, "b", Value::Null).await["spec"]["clusterIP"], "10.0.0.2");
    for number in 3..=254 {
        service(&server, &format!("s{number}"), Value::Null).await;
    }
    assert_eq!(service(&server, "c", Value::Null).await["spec"]["clusterIP"], "10.9.0.1");
    let full = json!({"metadata": {"name": "d"}, "spec": {"ports": [{"port": 80}]}});
    let (code, _, why) = post(&server, SERVICES, full).await.refusal();
    assert!(code == 500 && why.contains("range is full"), "{why}");

    delete(&server, &format!("{SERVICES}/c"), Value::Null).await.expect(200);
    let conditions = json!([{
        "type": "Ready", "status": "False", "reason": "Terminating", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let terminating = json!({"status": {"conditions": conditions}});
    patch(&server, MERGE_PATCH, &format!("{CIDRS}/more/status"), terminating).await.expect(200);
    let late = json!({"metadata": {"name": "c"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.9.0.1"}});
    let (code, _, why) = post(&server, SERVICES, late).await.refusal();
    assert!(code == 422 && why.contains("the provided network does not match the current range"), "{why}");
}

#[tokio::test]
async fn ranges_and_addresses_are_validated() {
    let server = TestServer::start().await;
    let path = "spec.cidrs";
    for (cidrs, why) in [
        (json!([]), format!("{path}: Required value: at least one CIDR required")),
        (json!(["10.1.0.0/24", "fd00::/64", "10.2.0.0/24"]), "may only hold up to 2 values".to_owned()),
        (
            json!(["10.1.0.1/24"]),
            format!("{path}[0]: Invalid value: \"10.1.0.1/24\": must not have bits set"),
        ),
        (
            json!(["10.1.0.0/24", "10.2.0.0/24"]),
            "may specify no more than one IP for each IP family".to_owned(),
        ),
    ] {
        let (code, _, said) = range(&server, "a", cidrs).await.refusal();
        assert!(code == 422 && said.contains(&why), "{said}");
    }
    range(&server, "a", json!(["10.1.0.0/24"])).await.expect(201);
    let change = |cidrs: Value| {
        patch(
            &server,
            MERGE_PATCH,
            "/apis/networking.k8s.io/v1/servicecidrs/a",
            json!({"spec": {"cidrs": cidrs}}),
        )
    };
    let (code, _, said) = change(json!(["10.2.0.0/24"])).await.refusal();
    assert!(
        code == 422 && said.contains("spec.cidrs[0]: Invalid value: \"10.2.0.0/24\": field is immutable"),
        "{said}"
    );
    change(json!(["10.1.0.0/24", "fd00::/64"])).await.expect(200);
    assert_eq!(change(json!(["10.1.0.0/24"])).await.refusal().0, 422);

    let parent = json!({"resource": "gateways", "name": "a"});
    for (name, parent, why) in [
        (
            "fd00:0::1",
            parent.clone(),
            "metadata.name: Invalid value: \"fd00:0::1\": must be in canonical form",
        ),
        ("fd00::1", Value::Null, "spec.parentRef: Required value"),
        ("fd00::1", json!({"resource": "gateways"}), "spec.parentRef.name: Required value"),
    ] {
        let address = json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
        let (code, _, said) = post(&server, ADDRESSES, address).await.refusal();
        assert!(code == 422 && said.contains(why), "{said}");
    }
    post(&server, ADDRESSES, json!({"metadata": {"name": "fd00::1"}, "spec": {"parentRef": parent}}))
        .await
        .expect(201);
}

#[tokio::test]
async fn a_server_that_opens_its_folder_mends_the_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || TestServer::builder().kept_in(folder.path()).start().await;
    let server = start().await;
    service(&server, "web", json!("10.0.0.5")).await;
    let before = get(&server, &format!("{ADDRESSES}/10.0.0.5")).await.expect(200);
    // Nobody has this one.
    let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    let parent = json!({"resource": "services", "namespace": "default", "name": "gone"});
    let left = json!({"metadata": {"name": "10.0.0.6", "labels": labels}, "spec": {"parentRef": parent}});
    post(&server, ADDRESSES, left).await.expect(201);
    server.stop().await;
    drop(server);
    let server = start().await;
    assert_eq!(given(&server).await, ["10.0.0.5"]);
    let after = get(&server, &format!("{ADDRESSES}/10.0.0.5")).await.expect(200);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
}
