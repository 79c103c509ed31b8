//! All objects of a kind that a namespace ever had.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Resource};
use kube_runtime::watcher;
use kube_runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use support::until;

/// The prefix of the names of objects that [`Record`] creates.
const BARRIER: &str = "barrier-";

/// Remembers each object of a kind that appears in a namespace, by uid. It stops when this is dropped.
pub(super) struct Record {
    seen: Arc<Mutex<BTreeMap<String, ObjectMeta>>>,
    api: Api<DynamicObject>,
    barrier: DynamicObject,
    _tasks: JoinSet<()>,
}

impl Record {
    /// Remembers objects of the client's namespace from now on. `barrier` has the fields, beside the metadata, of an object that
    /// no controller acts on.
    pub(super) async fn start<K: Resource<DynamicType = ()>>(client: &kube::Client, barrier: Value) -> Self {
        let kind = ApiResource::erase::<K>(&());
        let api = Api::default_namespaced_with(client.clone(), &kind);
        let mut barrier = DynamicObject::new("", &kind).data(barrier);
        barrier.metadata = ObjectMeta { generate_name: Some(BARRIER.to_owned()), ..ObjectMeta::default() };
        let seen = Arc::<Mutex<_>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(record(api.clone(), Arc::clone(&seen)));
        let record = Self { seen, api, barrier, _tasks: tasks };
        record.catch_up().await;
        record
    }

    /// The metadata of all objects that there ever were, as each was first seen.
    pub(super) async fn ever(&self) -> Vec<ObjectMeta> {
        self.catch_up().await;
        let seen = self.seen.lock();
        seen.values().filter(|meta| meta.generate_name.as_deref() != Some(BARRIER)).cloned().collect()
    }

    /// Waits until the record includes an object that it creates for this.
    async fn catch_up(&self) {
        let barrier = self.api.create(&PostParams::default(), &self.barrier).await;
        let uid = barrier.expect("a barrier must be made").metadata.uid.expect("a created object has a uid");
        until("the record is up to date", || self.seen.lock().contains_key(&uid)).await;
    }
}

async fn record(api: Api<DynamicObject>, seen: Arc<Mutex<BTreeMap<String, ObjectMeta>>>) {
    // It tries again every 100 ms: the usual backoff, of up to half a minute, would miss objects that come and go meanwhile.
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let uid = object.metadata.uid.clone().expect("a stored object has a uid");
                seen.lock().entry(uid).or_insert(object.metadata);
            }
            Ok(_) => {}
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}
