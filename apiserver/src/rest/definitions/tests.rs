use std::path::Path;

use serde_json::json;

use super::*;
use crate::access::{Access, Signer};
use crate::monitoring::Monitoring;
use crate::rest::options::Commit;
use crate::rest::{Outbound, Settings};
use crate::store::EncryptionKeys;

const KNOBS: &str = "knobs.example.com";

fn definition(served: bool) -> Value {
    json!({
        "metadata": {"name": KNOBS},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "knobs", "kind": "Knob"},
            "versions": [{"name": "v1", "served": served, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn open(folder: &Path) -> ApiServer {
    let opened = ApiServer::opening(folder, EncryptionKeys::default()).unwrap();
    let outbound = Outbound::new(None, None).unwrap();
    ApiServer::open(
        Settings::default(),
        folder,
        opened,
        Access::Open,
        Signer::fleeting(),
        outbound,
        Monitoring::without_audit(),
    )
    .unwrap()
}

fn in_memory() -> ApiServer {
    ApiServer::new(Settings::default(), Outbound::new(None, None).unwrap())
}

impl ApiServer {
    fn knobs(&self) -> Option<Arc<Resource>> {
        self.resources().get("example.com", "v1", "knobs").cloned()
    }

    fn definitions(&self) -> Arc<Resource> {
        let resources = self.resources();
        Arc::clone(resources.get("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap())
    }

    fn define(&self, definition: Value) -> Arc<Object> {
        let resource = self.definitions();
        let mut definition = definition;
        resource.strategy.default(&mut definition);
        self.add_named(None, &resource, "", definition, Commit::Write).unwrap()
    }

    fn add_knob(&self, resource: &Arc<Resource>, name: &str) -> Result<Arc<Object>> {
        self.add_named(None, resource, "default", json!({"metadata": {"name": name}}), Commit::Write)
    }

    fn count(&self) -> usize {
        self.store().len(&KNOBS.into())
    }
}

#[test]
fn what_is_served_follows_the_definitions_after_writes_were_undone() {
    let server = in_memory();
    let stored = server.define(definition(true));
    server.store().remove(&stored).unwrap();
    server.serve_as_all_defined();
    assert!(server.knobs().is_none(), "its definition was undone");
    assert!(server.resources().get("", "v1", "pods").is_some());
    server
        .store()
        .create(&server.definitions(), stored.key.clone(), stored.parsed().as_ref().clone())
        .unwrap();
    server.serve_as_all_defined();
    assert!(server.knobs().is_some(), "its removal was undone");
}

#[test]
fn a_start_goes_on_with_a_definition_that_was_going_when_the_power_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path());
    let seen = server.define(definition(true));
    for name in ["a", "b"] {
        server.add_knob(&server.knobs().unwrap(), name).unwrap();
    }
    // All that a delete has come to.
    let mut going = seen.parsed().as_ref().clone();
    crate::object::metadata(&mut going).insert("deletionTimestamp".to_owned(), "2026-01-01T00:00:00Z".into());
    seen.resource.strategy.marked(&mut going);
    server.store().replace(&seen, going).unwrap();
    drop(server);

    let server = open(folder.path());
    assert!(server.store().get(&DEFINITIONS.into(), &ObjectKey::cluster(KNOBS)).is_none());
    assert_eq!(server.count(), 0);
    assert!(server.knobs().is_none());
}

#[test]
fn objects_whose_definition_is_missing_are_kept_until_it_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path());
    let seen = server.define(definition(true));
    server.add_knob(&server.knobs().unwrap(), "a").unwrap();
    server.store().remove(&seen).unwrap();
    drop(server);

    let server = open(folder.path());
    assert!(server.knobs().is_none());
    server.define(definition(true));
    let a = server.existing(&server.knobs().unwrap(), "default", "a").unwrap();
    let shown = a.served_as(&server.knobs().unwrap());
    assert_eq!(
        (&shown.parsed()["kind"], &shown.parsed()["apiVersion"]),
        (&json!("Knob"), &json!("example.com/v1"))
    );
}

#[test]
fn a_definition_that_serves_nothing_keeps_its_objects() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path());
    let seen = server.define(definition(true));
    server.add_knob(&server.knobs().unwrap(), "a").unwrap();
    let mut unserved = seen.parsed().as_ref().clone();
    unserved["spec"]["versions"][0]["served"] = false.into();
    let unserved = server.store().replace(&seen, unserved).unwrap();
    server.noticed(Some(&seen), &unserved);
    assert!(server.knobs().is_none());
    drop(server);

    let server = open(folder.path());
    assert_eq!((server.knobs().is_none(), server.count()), (true, 1));
    let resource = server.definitions();
    server.remove(&resource, "", KNOBS, &DeleteOptions::default()).unwrap();
    assert_eq!(server.count(), 0, "it takes along what nobody can see");
    assert!(server.existing(&resource, "", KNOBS).is_err());
}

#[test]
fn nothing_is_made_of_a_resource_that_went_while_the_request_was_on_its_way() {
    let server = in_memory();
    server.define(definition(true));
    let routed = server.knobs().unwrap();
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    server.add_named(None, &routed, "default", held, Commit::Write).unwrap();
    server.remove(&server.definitions(), "", KNOBS, &DeleteOptions::default()).unwrap();
    let refusal = server.add_knob(&routed, "late").err().unwrap();
    assert_eq!(
        refusal.status.message,
        "knobs.example.com \"late\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    let held = server.existing(&routed, "default", "held").unwrap();
    let last = server.store().remove(&held).unwrap();
    server.vanished(&last);
    assert_eq!(server.add_knob(&routed, "later").err().unwrap().status.code, 404);
    assert_eq!(server.count(), 0);
}

#[test]
fn a_definition_of_what_is_built_in_does_no_harm_where_it_is_there_already() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path());
    let mut overlapping = definition(true);
    overlapping["metadata"]["name"] = "priorityclasses.scheduling.k8s.io".into();
    overlapping["spec"]["group"] = "scheduling.k8s.io".into();
    overlapping["spec"]["names"] = json!({"plural": "priorityclasses", "kind": "PriorityClass"});
    overlapping["spec"]["versions"][0]["name"] = "v2".into();
    let name = ObjectKey::cluster("priorityclasses.scheduling.k8s.io");
    server.store().create(&server.definitions(), name.clone(), overlapping).unwrap();
    drop(server);

    let server = open(folder.path());
    let resources = server.resources();
    let classes = resources.get("scheduling.k8s.io", "v1", "priorityclasses").unwrap();
    server.remove(&server.definitions(), "", &name.name, &DeleteOptions::default()).unwrap();
    assert!(server.existing(&server.definitions(), "", &name.name).is_err());
    assert!(server.existing(classes, "", "system-node-critical").is_ok());
    assert!(server.resources().get("scheduling.k8s.io", "v1", "priorityclasses").is_some());
}

#[tokio::test]
async fn a_request_goes_where_it_was_let_in() {
    let server = in_memory();
    let request = http::Request::get("/apis/example.com/v1/namespaces/default/knobs").body(()).unwrap();
    let (mut parts, ()) = request.into_parts();
    let mut entry = server.monitoring().begin(&parts, None, server.clock());
    server.let_in(&mut parts, &mut entry).unwrap();
    // While its body is on the way.
    server.define(definition(true));
    let answer = server.answer(http::Request::from_parts(parts, bytes::Bytes::new())).await.unwrap();
    assert_eq!(answer.status(), 404);
}
