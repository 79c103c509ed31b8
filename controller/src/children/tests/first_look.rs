//! What a new leader's cache lacks.

use super::*;

impl Scene {
    async fn look(&self) -> Look {
        let (client, cache) = (self.children.child_client.resource(), self.children.children.any());
        self.children.first_looks.look(client, &cache).await.unwrap()
    }

    /// Begins a term with a cache of pods that lags behind what `before` does.
    async fn take_over_after(&self, before: impl AsyncFnOnce(&Self)) {
        self.lag();
        before(self).await;
        self.children.first_looks.term_begins();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_shows_all_is_current_even_if_it_cannot_know_that_by_its_version() {
    let scene = Scene::start(&[], &["a", "b"]).await;
    // A write to another kind makes the version that a list of pods has newer than all that their watch has told.
    scene.take_over_after(async |scene| _ = scene.create_owner(&owner("a", &[])).await).await;
    let lists = scene.server.record();
    for _ in 0..3 {
        assert_eq!(scene.look().await, Look::Current);
    }
    // One for the version, and one of all pods.
    assert_eq!(lists.count(&pods().verb(Verb::List)), 2);
}

/// What the leader before did to the pods `a` and `b`.
#[derive(Clone, Copy, Debug)]
enum Did {
    Create,
    Delete,
    Change,
    /// Deleted a pod, and created another of that name.
    Replace,
    /// Created a pod that is deleted after the look.
    CreateBriefly,
}

impl Scene {
    async fn did(&self, what: Did) {
        match what {
            Did::Create | Did::CreateBriefly => _ = self.create_pod("c").await,
            Did::Delete => self.delete_pod("a").await,
            Did::Change => {
                let patch = Patch::Merge(json!({"metadata": {"labels": {"b": "c"}}}));
                self.children.child_client.patch(&key("b"), &patch).await.unwrap();
            }
            Did::Replace => {
                self.delete_pod("a").await;
                self.create_pod("a").await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_behind_until_it_shows_what_the_leader_before_did() {
    for what in [Did::Create, Did::Delete, Did::Change, Did::Replace, Did::CreateBriefly] {
        let scene = Scene::start(&[], &["a", "b"]).await;
        scene.take_over_after(async |scene| scene.did(what).await).await;
        let lists = scene.server.record();
        for _ in 0..3 {
            assert_eq!(scene.look().await, Look::Behind, "{what:?}");
        }
        if let Did::CreateBriefly = what {
            scene.delete_pod("c").await;
        }
        scene.catch_up().await;
        assert_eq!(scene.look().await, Look::Current, "{what:?}");
        // The first look has listed all pods, and the later ones only compare the cache with what differed.
        assert_eq!(lists.count(&pods().verb(Verb::List)), 2, "{what:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_term_looks_anew() {
    let scene = Scene::start(&[], &["a"]).await;
    assert_eq!(scene.look().await, Look::Current);
    scene.take_over_after(async |scene| scene.delete_pod("a").await).await;
    assert_eq!(scene.look().await, Look::Behind);
}
