//! Where an observation comes from, and whether a controller may act on it.

use steersman_api::GroupVersionResource;
use steersman_apiserver::Failure;

use super::*;
use crate::client::Propagation;

const SELECTOR: Labels = &[("app", "a")];

impl Scene {
    /// Creates a pod for an owner, as a controller does.
    async fn create_for(&self, name: &str, pod: &str) -> Result<Created<Pod>, SyncError> {
        let content = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let create = self.children.child_client.create("default", Content::json(JSON, &content));
        self.children.own_writes.write(&key(name), create).await
    }

    /// The cache that keeps an observation back, with `Some` if it does so for the first time.
    async fn behind(&self, name: &str) -> Option<Option<GroupVersionResource>> {
        match self.children.observe(&key(name)).await.unwrap() {
            Sight::Behind { at_most, newly } => {
                assert!(at_most > Duration::ZERO);
                Some(newly)
            }
            Sight::Family(_) | Sight::Absent => None,
        }
    }

    async fn is_absent(&self, name: &str) -> bool {
        matches!(self.children.observe(&key(name)).await.unwrap(), Sight::Absent)
    }

    fn begin_term(&self) {
        self.children.first_looks.term_begins();
        self.children.term_begins();
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_observed_with_what_it_may_adopt() {
    let scene = Scene::start(&[owner("a", SELECTOR), owner("b", &[("app", "b")])], &["p", "q"]).await;
    let family = scene.family("a").await;
    assert_eq!((family.owner.meta().key.name.as_str(), family.names()), ("a", vec!["p", "q"]));
    assert!(family.children.iter().all(|(_, claim)| *claim == Claim::Orphan));
    assert_eq!(scene.family("b").await.names(), [""; 0]);
    assert!(scene.is_absent("c").await);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_need_not_see_settled_children_does_not() {
    let scene = Scene::start(&[owner("a", SELECTOR)], &["p", "q"]).await;
    let a = scene.family("a").await.owner;
    for pod in ["p", "q"] {
        let pod = scene.children.child_lister.meta(&key(pod)).unwrap();
        scene.children.adopt(a.meta(), &pod, &[]).await.unwrap();
    }
    let label = |value: Value| Patch::Strategic(json!({"metadata": {"labels": {"settled": value}}}));
    for (value, unsettled) in [(json!("yes"), vec!["p"]), (Value::Null, vec!["p", "q"])] {
        scene.children.child_client.patch(&key("q"), &label(value)).await.unwrap();
        scene.catch_up().await;
        assert_eq!(scene.family("a").await.names(), ["p", "q"]);
        let family = scene.children.observe_unsettled(&key("a")).await.unwrap().family();
        assert_eq!(family.names(), unsettled);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observation_waits_until_the_cache_shows_the_controllers_own_writes() {
    let scene = Scene::start(&[owner("a", SELECTOR), owner("b", SELECTOR)], &[]).await;
    scene.lag();
    scene.create_for("a", "p").await.unwrap();
    assert_eq!(scene.behind("a").await, Some(Some(GroupVersionResource::new("", "v1", "pods"))));
    assert_eq!(scene.behind("a").await, Some(None), "it is the same wait");
    assert_eq!(scene.behind("b").await, None, "another owner does not wait");
    scene.catch_up().await;
    assert_eq!(scene.family("a").await.names(), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_write_without_an_answer_the_api_server_is_asked() {
    let scene = Scene::start(&[owner("a", SELECTOR)], &[]).await;
    scene.lag();
    scene.server.faults().fail(1, pods().verb(Verb::Create), Failure::ResetAfterwards);
    scene.create_for("a", "p").await.unwrap_err();
    let family = scene.family("a").await;
    assert_eq!((family.names(), family.grounds), (vec!["p"], Grounds::Sure));
    assert!(scene.behind("a").await.is_some(), "the cache does not show yet what was read");
    scene.catch_up().await;
    assert_eq!(scene.family("a").await.names(), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_a_list_lacks_is_gone_although_the_cache_still_shows_it() {
    let scene = Scene::start(&[owner("a", SELECTOR)], &["p", "q"]).await;
    scene.lag();
    scene.delete_pod("p").await;
    assert_eq!(scene.family("a").await.names(), ["p", "q"], "no write of this process was lost");
    scene.server.faults().fail(1, pods().verb(Verb::Create), Failure::Reset);
    scene.create_for("a", "r").await.unwrap_err();
    assert_eq!(scene.family("a").await.names(), ["q"], "as listed");
    let cached = scene.family("a").await;
    assert_eq!((cached.children.len(), cached.names()), (2, vec!["q"]), "as cached");
    scene.catch_up().await;
    assert_eq!(scene.family("a").await.children.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_a_live_read_does_not_find_stays_absent_while_the_cache_still_shows_it() {
    let scene = Scene::start(&[owner("a", SELECTOR)], &[]).await;
    let owners = Calls::to("replicationcontrollers");
    scene.server.faults().delay_watches(owners.clone().verb(Verb::Watch), LAG);
    let at_once = Delete { propagation: Some(Propagation::Background), ..Delete::default() };
    scene.children.owner_client.delete(&key("a"), &at_once).await.unwrap();
    scene.server.faults().fail(1, pods().verb(Verb::Create), Failure::Reset);
    scene.create_for("a", "p").await.unwrap_err();
    for _ in 0..2 {
        assert!(scene.is_absent("a").await);
    }
    scene.catch_up().await;
    assert!(scene.is_absent("a").await);
    let recording = scene.server.record();
    assert!(scene.is_absent("a").await);
    assert_eq!(recording.count(&owners), 0, "nothing is remembered of an owner that the cache lacks");
}

#[tokio::test(start_paused = true)]
async fn only_an_owner_that_no_other_process_can_have_acted_on_is_sure_without_a_look() {
    let scene = Scene::start(&[owner("before", SELECTOR)], &[]).await;
    scene.begin_term();
    assert_eq!(scene.family("before").await.grounds, Grounds::Unsure);
    scene.create_owner(&owner("new", SELECTOR)).await;
    scene.create_owner(&owner("changed", SELECTOR)).await;
    let spec = Patch::Merge(json!({"spec": {"replicas": 3}}));
    scene.children.owner_client.patch(&key("changed"), &spec).await.unwrap();
    scene.create_owner(&owner("written", SELECTOR)).await;
    let status = Patch::Merge(json!({"status": {"replicas": 0, "observedGeneration": 1}}));
    scene.children.owner_client.patch_status(&key("written"), &status).await.unwrap();
    scene.catch_up().await;
    for (name, grounds) in [
        ("new", Grounds::Sure),
        ("changed", Grounds::Unsure),
        ("written", Grounds::Unsure),
        ("before", Grounds::Unsure),
    ] {
        assert_eq!(scene.family(name).await.grounds, grounds, "{name}");
    }
    let spec = Patch::Merge(json!({"spec": {"replicas": 3}}));
    scene.children.owner_client.patch(&key("new"), &spec).await.unwrap();
    scene.catch_up().await;
    assert_eq!(scene.family("new").await.grounds, Grounds::Sure, "it was sure before it changed");
    scene.begin_term();
    assert_eq!(scene.family("new").await.grounds, Grounds::Unsure, "in the next term");
}

#[tokio::test(start_paused = true)]
async fn caches_that_show_everything_confirm_all_owners_at_once() {
    let scene = Scene::start(&[owner("a", SELECTOR), owner("b", SELECTOR)], &["p"]).await;
    scene.begin_term();
    assert_eq!(scene.family("a").await.grounds, Grounds::Unsure);
    let confirmed = scene.children.confirm(&key("a")).await.unwrap().unwrap();
    assert_eq!((confirmed.names(), confirmed.grounds), (vec!["p"], Grounds::Sure));
    assert_eq!(scene.family("b").await.grounds, Grounds::Sure);
    assert!(scene.children.confirm(&key("c")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn caches_that_lag_confirm_by_a_read_of_one_owner() {
    let scene = Scene::start(&[owner("a", SELECTOR), owner("b", SELECTOR)], &["old"]).await;
    scene.lag();
    scene.create_pod("new").await;
    scene.delete_pod("old").await;
    scene.begin_term();
    let unsure = scene.family("a").await;
    assert_eq!((unsure.names(), unsure.grounds), (vec!["old"], Grounds::Unsure));
    let confirmed = scene.children.confirm(&key("a")).await.unwrap().unwrap();
    assert_eq!((confirmed.names(), confirmed.grounds), (vec!["new"], Grounds::Sure));
    assert_eq!(scene.family("b").await.grounds, Grounds::Unsure, "only one owner was read");
    scene.catch_up().await;
    let caught_up = scene.family("a").await;
    assert_eq!((caught_up.names(), caught_up.grounds), (vec!["new"], Grounds::Sure));
}
