//! Deletions of owners that one garbage collector begins and the other ends.

use std::collections::BTreeMap;

use kube::api::PropagationPolicy::{Background, Foreground, Orphan};

use super::{assets, slowly};
use support::manager::Manager;
use support::owned::{Object, count};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=garbage-collector-controller";
const DEPENDENTS: usize = 60;

/// An owner with its dependents.
struct Family {
    client: kube::Client,
    owner: Object,
    dependents: Vec<Object>,
}

impl Family {
    async fn create(client: &kube::Client, name: &str, size: usize) -> Self {
        let owner = Object::config_map(client, name, &[]).await;
        let mut dependents = Vec::new();
        for at in 0..size {
            let dependent = format!("of-{name}-{at}");
            dependents.push(Object::config_map(client, &dependent, &[owner.blocking()]).await);
        }
        Self { client: client.clone(), owner, dependents }
    }

    async fn left(&self) -> usize {
        count(&self.client, &format!("of-{}-", self.owner.name)).await
    }

    async fn some_are_gone(&self) {
        eventually("some are gone", || async { (self.left().await <= DEPENDENTS - 5).then_some(()) }).await;
    }

    async fn all_are_gone(&self) {
        eventually("all are gone", || async { (self.left().await == 0).then_some(()) }).await;
        self.owner.goes().await;
    }

    async fn versions(&self) -> BTreeMap<String, Option<String>> {
        let mut versions = BTreeMap::new();
        for object in self.dependents.iter().chain([&self.owner]) {
            let version = object.get().await.and_then(|object| object.metadata.resource_version);
            versions.insert(object.name.clone(), version);
        }
        versions
    }
}

#[tokio::test]
async fn deletions_are_handed_over_and_back_in_the_middle() {
    let Some(assets) = assets() else { return };
    for cluster in [Cluster::start_own().await, Cluster::start_embedded().await] {
        let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
        let stays = Family::create(&client, "stays", 10).await;
        let before = stays.versions().await;

        // Ours begins, upstream's goes on.
        let family = Family::create(&client, "first", DEPENDENTS).await;
        let mut ours = Manager::start(&kubeconfig, &slowly(CONTROLLERS));
        family.owner.delete(Foreground).await;
        family.some_are_gone().await;
        ours.stop().await;
        assert!(family.left().await > 0, "it was in the middle");
        let upstream = Manager::start_upstream(&assets, &kubeconfig, &[CONTROLLERS]);
        family.all_are_gone().await;
        drop(upstream);

        // The other way round.
        let family = Family::create(&client, "second", DEPENDENTS).await;
        let upstream = Manager::start_upstream(&assets, &kubeconfig, &slowly(CONTROLLERS));
        family.owner.delete(Background).await;
        family.some_are_gone().await;
        drop(upstream);
        assert!(family.left().await > 0, "it was in the middle");
        let released = Family::create(&client, "released", 5).await;
        released.owner.delete(Orphan).await;
        let _ours = Manager::start(&kubeconfig, &[CONTROLLERS]);
        family.all_are_gone().await;
        for dependent in &released.dependents {
            dependent.has_owners(&[]).await;
        }
        assert_eq!(stays.versions().await, before, "what has an owner is not touched");
    }
}
