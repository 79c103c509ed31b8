//! The source API server: the pods that are bound to this node.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::{FieldSelector, GroupVersionResource, ObjectKey};
use steersman_informer::list_watch::{ApiListerWatcher, Scope};
use steersman_informer::shared_informer::Config;
use steersman_informer::wire::whole::Whole;
use steersman_informer::{Change, SharedInformer};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::mux::{Closed, SourceHandle};
use super::update::SourcePod;

/// The pods in the informer's cache, those that can't be read too.
type Cached = Mutex<BTreeMap<ObjectKey, Arc<Whole<Pod>>>>;

/// Lists and watches the pods of a node and says which they are, from the first complete list on, until `stop`.
///
/// To be run once the node itself was read from the API server: pods are admitted by what the node says. `client` must
/// neither limit nor retry. Changes that follow each other closely are told as one.
pub async fn run(client: kube::Client, node_name: &str, handle: SourceHandle, stop: CancellationToken) {
    let fields = FieldSelector::equal("spec.nodeName", node_name);
    let scope = Scope { fields, ..Scope::default() };
    let resource = GroupVersionResource::new("", "v1", "pods");
    let source = Arc::new(ApiListerWatcher::<Whole<Pod>>::new(client, resource.clone(), scope));
    let shared = SharedInformer::new(source, resource, Config::default());
    let Ok(informer) = shared.select::<Whole<Pod>>() else {
        // A kind that is kept whole has no groups that could be missing.
        return;
    };
    let cached = Arc::new(Cached::default());
    let changed = Arc::new(Notify::new());
    {
        let (cached, changed) = (Arc::clone(&cached), Arc::clone(&changed));
        informer.map(move |change: &Change<Whole<Pod>>| {
            apply(&mut cached.lock(), change);
            changed.notify_one();
        });
    }
    let tell = async {
        informer.synced().await;
        loop {
            let pods = cached.lock().values().cloned().map(SourcePod::Cached).collect();
            handle.set(pods).await?;
            changed.notified().await;
        }
    };
    tokio::select! {
        () = Arc::clone(&shared).run(stop.clone()) => {}
        () = stop.cancelled() => {}
        ended = tell => {
            let Err::<std::convert::Infallible, Closed>(closed) = ended;
            tracing::debug!(%closed, "source of pods ends");
        }
    }
}

fn apply(cached: &mut BTreeMap<ObjectKey, Arc<Whole<Pod>>>, change: &Change<Whole<Pod>>) {
    match change.new() {
        Some(view) => {
            if view.object().object().is_none() {
                tracing::warn!(pod = %change.key(), "Pod can't be read; its last good state stays");
            }
            cached.insert(change.key().clone(), Arc::clone(view.object()));
        }
        None => _ = cached.remove(change.key()),
    }
}
