use std::time::Duration;

use steersman_apiserver::{Calls, TestServer};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Client, Created as Made};
use steersman_controller::own_writes::OwnWrites;
use steersman_controller::testing::{context, eventually};
use steersman_informer::SharedInformerFactory;
use steersman_kinds::replica_set::ReplicaSet;

use super::super::data::{Form, data};
use super::*;

/// The history of a ReplicaSet, which stands for any owner of revisions.
struct Rig {
    server: TestServer,
    informers: SharedInformerFactory,
    history: History<ReplicaSet>,
    own_writes: OwnWrites,
    sets: Client<ReplicaSet>,
    revisions: Client<ControllerRevision>,
}

impl Rig {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let (context, _writers) = context(&server, Default::default());
        let client = context.client_for("test");
        let history = History::new(&context, &client).unwrap();
        let own_writes = OwnWrites::new(Duration::from_secs(30)).over(&history.cache());
        context.informers.start();
        let rig = Self {
            server,
            informers: context.informers,
            history,
            own_writes,
            sets: Client::new(client.clone()),
            revisions: Client::keeping::<crate::revisions::history::SyncedRevision>(client),
        };
        eventually("the cache syncs", || rig.history.cache().has_synced().then_some(())).await;
        rig
    }

    /// Creates an owner with this template.
    async fn set(&self, name: &str, template: &Value) -> Set {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "annotations": {"note": name}},
            "spec": {"selector": {"matchLabels": {"app": "nginx"}}, "template": template},
        });
        match self.sets.create("default", Content::json(JSON, &object)).await.unwrap() {
            Made::Now(made) => Set { meta: made.meta().clone(), ..Set::new(name, template) },
            other => panic!("{other:?}"),
        }
    }

    async fn create(&self, set: &Set, number: i64, collisions: i32) -> (Arc<ControllerRevision>, i32) {
        let created =
            self.history.create_for_stateful_set(&set.owner(), &self.own_writes, number, collisions).await;
        match created.unwrap() {
            (Created::Now(revision), collisions) => (revision, collisions),
            other => panic!("{other:?}"),
        }
    }

    /// The revisions of an owner in the cache, once the cache shows the controller's own writes.
    async fn observe(&self, set: &Set) -> Vec<Revision> {
        let current = steersman_controller::own_writes::Freshness::Current;
        eventually("the cache shows own writes", || {
            (self.own_writes.check(&set.meta.key) == current).then_some(())
        })
        .await;
        self.history.observe(&set.owner(), &self.own_writes).unwrap()
    }

    async fn stored(&self, revision: &Meta) -> Option<Value> {
        self.revisions.resource().get_json(&revision.key).await.unwrap()
    }

    async fn stop(self) {
        self.informers.shutdown().await;
    }
}

