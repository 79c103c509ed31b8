use serde_json::{Value, json};
use steersman_api::{ResourceVersion, Status, Uid};
use steersman_apiserver::{Calls, Failure, TestServer, Verb};
use steersman_client::Clients;
use steersman_informer::keep;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::job::Job;
use steersman_kinds::pod::{Placement, Pod};
use steersman_kinds::replica_set::ReplicaSet;

use super::status::Way;
use super::*;
use crate::call::JSON;

keep! {
    /// A pod and its node.
    struct PlacedPod: Pod => Placement
}

async fn server() -> (TestServer, Sender) {
    let server = TestServer::start().await;
    let sender = Clients::over(server.in_memory()).sender("test");
    (server, sender)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn content(object: &Value) -> Content {
    Content::json(JSON, object)
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    })
}

async fn replica_set(client: &Client<ReplicaSet>) -> Arc<ReplicaSet> {
    let mut template = template();
    template["spec"].as_object_mut().unwrap().remove("restartPolicy");
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "a"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    });
    match client.create("default", content(&object)).await.unwrap() {
        Created::Now(made) => made,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_writes_are_told_apart() {
    let (_server, client) = server().await;
    let pods = Client::<Pod>::new(client);
    let pod = || content(&steersman_testing::pod("a").build());
    let Created::Now(made) = pods.create("default", pod()).await.unwrap() else { panic!("not created") };
    assert!(matches!(pods.create("default", pod()).await.unwrap(), Created::Exists(_)));
    assert!(pods.get(&key("b")).await.unwrap().is_none());

    let label = |version: Option<ResourceVersion>| {
        let mut patch = json!({"metadata": {"labels": {"a": "b"}}});
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = version.to_string().into();
        }
        Patch::Merge(patch)
    };
    assert!(matches!(pods.patch(&key("b"), &label(None)).await.unwrap(), Changed::Gone));
    let Changed::Now(changed) = pods.patch(&key("a"), &label(None)).await.unwrap() else {
        panic!("unchanged")
    };
    assert_eq!(changed.wrote_version(), changed.meta().resource_version);
    let stale = label(Some(made.meta().resource_version));
    assert!(matches!(pods.patch(&key("a"), &stale).await.unwrap(), Changed::Conflict(_)));

    let other = Delete::of(&Uid::from("other"));
    assert!(matches!(pods.delete(&key("a"), &other).await.unwrap(), Deleted::Conflict(_)));
    let deleted = pods.delete(&key("a"), &Delete::of(&made.meta().uid)).await.unwrap();
    assert!(matches!(deleted, Deleted::Now(Some(_), _)), "{deleted:?}");
    assert!(matches!(pods.delete(&key("a"), &Delete::default()).await.unwrap(), Deleted::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_client_may_want_only_metadata_of_what_it_writes() {
    let (_server, sender) = server().await;
    for (client, node) in [
        (Client::<Pod>::keeping::<PlacedPod>(sender.clone()), "n"),
        (Client::<Pod>::keeping::<PlacedPod>(sender.clone()).answered_with_metadata(), ""),
    ] {
        let name = format!("pod{node}");
        let pod = steersman_testing::pod(&name).on("n").label("app", "a").build();
        let Created::Now(made) = client.create("default", content(&pod)).await.unwrap() else {
            panic!("not created")
        };
        let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "b"}}}));
        let Changed::Now(changed) = client.patch(&key(&name), &patch).await.unwrap() else {
            panic!("unchanged")
        };
        assert!(changed.meta().resource_version > made.meta().resource_version);
        for (pod, app) in [(made, "a"), (changed, "b")] {
            assert_eq!(
                (&*pod.meta().key.name, pod.meta().labels.get("app").map(|app| &**app)),
                (&*name, Some(app))
            );
            assert_eq!(Placement::of(&pod).expect("the group must be kept").node.to_string(), node);
        }
    }
}

trait WroteVersion {
    fn wrote_version(&self) -> ResourceVersion;
}

