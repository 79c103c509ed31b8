//! The Node as the rest of the node reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use parking_lot::RwLock;
use steersman_api::{FieldSelector, GroupVersionResource};
use steersman_informer::list_watch::{ApiListerWatcher, Scope};
use steersman_informer::shared_informer::Config;
use steersman_informer::wire::whole::Whole;
use steersman_informer::{Change, SharedInformer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::addresses;
use crate::node_info::NodeInfo;

/// The node's own Node: as the API server last told it, and before that (and without API server) as the node would register
/// itself. A clone is the same.
#[derive(Clone)]
pub struct LiveNode(Arc<Shared>);

struct Shared {
    name: String,
    known: RwLock<Known>,
    synced: watch::Sender<bool>,
}

#[derive(Default)]
struct Known {
    /// The newest that the API server told, by the watch or as an answer to a write.
    told: Option<Arc<Node>>,
    /// As the node would register itself.
    initial: Option<Arc<Node>>,
}

impl LiveNode {
    /// Nothing is known but the name.
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Shared {
            name: name.to_owned(),
            known: RwLock::default(),
            synced: watch::Sender::new(false),
        }))
    }

    /// Watches the Node until `stop`. `client` must neither limit nor retry.
    pub async fn run(&self, client: kube::Client, stop: CancellationToken) {
        let scope = Scope { fields: FieldSelector::name(&self.0.name), ..Scope::default() };
        let resource = GroupVersionResource::new("", "v1", "nodes");
        let source = Arc::new(ApiListerWatcher::<Whole<Node>>::new(client, resource.clone(), scope));
        let shared = SharedInformer::new(source, resource, Config::default());
        let Ok(informer) = shared.select::<Whole<Node>>() else {
            // A kind that is kept whole has no groups that could be missing.
            return;
        };
        let this = self.clone();
        informer.map(move |change: &Change<Whole<Node>>| match change.new() {
            Some(view) => match view.object().object() {
                Some(node) => this.saw(node.clone()),
                None => tracing::warn!("Node can't be read; its last good state stays"),
            },
            None => this.gone(change.newest().meta().uid.to_string().as_str()),
        });
        tokio::select! {
            () = Arc::clone(&shared).run(stop) => {}
            () = async {
                self.0.synced.send_replace(informer.synced().await);
                std::future::pending().await
            } => {}
        }
    }

    /// Returns once the API server told of the Node, or that there is none. Never does without [`run`](Self::run).
    pub async fn synced(&self) {
        // The sender lives as long as this does.
        let _ = self.0.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// The Node as the API server told it, else as the node would register itself; `None` before the first observation.
    pub fn any_way(&self) -> Option<Arc<Node>> {
        let known = self.0.known.read();
        known.told.clone().or_else(|| known.initial.clone())
    }

    /// The API server told this, by the watch or as an answer to a write. What is older than what is known is left out.
    pub(super) fn saw(&self, node: Node) {
        let mut known = self.0.known.write();
        let outdated = known
            .told
            .as_ref()
            .is_some_and(|told| told.metadata.uid == node.metadata.uid && version(told) > version(&node));
        if !outdated {
            known.told = Some(Arc::new(node));
        }
    }

    /// That Node was deleted.
    fn gone(&self, uid: &str) {
        let mut known = self.0.known.write();
        if known.told.as_ref().is_some_and(|told| told.metadata.uid.as_deref() == Some(uid)) {
            known.told = None;
        }
    }

    /// There is no Node any more.
    pub(super) fn lost(&self) {
        self.0.known.write().told = None;
    }

    /// This is how the node would register itself.
    pub(super) fn set_initial(&self, node: Node) {
        self.0.known.write().initial = Some(Arc::new(node));
    }
}

fn version(node: &Node) -> u64 {
    let version = node.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl NodeInfo for LiveNode {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.0.known.read().told.clone()
    }

    fn host_ips(&self) -> Vec<String> {
        self.any_way().map_or_else(Vec::new, |node| addresses::host_ips(&node))
    }

    fn allocatable(&self) -> BTreeMap<String, Quantity> {
        let node = self.any_way();
        node.and_then(|node| node.status.as_ref()?.allocatable.clone()).unwrap_or_default()
    }
}
