//! All objects of a server, saved while it runs and restored into a new folder.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde_json::json;
use steersman_apiserver::{EncryptionKeys, Identity, Options, SavedSnapshot, Server, StartError};

async fn start(folder: &Path, keys: EncryptionKeys) -> Result<Server, StartError> {
    Server::start(Options { encryption_keys: keys, ..Options::new(folder) }).await
}

/// The server can't be opened again as long as a client of it lives.
fn client(server: &Server) -> Client {
    Client::new(server.in_memory(Identity::master("admin")), "default")
}

/// Saves a snapshot of the server as a file in `folder`.
async fn save(server: &Server, folder: &Path) -> PathBuf {
    let request = http::Request::get("/debug/snapshot").body(Vec::new()).unwrap();
    let text = client(server).request_text(request).await.unwrap();
    let file = folder.join("snapshot");
    std::fs::write(&file, text).unwrap();
    file
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "ä\n\"v\""}})).unwrap()
}

#[tokio::test]
async fn a_new_folder_begins_where_the_snapshot_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder.path().join("old"), EncryptionKeys::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let kept = maps.create(&PostParams::default(), &map("kept")).await.unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "knobs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "knobs", "singular": "knob", "kind": "Knob", "listKind": "KnobList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let kind = |group: &str, kind: &str, plural: &str| ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version: format!("{group}/v1"),
        kind: kind.into(),
        plural: plural.into(),
    };
    let definitions = kind("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
    let definitions: Api<DynamicObject> = Api::all_with(client(&server), &definitions);
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    let knobs = kind("example.com", "Knob", "knobs");
    let mine: Api<DynamicObject> = Api::default_namespaced_with(client(&server), &knobs);
    let knob = json!({"apiVersion": "example.com/v1", "kind": "Knob", "metadata": {"name": "k"}, "turn": 3});
    mine.create(&PostParams::default(), &serde_json::from_value(knob).unwrap()).await.unwrap();
    let file = save(&server, folder.path()).await;
    let later = maps.create(&PostParams::default(), &map("later")).await.unwrap();
    drop((maps, definitions, mine));
    server.stop().await;

    let snapshot = SavedSnapshot::check(&file).unwrap();
    let new = folder.path().join("new");
    snapshot.restore(&new).unwrap();
    let server = start(&new, EncryptionKeys::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let found = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(found.items, [kept], "with its uid and its version");
    let mine: Api<DynamicObject> = Api::default_namespaced_with(client(&server), &knobs);
    assert_eq!(mine.get("k").await.unwrap().data["turn"], 3);
    let version: u64 = found.metadata.resource_version.unwrap().parse().unwrap();
    let seen: u64 = later.metadata.resource_version.unwrap().parse().unwrap();
    assert!(
        version > seen + 1_000_000,
        "no version that clients have seen comes again: {version} after {seen}"
    );
    drop((maps, mine));
    server.stop().await;

    for used in [new.as_path(), folder.path()] {
        let error = snapshot.restore(used).unwrap_err().to_string();
        assert!(error.contains("restore into an empty folder"), "{error}");
    }
}

#[tokio::test]
async fn keys_and_certificates_may_be_there_already() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder.path().join("old"), EncryptionKeys::default()).await.unwrap();
    let (file, ca) = (save(&server, folder.path()).await, server.ca().to_owned());
    server.stop().await;
    let new = folder.path().join("new");
    std::fs::create_dir(&new).unwrap();
    std::fs::rename(folder.path().join("old/pki"), new.join("pki")).unwrap();
    // As most folders are made.
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
    SavedSnapshot::check(&file).unwrap().restore(&new).unwrap();
    assert_eq!(std::fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o700);
    let server = start(&new, EncryptionKeys::default()).await.unwrap();
    assert_eq!(server.ca(), ca);
    server.stop().await;
}

#[tokio::test]
async fn encrypted_secrets_stay_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |byte: u8| {
        use base64::Engine;
        let file = folder.path().join(format!("key-{byte}"));
        std::fs::write(&file, base64::engine::general_purpose::STANDARD.encode([byte; 32])).unwrap();
        EncryptionKeys::read(&file).unwrap()
    };
    let server = start(&folder.path().join("old"), keys(1)).await.unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(client(&server));
    let secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden"}})).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    drop(secrets);
    let file = save(&server, folder.path()).await;
    server.stop().await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"sealed\"") && !text.contains("aGlkZGVu"), "aGlkZGVu is \"hidden\" in base64");

    let new = folder.path().join("new");
    SavedSnapshot::check(&file).unwrap().restore(&new).unwrap();
    for wrong in [EncryptionKeys::default(), keys(2)] {
        let error = start(&new, wrong).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("secrets default/s is not readable: it is encrypted"), "{error}");
    }
    let server = start(&new, keys(1)).await.unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(client(&server));
    assert_eq!(secrets.get("s").await.unwrap().data.unwrap()["k"].0, b"hidden");
    drop(secrets);
    server.stop().await;
}

#[tokio::test]
async fn only_those_may_take_one_who_may_get_everything() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder.path().join("old"), EncryptionKeys::default()).await.unwrap();
    let role =
        json!({"metadata": {"name": "paths"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}]});
    let roles: Api<ClusterRole> = Api::all(client(&server));
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "paths"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "paths"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "prometheus"}],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(client(&server));
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    for (user, groups, part) in [
        ("somebody", vec![], "cannot get path \"/debug/snapshot\""),
        ("system:node:n", vec!["system:nodes".to_owned()], "cannot get path \"/debug/snapshot\""),
        ("prometheus", vec![], "cannot get resource \"*\" in API group \"*\" at the cluster scope"),
    ] {
        let client = Client::new(server.in_memory(Identity::authenticated(user, groups)), "default");
        let request = http::Request::get("/debug/snapshot").body(Vec::new()).unwrap();
        let error = client.request_text(request).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    drop((roles, bindings));
    server.stop().await;
}
