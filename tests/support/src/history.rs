//! What became of the pods of a namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use kube_runtime::watcher;
use kube_runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::replicas::name_of;
use super::until;

/// The label of the pods that [`PodHistory`] creates.
const BARRIER: &str = "barrier";

/// Remembers every state of the pods of a namespace. It stops when this is dropped.
///
/// States that follow each other quickly are all seen, in their order. Those that pods have while the API server is away, and
/// just after, may be missing: then a list tells the states of all pods at one time.
pub struct PodHistory {
    changes: Arc<Mutex<Vec<Change>>>,
    pods: Api<Pod>,
    _tasks: JoinSet<()>,
}

enum Change {
    Is(Box<Pod>),
    Gone(String),
    /// These pods exist, and no others.
    All(Vec<Pod>),
}

impl Change {
    /// The pods whose states it tells.
    fn pods(&self) -> &[Pod] {
        match self {
            Self::Is(pod) => std::slice::from_ref(pod),
            Self::Gone(_) => &[],
            Self::All(pods) => pods,
        }
    }
}

impl PodHistory {
    /// Remembers the pods of the client's namespace from now on.
    pub fn start(client: &kube::Client) -> Self {
        let changes = Arc::<Mutex<Vec<Change>>>::default();
        let pods = Api::<Pod>::default_namespaced(client.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(record(pods.clone(), Arc::clone(&changes)));
        Self { changes, pods, _tasks: tasks }
    }

    /// The number of pods that ever were. It waits until the history is up to date.
    pub async fn count(&self) -> usize {
        self.count_of(|_| true).await
    }

    /// As [`count`](Self::count), of the pods with this value of the label `app`.
    pub async fn count_of_app(&self, app: &str) -> usize {
        self.count_of(|pod| label(pod, "app") == Some(app)).await
    }

    async fn count_of(&self, counts: impl Fn(&Pod) -> bool) -> usize {
        self.catch_up().await;
        let changes = self.changes.lock();
        let pods = changes.iter().flat_map(Change::pods);
        let counted = pods.filter(|pod| label(pod, BARRIER).is_none() && counts(pod));
        counted.filter_map(|pod| pod.metadata.uid.as_ref()).collect::<BTreeSet<_>>().len()
    }

    /// Shows each state of the pods with this value of the label `app`, by name, oldest first. It waits until the history is up
    /// to date.
    pub async fn replay(&self, app: &str, mut see: impl FnMut(&BTreeMap<String, &Pod>)) {
        self.replay_with_gaps(app, |pods, _| see(pods)).await;
    }

    /// As [`replay`](Self::replay). The flag tells whether states may be missing between this one and the one before it.
    pub async fn replay_with_gaps(&self, app: &str, mut see: impl FnMut(&BTreeMap<String, &Pod>, bool)) {
        self.catch_up().await;
        let changes = self.changes.lock();
        let mut state = BTreeMap::new();
        for change in &*changes {
            match change {
                Change::Is(pod) if label(pod, "app") == Some(app) => {
                    state.insert(name_of(pod), &**pod);
                }
                Change::Is(pod) => {
                    state.remove(&name_of(pod));
                }
                Change::Gone(name) => {
                    state.remove(name);
                }
                Change::All(pods) => {
                    let of_app = pods.iter().filter(|pod| label(pod, "app") == Some(app));
                    state = of_app.map(|pod| (name_of(pod), pod)).collect();
                }
            }
            see(&state, matches!(change, Change::All(_)));
        }
    }

    /// Waits until the history includes a pod that it creates for this. Pods that come and go before may be missing if the API server
    /// was away: a test that counts pods waits for this after a restart, before it lets any go.
    pub async fn catch_up(&self) {
        let barrier = json!({
            "metadata": { "generateName": "barrier-", "labels": { BARRIER: "" } },
            "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
        });
        let barrier = serde_json::from_value(barrier).expect("it is a pod");
        let barrier = self.pods.create(&PostParams::default(), &barrier).await.expect("a pod must be made");
        let is_it =
            |change: &Change| change.pods().iter().any(|pod| pod.metadata.uid == barrier.metadata.uid);
        until("the history is up to date", || self.changes.lock().iter().rev().any(is_it)).await;
    }
}

fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

async fn record(pods: Api<Pod>, changes: Arc<Mutex<Vec<Change>>>) {
    // It tries again every 100 ms: the usual backoff, of up to half a minute, would miss what the manager does once the server is back.
    let mut events = std::pin::pin!(watcher(pods, watcher::Config::default()));
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let change = match event {
            Ok(Event::Apply(pod)) => Change::Is(Box::new(pod)),
            Ok(Event::Delete(pod)) => Change::Gone(name_of(&pod)),
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(pod)) => {
                listed.push(pod);
                continue;
            }
            // Together: one after the other, they would tell of states that never were.
            Ok(Event::InitDone) => Change::All(std::mem::take(&mut listed)),
            Err(_) => {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        changes.lock().push(change);
    }
}
