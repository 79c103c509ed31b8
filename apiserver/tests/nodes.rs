//! What a node may do on a server for people, by the pods that are bound to it.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::fmt::Debug;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_apiserver::{Identity, Options, Server};
use tempfile::TempDir;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn forbidden<T: Debug>(result: kube::Result<T>) -> String {
    match result.unwrap_err() {
        kube::Error::Api(status) if status.code == 403 => status.message,
        error => panic!("{error:?} is no refusal of a right"),
    }
}

/// Two nodes with a pod each, `own` on `n1` and `other` on `n2`, each with a Secret of its own.
struct World {
    admin: Client,
    node: Client,
    server: Server,
    _folder: TempDir,
}

impl World {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(Options::new(folder.path().join("data"))).await.unwrap();
        let client = |who: Identity| Client::new(server.in_memory(who), "default");
        let admin = client(Identity::master("admin"));
        let node = client(Identity::authenticated("system:node:n1", ["system:nodes".to_owned()]));
        let world = Self { admin, node, server, _folder: folder };
        let accounts: Api<ServiceAccount> = Api::default_namespaced(world.admin.clone());
        accounts
            .create(&PostParams::default(), &object(json!({"metadata": {"name": "default"}})))
            .await
            .unwrap();
        for (pod, node) in [("own", "n1"), ("other", "n2")] {
            let secrets: Api<Secret> = Api::default_namespaced(world.admin.clone());
            secrets
                .create(
                    &PostParams::default(),
                    &object(json!({"metadata": {"name": format!("{pod}-secret")}})),
                )
                .await
                .unwrap();
            let env = json!({"secretRef": {"name": format!("{pod}-secret")}});
            let spec = json!({"nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "app", "image": "x", "envFrom": [env]}]});
            let new = object(json!({"metadata": {"name": pod}, "spec": spec}));
            world.pods(&world.admin).create(&PostParams::default(), &new).await.unwrap();
        }
        world
    }

    fn pods(&self, of: &Client) -> Api<Pod> {
        Api::default_namespaced(of.clone())
    }

    async fn stop(self) {
        let Self { admin, node, server, _folder } = self;
        drop((admin, node));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_node_registers_and_sees_itself_and_its_pods() {
    let world = World::start().await;
    let nodes: Api<Node> = Api::all(world.node.clone());
    let node = |name: &str, labels: Value| object(json!({"metadata": {"name": name, "labels": labels}}));
    let new = node("n1", json!({"topology.kubernetes.io/zone": "a"}));
    nodes.create(&PostParams::default(), &new).await.unwrap();
    let why = forbidden(nodes.create(&PostParams::default(), &node("n2", json!({}))).await);
    assert_eq!(why, "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"");
    let role = Patch::Merge(json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}));
    let why = forbidden(nodes.patch("n1", &PatchParams::default(), &role).await);
    assert!(why.contains("is not allowed to modify labels: node-role.kubernetes.io/control-plane"), "{why}");
    let addresses = Patch::Merge(json!({"status": {"addresses": [{"type": "Hostname", "address": "n1"}]}}));
    nodes.patch_status("n1", &PatchParams::default(), &addresses).await.unwrap();
    nodes.get("n1").await.unwrap();
    forbidden(nodes.get("n2").await);
    forbidden(nodes.list(&ListParams::default()).await);

    let pods: Api<Pod> = Api::all(world.node.clone());
    let found = pods.list(&ListParams::default().fields("spec.nodeName=n1")).await.unwrap();
    assert_eq!(found.items.len(), 1);
    forbidden(pods.list(&ListParams::default().fields("spec.nodeName=n2")).await);
    forbidden(pods.list(&ListParams::default()).await);
    // A path that names a pod is about that pod, whatever the selector says.
    for path in [
        "/api/v1/watch/namespaces/default/pods/other?fieldSelector=spec.nodeName%3Dn1",
        "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Dother,spec.nodeName%3Dn1",
        "/api/v1/namespaces/default/pods?watch=1&fieldSelector=metadata.name%3Dother,spec.nodeName%3Dn1",
    ] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        forbidden(world.node.request_text(request).await);
    }

    let leases: Api<Lease> = Api::namespaced(world.node.clone(), "kube-node-lease");
    let lease = |name: &str| object(json!({"metadata": {"name": name}}));
    leases.create(&PostParams::default(), &lease("n1")).await.unwrap();
    forbidden(leases.create(&PostParams::default(), &lease("n2")).await);
    forbidden(leases.get("n2").await);
    world.stop().await;
}

#[tokio::test]
async fn a_nodes_credentials_open_only_what_its_own_pods_name() {
    let world = World::start().await;
    let secrets: Api<Secret> = Api::default_namespaced(world.node.clone());
    secrets.get("own-secret").await.unwrap();
    let why = forbidden(secrets.get("other-secret").await);
    let wanted = "secrets \"other-secret\" is forbidden: User \"system:node:n1\" cannot get resource \"secrets\" in API group \"\" \
                  in the namespace \"default\"";
    assert!(why.starts_with(wanted), "{why}");
    secrets.list(&ListParams::default().fields("metadata.name=own-secret")).await.unwrap();
    forbidden(secrets.list(&ListParams::default()).await);
    forbidden(secrets.delete("own-secret", &DeleteParams::default()).await);
    let maps: Api<ConfigMap> = Api::default_namespaced(world.node.clone());
    forbidden(maps.get("any").await);

    let accounts: Api<ServiceAccount> = Api::default_namespaced(world.node.clone());
    let pods = world.pods(&world.admin);
    let uid = async |pod: &str| pods.get(pod).await.unwrap().metadata.uid.unwrap();
    let token = |name: &str, uid: String| -> TokenRequest {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        object(json!({"spec": {"audiences": [], "boundObjectRef": pod}}))
    };
    let ask = async |asked: &TokenRequest| {
        accounts.create_token_request("default", &PostParams::default(), asked).await
    };
    let why = forbidden(ask(&object(json!({"spec": {"audiences": []}}))).await);
    assert!(why.ends_with("node requested token not bound to a pod"), "{why}");
    let why = forbidden(ask(&token("other", uid("other").await)).await);
    assert!(why.ends_with("node requested token bound to a pod scheduled on a different node"), "{why}");
    // The pod has no volume for a token of the API server.
    let why = forbidden(ask(&token("own", uid("own").await)).await);
    assert!(why.contains("audience \"\" not found in pod spec volume"), "{why}");
    let rights = json!({"metadata": {"name": "tokens"}, "rules": [
        {"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["*"]}]});
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(world.admin.clone());
    roles.create(&PostParams::default(), &object(rights)).await.unwrap();
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(world.admin.clone());
    let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tokens"});
    let binding = json!({"metadata": {"name": "tokens"}, "subjects": [group], "roleRef": role});
    bindings.create(&PostParams::default(), &object(binding)).await.unwrap();
    let got = ask(&token("own", uid("own").await)).await.unwrap();
    assert!(got.status.unwrap().token.is_some());
    world.stop().await;
}

#[tokio::test]
async fn a_node_reports_and_ends_only_its_own_pods() {
    let world = World::start().await;
    let pods = world.pods(&world.node);
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("own", &PatchParams::default(), &running).await.unwrap();
    let why = forbidden(pods.patch_status("other", &PatchParams::default(), &running).await);
    assert!(why.contains("can only update pod status for pods with spec.nodeName set to itself"), "{why}");
    forbidden(pods.evict("other", &EvictParams::default()).await);
    forbidden(pods.delete("other", &DeleteParams::default()).await);
    let plain = json!({"metadata": {"name": "new"}, "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "x"}]}});
    let why = forbidden(pods.create(&PostParams::default(), &object(plain)).await);
    assert!(why.contains("can only create mirror pods"), "{why}");
    pods.evict("own", &EvictParams::default()).await.unwrap();
    let left = world.pods(&world.admin).list(&ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn access_reviews_tell_what_a_node_may() {
    let world = World::start().await;
    let reviews: Api<SubjectAccessReview> = Api::all(world.admin.clone());
    for (attributes, allowed) in [
        (json!({"verb": "get", "resource": "secrets", "namespace": "default", "name": "own-secret"}), true),
        (
            json!({"verb": "get", "resource": "secrets", "namespace": "default", "name": "other-secret"}),
            false,
        ),
        (
            json!({"verb": "list", "resource": "pods", "fieldSelector": {"rawSelector": "spec.nodeName=n1"}}),
            true,
        ),
        (
            json!({"verb": "list", "resource": "pods", "fieldSelector":
                {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}}),
            true,
        ),
        (
            json!({"verb": "list", "resource": "pods", "fieldSelector":
                {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1", "n2"]}]}}),
            false,
        ),
        (json!({"verb": "list", "resource": "pods"}), false),
    ] {
        let spec =
            json!({"user": "system:node:n1", "groups": ["system:nodes"], "resourceAttributes": attributes});
        let asked = object(json!({"spec": spec}));
        let told = reviews.create(&PostParams::default(), &asked).await.unwrap();
        assert_eq!(told.status.unwrap().allowed, allowed, "{attributes}");
    }
    world.stop().await;
}
