//! A kube-runtime controller reconciles because of changes that a shared informer sees.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::watcher;
use serde_json::json;
use steersman_apiserver::TestServer;
use steersman_informer::wire::meta::MetaOnly;
use steersman_informer::{GroupVersionResource, Lister, SharedInformerFactory, factory};
use tokio::sync::mpsc;

struct Reconciler {
    secrets: Lister<MetaOnly>,
    /// The number of secrets that each reconcile sees.
    seen: mpsc::UnboundedSender<usize>,
}

async fn reconcile(_: Arc<ConfigMap>, reconciler: Arc<Reconciler>) -> Result<Action, Infallible> {
    let _ = reconciler.seen.send(reconciler.secrets.len());
    Ok(Action::await_change())
}

async fn until(seen: &mut mpsc::UnboundedReceiver<usize>, count: usize) {
    let wait = async { while seen.recv().await.expect("the controller must run") != count {} };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the owner must be reconciled");
}

#[tokio::test]
async fn a_controller_reconciles_the_owners_of_what_an_informer_sees() {
    let server = TestServer::start().await;
    let client = server.in_memory_client();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let map = serde_json::from_value(json!({ "metadata": { "name": "owner" } })).unwrap();
    let owner = maps.create(&PostParams::default(), &map).await.unwrap();

    let factory = SharedInformerFactory::new(server.in_memory_client(), factory::Options::default());
    let resource = GroupVersionResource::new("", "v1", "secrets");
    let informer = factory.informer_at::<MetaOnly>(resource).unwrap();
    let (seen, mut told) = mpsc::unbounded_channel();
    let reconciler = Reconciler { secrets: informer.lister(), seen };
    let controller = Controller::new(maps.clone(), watcher::Config::default())
        .reconcile_on(informer.owner_refs())
        .run(reconcile, |_, _, _| Action::await_change(), Arc::new(reconciler))
        .for_each(|_| std::future::ready(()));
    factory.start();
    let test = async {
        until(&mut told, 0).await;
        let secrets = Api::<Secret>::namespaced(client, "default");
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid, "controller": true,
        });
        let secret = json!({ "metadata": { "name": "owned", "ownerReferences": [reference] } });
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        until(&mut told, 1).await;
        secrets.delete("owned", &DeleteParams::default()).await.unwrap();
        until(&mut told, 0).await;
    };
    tokio::select! {
        () = controller => panic!("the controller must run for as long as the test"),
        () = test => {}
    }
    factory.shutdown().await;
}