impl WroteVersion for Arc<Pod> {
    fn wrote_version(&self) -> ResourceVersion {
        Changed::Now(Arc::clone(self)).wrote().expect("a change must carry a version").version
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_answered_with_a_bare_status_has_no_version() {
    let (_server, client) = server().await;
    let jobs = Client::<Job>::new(client);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template()},
    });
    assert!(matches!(jobs.create("default", content(&job)).await.unwrap(), Created::Now(_)));
    let background = Delete { propagation: Some(Propagation::Background), ..Delete::default() };
    let deleted = jobs.delete(&key("a"), &background).await.unwrap();
    assert!(matches!(deleted, Deleted::Now(None, _)), "{deleted:?}");
    assert!(deleted.wrote().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_by_patch_or_by_update_and_unknown_members_survive_both() {
    let (server, client) = server().await;
    let sets = Client::<ReplicaSet>::new(client);
    let set = replica_set(&sets).await;
    let patch = Patch::Merge(json!({"status": {"replicas": 1, "readyReplicas": 1}}));
    let Changed::Now(set) = sets.patch_status(&set.meta().key, &patch).await.unwrap() else { panic!("gone") };
    for update in [false, true] {
        let writer = StatusWriter::new(sets.clone());
        if update {
            writer.way.set(Some(Way::Update));
        }
        let current = sets.get(&key("a")).await.unwrap().unwrap();
        // What the writer knows of the status lacks `readyReplicas`.
        let (was, is) = (json!({"replicas": 1, "availableReplicas": 1}), json!({"replicas": 2}));
        let change = StatusChange::between(current.meta(), &was, &is).unwrap();
        assert_eq!(StatusChange::between(current.meta(), &was, &was), None, "nothing changes");
        let recording = server.record();
        let written = writer.write(&key("a"), &change).await.unwrap();
        assert!(matches!(written, Changed::Now(_)), "{written:?}");
        let verb = if update { Verb::Update } else { Verb::Patch };
        assert_eq!(recording.count(&Calls::to("replicasets").verb(verb)), 1);
        let stored = sets.resource().get_json(&key("a")).await.unwrap().unwrap();
        assert_eq!(stored["status"]["replicas"], 2);
        assert_eq!(stored["status"]["readyReplicas"], 1, "update: {update}");
        let stale = StatusChange::between(set.meta(), &was, &is).unwrap();
        let refused = writer.write(&key("a"), &stale).await.unwrap();
        assert!(matches!(refused, Changed::Conflict(_)), "update: {update}, {refused:?}");

        let current = sets.get(&key("a")).await.unwrap().unwrap();
        let value = format!("{update}").into();
        let change = StatusChange::with_annotation(current.meta(), &is, &is, "example.com/note", value);
        let written = writer.write(&key("a"), &change).await.unwrap();
        assert!(matches!(written, Changed::Now(_)), "{written:?}");
        let stored = sets.resource().get_json(&key("a")).await.unwrap().unwrap();
        assert_eq!(stored["metadata"]["annotations"], json!({"example.com/note": format!("{update}")}));
        assert_eq!(
            (&stored["metadata"]["generation"], &stored["status"]["replicas"]),
            (&json!(1), &json!(2))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_put_where_the_api_server_serves_no_reviews() {
    for (code, put) in [(403, true), (404, true), (405, true), (400, false)] {
        let (server, client) = server().await;
        let sets = Client::<ReplicaSet>::new(client);
        let set = replica_set(&sets).await;
        let refusal = Failure::Status(Box::new(Status::failure(code, "", "no reviews here")));
        server.faults().fail(1, Calls::to("selfsubjectaccessreviews"), refusal);
        let writer = StatusWriter::new(sets.clone());
        let change = StatusChange::between(set.meta(), &json!({}), &json!({"replicas": 2})).unwrap();
        let written = writer.write(&key("a"), &change).await;
        assert_eq!(matches!(written, Ok(Changed::Now(_))), put, "{code}: {written:?}");
        assert_eq!(writer.way.get(), put.then_some(Way::Update), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_right_to_patch_is_asked_for_again_after_a_forbidden_write() {
    let (server, client) = server().await;
    let sets = Client::<ReplicaSet>::new(client);
    let set = replica_set(&sets).await;
    let writer = StatusWriter::new(sets.clone());
    let recording = server.record();
    let change = StatusChange::between(set.meta(), &json!({}), &json!({"replicas": 2})).unwrap();
    let forbidden = || Failure::Status(Box::new(Status::failure(403, "Forbidden", "no longer")));
    server.faults().fail(1, Calls::to("replicasets").verb(Verb::Patch), forbidden());
    let refused = writer.write(&key("a"), &change).await;
    assert!(refused.is_err(), "{refused:?}");
    let written = writer.write(&key("a"), &change).await.unwrap();
    assert!(matches!(written, Changed::Now(_)), "{written:?}");
    assert_eq!(recording.count(&Calls::to("selfsubjectaccessreviews")), 2);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_put_without_the_right_to_get_the_object() {
    let (server, client) = server().await;
    let sets = Client::<ReplicaSet>::new(client);
    let set = replica_set(&sets).await;
    let writer = StatusWriter::new(sets.clone());
    writer.way.set(Some(Way::Update));
    let gets = || Calls::to("replicasets").verb(Verb::Get);
    let forbidden = Failure::Status(Box::new(Status::failure(403, "Forbidden", "no right to get")));
    server.faults().fail(usize::MAX, gets(), forbidden);
    let recording = server.record();
    let mut meta = set.meta().clone();
    for replicas in [1, 2] {
        let change = StatusChange::between(&meta, &json!({}), &json!({"replicas": replicas})).unwrap();
        let Changed::Now(written) = writer.write(&key("a"), &change).await.unwrap() else { panic!("gone") };
        meta = written.meta().clone();
    }
    assert_eq!(recording.count(&gets()), 1, "the writer remembers the answer");
    let stored = server.peek(&resource::<ReplicaSet>(), &key("a")).unwrap();
    assert_eq!((&stored["status"]["replicas"], &stored["spec"]["replicas"]), (&json!(2), &json!(2)));

    let change = StatusChange::between(&meta, &json!({}), &json!({"replicas": 3})).unwrap();
    assert!(matches!(writer.write(&key("b"), &change).await.unwrap(), Changed::Gone));
    let stale = StatusChange::between(set.meta(), &json!({}), &json!({"replicas": 3})).unwrap();
    assert!(matches!(writer.write(&key("a"), &stale).await.unwrap(), Changed::Conflict(_)));
}

#[tokio::test(start_paused = true)]
async fn a_name_never_leads_to_another_path() {
    let (server, client) = server().await;
    let sets = Client::<ReplicaSet>::new(client);
    replica_set(&sets).await;
    let recording = server.record();
    for (name, why) in [
        ("", "may not be empty"),
        ("..", "may not be '..'"),
        ("../replicasets/a", "may not contain '/'"),
        ("%61", "may not contain '%'"),
    ] {
        let error = sets.get(&key(name)).await.unwrap_err().to_string();
        assert!(error.contains(&format!("invalid resource name {name:?}: [{why}]")), "{error}");
    }
    for (namespace, why) in
        [("a/b", "may not contain '/'"), ("..", "may not be '..'"), ("%61", "may not contain '%'")]
    {
        let error = sets.get(&ObjectKey::new(namespace, "a")).await.unwrap_err().to_string();
        assert!(error.contains(&format!("invalid namespace {namespace:?}: [{why}]")), "{error}");
    }
    assert_eq!(recording.count(&Calls::to("replicasets")), 0);
    for name in ["a?watch=true", "a#b", "a b", "é"] {
        assert!(sets.get(&key(name)).await.unwrap().is_none(), "{name}");
        assert!(sets.resource().scale(&key(name)).await.unwrap().is_none(), "{name}");
    }
    assert_eq!(recording.count(&Calls::to("replicasets").verb(Verb::Get)), 8);
}

#[tokio::test(start_paused = true)]
async fn a_resource_without_a_type_has_metadata_scale_and_collections() {
    let (_server, client) = server().await;
    let sets = Client::<ReplicaSet>::new(client);
    let set = replica_set(&sets).await;
    let sets = sets.resource();
    assert_eq!(sets.get_meta(&key("a")).await.unwrap().unwrap().uid, set.meta().uid);
    let scale = sets.scale(&key("a")).await.unwrap().unwrap();
    assert_eq!((scale.wanted, &*scale.selector), (2, "app=a"));
    assert_eq!(scale.uid, set.meta().uid);
    let Changed::Now(scaled) = sets.set_scale(&key("a"), &scale, 5).await.unwrap() else {
        panic!("unscaled")
    };
    assert_eq!(scaled.wanted, 5);
    let stale = sets.set_scale(&key("a"), &scale, 6).await.unwrap();
    assert!(matches!(stale, Changed::Conflict(_)), "{stale:?}");
    let mut listed = Vec::new();
    sets.for_each_meta("default", |meta| listed.push(meta.key.clone())).await.unwrap();
    assert_eq!(listed, [key("a")]);
    sets.for_each_meta("other", |meta| panic!("{meta:?}")).await.unwrap();
    sets.delete_collection("default", &Delete::default()).await.unwrap();
    assert!(sets.get_meta(&key("a")).await.unwrap().is_none());
    assert!(sets.scale(&key("a")).await.unwrap().is_none());
}
