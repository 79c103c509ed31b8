//! What a new cluster has.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::path::Path;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_apiserver::{Options, Server};

async fn start(folder: &Path, names: &[&str]) -> (Server, Client) {
    let server = Server::start(Options {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::new(folder)
    });
    let server = server.await.unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(server.kubeconfig(), &options).await.unwrap();
    (server, Client::try_from(config).unwrap())
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn the_service_kubernetes_leads_to_where_the_server_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = start(folder.path(), &["192.0.2.7"]).await;
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let spec = services.get("kubernetes").await.unwrap().spec.unwrap();
    assert_eq!(spec.cluster_ip.as_deref(), Some("10.0.0.1"));
    let target = |spec: &k8s_openapi::api::core::v1::ServiceSpec| {
        serde_json::to_value(&spec.ports.as_ref().unwrap()[0].target_port).unwrap()
    };
    assert_eq!(target(&spec), json!(server.address().port()));
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "default");
    let subset = &endpoints.get("kubernetes").await.unwrap().subsets.unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap()[0].ip, "192.0.2.7");
    assert_eq!(subset.ports.as_ref().unwrap()[0].port, i32::from(server.address().port()));
    let slices: Api<EndpointSlice> = Api::namespaced(client, "default");
    assert_eq!(slices.get("kubernetes").await.unwrap().endpoints.unwrap()[0].addresses, ["192.0.2.7"]);
    server.stop().await;

    // At the loopback only, nobody is told to come there.
    let (server, client) = start(folder.path(), &[]).await;
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let spec = services.get("kubernetes").await.unwrap().spec.unwrap();
    assert_eq!(target(&spec), json!(server.address().port()));
    let endpoints: Api<Endpoints> = Api::namespaced(client, "default");
    assert_eq!(endpoints.get("kubernetes").await.unwrap().subsets.unwrap_or_default(), []);
    server.stop().await;
}

#[tokio::test]
async fn roles_are_there_and_stay_as_somebody_changed_them() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = start(folder.path(), &[]).await;
    let roles: Api<ClusterRole> = Api::all(client.clone());
    for name in ["cluster-admin", "admin", "edit", "view", "system:discovery", "system:node"] {
        assert!(!roles.get(name).await.unwrap().rules.unwrap().is_empty(), "{name}");
    }
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    bindings.delete("system:monitoring", &Default::default()).await.unwrap();
    let patch = Patch::Merge(json!({"rules": []}));
    roles.patch("system:kube-dns", &PatchParams::default(), &patch).await.unwrap();
    server.stop().await;

    let (server, client) = start(folder.path(), &[]).await;
    let roles: Api<ClusterRole> = Api::all(client.clone());
    assert_eq!(roles.get("system:kube-dns").await.unwrap().rules.unwrap_or_default(), []);
    Api::<ClusterRoleBinding>::all(client).get("system:monitoring").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn who_is_bound_to_a_role_of_the_system_may_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = start(folder.path(), &[]).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let post = PostParams::default();
    accounts.create(&post, &object(json!({"metadata": {"name": "viewer"}}))).await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "default");
    let binding = json!({
        "metadata": {"name": "viewers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "viewer"}],
    });
    bindings.create(&post, &object(binding)).await.unwrap();
    let token =
        accounts.create_token_request("viewer", &post, &object(json!({"spec": {"audiences": []}}))).await;
    let token = token.unwrap().status.unwrap().token.unwrap();
    let mut kubeconfig = server.kubeconfig();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    *user = kube::config::AuthInfo { token: Some(token.into()), ..Default::default() };
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let viewer = Client::try_from(config).unwrap();
    let pods: Api<Pod> = Api::namespaced(viewer.clone(), "default");
    pods.list(&Default::default()).await.unwrap();
    assert!(pods.delete("any", &Default::default()).await.is_err());
    // Everybody who is known may ask what is served.
    viewer.list_api_groups().await.unwrap();
    server.stop().await;
}
