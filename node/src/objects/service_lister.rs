//! The cluster's services.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use parking_lot::RwLock;
use steersman_informer::delta_fifo::delta_fifo;
use steersman_informer::list_watch::{ApiListerWatcher, Scope};
use steersman_informer::reflector::{Config, Reflector};
use steersman_informer::wire::whole::Whole;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Services;
use super::reflection::Reflection;
use super::watched_object::resource_of;

/// How far the list may run ahead of the cache.
const FIFO_CAPACITY: usize = 64;

/// All services, listed and watched; on a node with an API server only.
pub struct ServiceLister {
    services: RwLock<Reflection<Service>>,
    synced: watch::Sender<bool>,
}

impl ServiceLister {
    /// Empty until it is [run](Self::run).
    pub fn new() -> Arc<Self> {
        let services = RwLock::new(Reflection::new());
        Arc::new(Self { services, synced: watch::Sender::new(false) })
    }

    /// Lists and watches until `stop`. `client` must neither limit nor retry.
    pub async fn run(self: Arc<Self>, client: kube::Client, stop: CancellationToken) {
        let resource = resource_of::<Service>();
        let source = ApiListerWatcher::<Whole<Service>>::new(client, resource.clone(), Scope::default());
        let reflector = Reflector::new(Arc::new(source), resource, Config::default());
        let (producer, mut consumer) = delta_fifo(FIFO_CAPACITY);
        let keep = async {
            while let Some(deltas) = consumer.pop().await {
                let mut services = self.services.write();
                let complete =
                    deltas.into_iter().fold(false, |complete, delta| services.apply(delta) | complete);
                drop(services);
                if complete {
                    self.synced.send_replace(true);
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            // Neither ends by itself.
            () = reflector.list_and_watch(producer) => {}
            () = keep => {}
        }
    }

    /// Waits until services were once listed.
    pub async fn wait_for_sync(&self) {
        // The sender lives as long as this lister.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }
}

impl Services for ServiceLister {
    fn synced(&self) -> bool {
        *self.synced.borrow()
    }

    fn of_namespace(&self, namespace: &str) -> Vec<Arc<Service>> {
        self.services.read().of_namespace(namespace)
    }
}