fn names(revisions: &[Revision]) -> Vec<&str> {
    revisions.iter().map(|revision| &*revision.meta().key.name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_revision_is_made_as_upstream_makes_it_and_found_again() {
    let rig = Rig::start().await;
    let set = rig.set("web", &nginx()).await;
    let (made, collisions) = rig.create(&set, 3, 0).await;
    assert_eq!((&*made.meta().key.name, collisions, number(&made)), ("web-6fc8c9d6d6", 0, 3));
    let stored = rig.stored(made.meta()).await.unwrap();
    let labels = json!({"app": "nginx", "controller.kubernetes.io/hash": "6fc8c9d6d6"});
    assert_eq!(stored["metadata"]["labels"], labels);
    assert_eq!(stored["metadata"]["annotations"], json!({"note": "web"}));
    assert_eq!(stored["metadata"]["ownerReferences"][0]["uid"], set.meta.uid.to_string());
    assert_eq!(
        stored["data"],
        serde_json::from_str::<Value>(&data(Form::DaemonSet, &set.template).unwrap()).unwrap()
    );

    let seen = rig.observe(&set).await;
    assert_eq!(names(&seen), ["web-6fc8c9d6d6"]);
    assert_eq!((seen[0].claim, seen[0].has_template, number(&seen[0].object)), (Claim::Owned, true, 3));
    let restored = rig.history.template(&made.meta().key).unwrap().unwrap();
    assert!(crate::pod_template::equal_with_defaults(&restored, &set.template).unwrap());

    // A controller whose cache lags makes it again, with another number, and gets the same.
    let (again, collisions) = rig.create(&set, 4, 0).await;
    assert_eq!((&again.meta().uid, collisions, number(&again)), (&made.meta().uid, 0, 3));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_leads_to_the_next_one() {
    let rig = Rig::start().await;
    let set = rig.set("web", &nginx()).await;
    for taken in [0, 1] {
        let name =
            super::super::name::stateful_set_hash(&data(Form::DaemonSet, &set.template).unwrap(), taken);
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {"name": format!("web-{name}")}, "data": {"spec": {"other": 1}}, "revision": 1,
        });
        rig.revisions.create("default", Content::json(JSON, &object)).await.unwrap();
    }
    let (made, collisions) = rig.create(&set, 1, 0).await;
    assert_eq!(collisions, 2);
    let hash = super::super::name::stateful_set_hash(&data(Form::DaemonSet, &set.template).unwrap(), 2);
    assert_eq!(made.meta().key.name, format!("web-{hash}"));
    // As upstream's, which does not make the label anew.
    assert_eq!(made.meta().labels.get("controller.kubernetes.io/hash").unwrap(), "6fc8c9d6d6");
    // Revisions of others have other names.
    let other = rig.set("other", &nginx()).await;
    assert_eq!(rig.create(&other, 1, 0).await.1, 0);

    // A DaemonSet writes its collision count itself.
    let name = made.meta().key.name.clone();
    let label = ("controller-revision-hash", "h".into());
    let other = rig.set("third", &image("other")).await;
    let created = rig.history.create(&other.owner(), &rig.own_writes, name, label, 1).await.unwrap();
    assert!(matches!(created, Created::Collision), "{created:?}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn revisions_are_adopted_renumbered_labelled_released_and_deleted() {
    let rig = Rig::start().await;
    let set = rig.set("web", &nginx()).await;
    let own = &rig.own_writes;
    let orphan = |name: &str, app: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "data": {}, "revision": 1,
            "metadata": {"name": name, "labels": {"app": app}},
        })
    };
    for object in [orphan("mine", "nginx"), orphan("not-mine", "other")] {
        rig.revisions.create("default", Content::json(JSON, &object)).await.unwrap();
    }
    eventually("the cache shows the orphan", || {
        let seen = rig.history.observe(&set.owner(), own).unwrap();
        (names(&seen) == ["mine"] && seen[0].claim == Claim::Orphan).then_some(())
    })
    .await;
    let mine = rig.observe(&set).await.remove(0);
    let adopted = rig.history.adopt(&set.meta, own, mine.meta()).await.unwrap().unwrap();
    assert!(adopted.meta().is_controlled_by(&set.meta.uid));
    let renumbered = rig.history.renumber(&set.meta, own, mine.meta(), 7).await.unwrap().unwrap();
    assert_eq!(number(&renumbered), 7);
    let label = ("controller-revision-hash", "mine");
    rig.history.label(&set.meta, own, mine.meta(), label).await.unwrap().unwrap();
    let seen = rig.observe(&set).await;
    assert_eq!((names(&seen), number(&seen[0].object), seen[0].claim), (vec!["mine"], 7, Claim::Owned));
    assert_eq!(seen[0].meta().labels.get(label.0).unwrap(), label.1);

    let labels = ("app", "other");
    rig.history.label(&set.meta, own, mine.meta(), labels).await.unwrap().unwrap();
    assert_eq!(rig.observe(&set).await[0].claim, Claim::Stray);
    for _ in ["owned", "not owned any more"] {
        rig.history.release(&set.meta, own, mine.meta()).await.unwrap();
        assert_eq!(rig.stored(mine.meta()).await.unwrap()["metadata"]["ownerReferences"], Value::Null);
    }
    assert!(rig.observe(&set).await.is_empty());

    let (made, _) = rig.create(&set, 1, 0).await;
    for _ in ["there", "gone"] {
        rig.history.delete(&set.meta.key, own, made.meta()).await.unwrap();
        // Whatever the cache shows.
        assert!(rig.history.observe(&set.owner(), own).unwrap().is_empty());
    }
    for gone in [made.meta(), &Meta { uid: "other".into(), ..mine.meta().clone() }] {
        let renumbered = rig.history.renumber(&set.meta, own, gone, 9).await;
        assert!(!matches!(renumbered, Ok(Some(_))), "{renumbered:?}");
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_revision_is_not_made_for_an_owner_that_is_gone() {
    let rig = Rig::start().await;
    let set = rig.set("web", &nginx()).await;
    let earlier = Set { meta: Meta { uid: "earlier".into(), ..set.meta.clone() }, ..set };
    let created = rig.history.create_for_stateful_set(&earlier.owner(), &rig.own_writes, 1, 0).await.unwrap();
    assert!(matches!(created, (Created::OwnerGone, 0)), "{created:?}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_sees_the_revisions_of_the_one_before_though_its_cache_lags() {
    let rig = Rig::start().await;
    let set = rig.set("web", &nginx()).await;
    rig.server.faults().delay_watches(Calls::to("controllerrevisions"), Duration::from_secs(3600));
    let (made, _) = rig.create(&set, 1, 0).await;
    let seen = rig.history.confirm(&set.owner(), &rig.own_writes).await.unwrap();
    assert_eq!(names(&seen), [&*made.meta().key.name]);
    assert!(seen[0].has_template);
    rig.stop().await;
}
