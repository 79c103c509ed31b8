//! Secrets on the disk, encrypted with keys of a file.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::json;
use steersman_apiserver::{EncryptionKeys, Identity, Options, Server, StartError};

/// Starts with these lines as the file of keys; without lines, without keys.
async fn start(folder: &Path, lines: &[&str]) -> Result<Server, StartError> {
    let file = folder.join("keys");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let encryption_keys =
        if lines.is_empty() { EncryptionKeys::default() } else { EncryptionKeys::read(&file).unwrap() };
    let options = Options { encryption_keys, ..Options::new(folder.join("data")) };
    Server::start(options).await
}

/// The server can't be opened again as long as a client of it lives.
fn client(server: &Server) -> Client {
    Client::new(server.in_memory(Identity::master("admin")), "default")
}

fn secrets(server: &Server) -> Api<Secret> {
    Api::default_namespaced(client(server))
}

/// Whether the database's file has the text, as a part of any object.
fn file_has(folder: &Path, text: &str) -> bool {
    let bytes = std::fs::read(folder.join("data").join("store.redb")).unwrap();
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The value of the Secret `a`, after a start with these keys.
async fn value(folder: &Path, lines: &[&str]) -> Result<String, String> {
    let server = start(folder, lines).await.map_err(|error| error.to_string())?;
    let found = secrets(&server).get("a").await.unwrap().data.unwrap()["password"].clone();
    server.stop().await;
    Ok(String::from_utf8(found.0).unwrap())
}

#[tokio::test]
async fn secrets_are_encrypted_on_the_disk_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (first, second) = (STANDARD.encode([1; 32]), STANDARD.encode([2; 32]));
    let (hidden, shown) = ("hidden-by-encryption", "shown-to-everybody");
    let server = start(folder, &[&first]).await.unwrap();
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"password": hidden}});
    secrets(&server).create(&Default::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let map = json!({"metadata": {"name": "a"}, "data": {"key": shown}});
    maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    drop(maps);
    server.stop().await;
    assert!(file_has(folder, shown));
    // Secrets keep their values in base64.
    assert!(!file_has(folder, hidden) && !file_has(folder, &STANDARD.encode(hidden)));

    let no_keys = value(folder, &[]).await.unwrap_err();
    assert!(
        no_keys.contains("secrets") && no_keys.ends_with("it is encrypted, and no keys are given"),
        "{no_keys}"
    );
    let other = value(folder, &[&second]).await.unwrap_err();
    assert!(other.ends_with("it is encrypted with a key that is not among those given"), "{other}");
    // A start with both writes all anew with the new one.
    assert_eq!(value(folder, &[&second, &first]).await.as_deref(), Ok(hidden));
    assert_eq!(value(folder, &[&second]).await.as_deref(), Ok(hidden));
    assert_eq!(value(folder, &["identity", &second]).await.as_deref(), Ok(hidden));
    assert_eq!(value(folder, &[]).await.as_deref(), Ok(hidden), "nothing is encrypted any more");
}

#[tokio::test]
async fn secrets_of_before_are_encrypted_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = STANDARD.encode([3; 32]);
    let server = start(folder, &[]).await.unwrap();
    for name in ["a", "b"] {
        let secret = json!({"metadata": {"name": name}, "stringData": {"password": "old"}});
        let secret = serde_json::from_value(secret).unwrap();
        secrets(&server).create(&Default::default(), &secret).await.unwrap();
    }
    let version = secrets(&server).get("a").await.unwrap().metadata.resource_version;
    server.stop().await;
    let server = start(folder, &[&key]).await.unwrap();
    let found = secrets(&server).get("a").await.unwrap();
    assert_eq!(found.metadata.resource_version, version, "this is no change of the object");
    secrets(&server).delete("b", &DeleteParams::default()).await.unwrap();
    server.stop().await;
    assert!(value(folder, &[]).await.is_err(), "it must be encrypted");
    assert_eq!(value(folder, &[&key]).await.as_deref(), Ok("old"));
}
