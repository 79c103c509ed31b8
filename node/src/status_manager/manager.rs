//! The manager: takes statuses in and gets them to the API server.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use parking_lot::Mutex;
use steersman_client::fault::told;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::cache::{Cache, Due, Update, may_be_deleted};
use super::conditions::{self, replace_or_append};
use super::merge::{Containers, merge};
use super::metrics::Metrics;
use super::patch::status_patch;
use super::pods::{PodDeletionSafety, Pods};
use super::terminate;
use crate::pod_config::is_static_pod;

/// How often all statuses are compared with what the API server has (upstream: `syncPeriod`).
pub(super) const SYNC_PERIOD: Duration = Duration::from_secs(10);
/// How long the calls for one pod may take: after that they count as failed, and the status goes out later.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The newest status of each pod on this node, and the one who tells the API server. A clone is the same.
///
/// Statuses go out in the order in which they were set, each pod's by itself: those in between are left out, and a call
/// that hangs holds up its pod alone. One that fails goes out again with the next change of any pod, or after
/// ten seconds.
#[derive(Clone)]
pub struct StatusManager {
    shared: Arc<Shared>,
}

struct Shared {
    cache: Mutex<Cache>,
    /// Something in the cache is newer than what the API server has.
    changed: Notify,
    pods: Arc<dyn Pods>,
    safety: Arc<dyn PodDeletionSafety>,
    metrics: Metrics,
}

/// What became of a status that was set.
#[derive(Debug, Clone)]
pub struct Set {
    /// The pod's status as it stands now.
    pub status: PodStatus,
    /// Whether that is another than before, and will be written.
    pub changed: bool,
}

/// Why a status did not get to the API server. It stays queued.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("reading the pod: {}", told(.0))]
    Get(#[source] Box<kube::Error>),
    #[error("writing the patch: {0}")]
    Encode(#[source] serde_json::Error),
    #[error("making the request: {0}")]
    Request(#[source] http::Error),
    #[error("patching the status: {}", told(.0))]
    Patch(#[source] Box<kube::Error>),
    #[error("deleting the pod: {}", told(.0))]
    Delete(#[source] Box<kube::Error>),
    #[error("no answer within {CALL_TIMEOUT:?}")]
    Timeout,
}

impl StatusManager {
    /// Without any status.
    pub fn new(pods: Arc<dyn Pods>, safety: Arc<dyn PodDeletionSafety>, metrics: Metrics) -> Self {
        let (cache, changed) = (Mutex::default(), Notify::new());
        Self { shared: Arc::new(Shared { cache, changed, pods, safety, metrics }) }
    }

    /// The status of a pod; of a mirror that of its static pod. `None` if none was set yet.
    pub fn get(&self, uid: &str) -> Option<PodStatus> {
        let resolved = self.shared.pods.static_pod_of(uid);
        let cache = self.shared.cache.lock();
        cache.get(resolved.as_deref().unwrap_or(uid)).map(|cached| cached.status.clone())
    }

    /// Sets a pod's status. Start time and times of transitions stay as they were; a status that would bring an ended
    /// container back to life is refused with a line in the log.
    pub fn set(&self, pod: &Pod, mut status: PodStatus) -> Set {
        status.observed_generation = pod.metadata.generation;
        let changed = self.update(pod, usual(pod), |_| Some(status));
        let cached = self.shared.cache.lock().get(uid_of(pod)).map(|cached| cached.status.clone());
        Set { status: cached.unwrap_or_default(), changed }
    }

    /// Says whether a container is ready, as its probe found, and what follows for the pod.
    pub fn set_container_readiness(&self, uid: &str, container_id: &str, ready: bool) {
        self.change_container(uid, |pod, status| {
            let container =
                container_mut(status, container_id).filter(|container| container.ready != ready)?;
            container.ready = ready;
            let mut all = status.init_container_statuses.clone().unwrap_or_default();
            all.extend(status.container_statuses.clone().unwrap_or_default());
            let mut list = status.conditions.take().unwrap_or_default();
            let phase = status.phase.as_deref();
            let pod_ready = conditions::ready(pod, &list, Some(&all), phase);
            replace_or_append(&mut list, pod_ready);
            replace_or_append(&mut list, conditions::containers_ready(pod, Some(&all), phase));
            status.conditions = Some(list);
            Some(())
        });
    }

    /// Says that a pod's sandbox is there with its network; the rest of its status stays as it is.
    pub fn set_sandbox_ready(&self, pod: &Pod) {
        self.update(pod, usual(pod), |known| {
            let mut status = known.or(pod.status.as_ref()).cloned().unwrap_or_default();
            let ready = conditions::ready_to_start_containers(pod, conditions::Sandbox::Ready);
            replace_or_append(status.conditions.get_or_insert_default(), ready);
            status.observed_generation = pod.metadata.generation;
            Some(status)
        });
    }

    /// Says whether a container has started, as its probe found.
    pub fn set_container_startup(&self, uid: &str, container_id: &str, started: bool) {
        self.change_container(uid, |_, status| {
            let container = container_mut(status, container_id)?;
            (container.started != Some(started)).then(|| container.started = Some(started))
        });
    }

    /// The pod's last status: nothing of it is left on this node. What nobody saw end counts as killed. Once this is
    /// written, a pod that is to be deleted goes.
    pub fn terminate(&self, pod: &Pod) {
        self.update(pod, Update::Last, |known| {
            let known = known.or(pod.status.as_ref()).cloned();
            Some(terminate::ended(pod, known.unwrap_or_default()))
        });
    }

    /// Forgets a pod's status.
    pub fn delete(&self, uid: &str) {
        self.shared.cache.lock().remove(uid);
    }

    /// Forgets the statuses of all pods but these.
    pub fn remove_orphaned(&self, uids: &HashSet<String>) {
        self.shared.cache.lock().retain(uids);
    }

    /// Writes statuses until `stop`. To be called once. `client` may limit and retry as it likes.
    pub async fn run(&self, client: kube::Client, stop: CancellationToken) {
        stop.run_until_cancelled(self.sync(&client)).await;
    }

    async fn sync(&self, client: &kube::Client) {
        let mut ticks = tokio::time::interval(SYNC_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        let mut under_way = FuturesUnordered::new();
        // Pods whose calls are under way, and those whose calls failed and must wait for the next change or tick.
        let (mut busy, mut failed) = (HashSet::new(), HashSet::new());
        loop {
            let due = tokio::select! {
                () = self.shared.changed.notified() => {
                    failed.clear();
                    self.shared.cache.lock().changed(&*self.shared.pods)
                }
                _ = ticks.tick() => {
                    failed.clear();
                    self.shared.cache.lock().changed_or_overwritten(&*self.shared.pods)
                }
                Some((uid, synced)) = under_way.next() => {
                    busy.remove(&uid);
                    if synced == Synced::No {
                        failed.insert(uid);
                    }
                    // It may have changed meanwhile.
                    self.shared.cache.lock().changed(&*self.shared.pods)
                }
            };
            for due in due {
                if !failed.contains(&due.uid) && busy.insert(due.uid.clone()) {
                    under_way.push(Box::pin(self.sync_one(client, due)));
                }
            }
        }
    }

    async fn sync_one(&self, client: &kube::Client, due: Due) -> (String, Synced) {
        let calls = tokio::time::timeout(CALL_TIMEOUT, self.sync_pod(client, &due)).await;
        let synced = match calls.unwrap_or(Err(Error::Timeout)) {
            Ok(synced) => synced,
            Err(error) => {
                let (pod, namespace) = (&due.status.name, &due.status.namespace);
                tracing::warn!(pod, namespace, %error, "Failed to update status for pod");
                Synced::No
            }
        };
        (due.uid, synced)
    }

    /// Observe, decide, write: for one pod.
    async fn sync_pod(&self, client: &kube::Client, due: &Due) -> Result<Synced, Error> {
        let Due { uid, status } = due;
        let api: Api<Pod> = Api::namespaced(client.clone(), &status.namespace);
        let found = api.get_opt(&status.name).await.map_err(|error| Error::Get(Box::new(error)))?;
        // Whoever removes the pod from this node forgets its status as well.
        let Some(mut pod) = found else { return Ok(Synced::No) };
        let api_uid = uid_of(&pod).to_owned();
        let resolved = self.shared.pods.static_pod_of(&api_uid);
        if resolved.as_deref().unwrap_or(&api_uid) != uid {
            tracing::debug!(
                pod = status.name,
                old = uid,
                new = api_uid,
                "Pod was deleted and then recreated"
            );
            self.delete(uid);
            return Ok(Synced::Yes);
        }
        let containers = match self.shared.safety.could_have_running_containers(&pod) {
            true => Containers::MayRun,
            false => Containers::Gone,
        };
        // How its containers ended was noted before they counted as gone: what came up for writing may be older than both.
        let newest = self.shared.cache.lock().get(uid).cloned();
        let status = newest.as_ref().unwrap_or(status);
        let theirs = pod.status.clone().unwrap_or_default();
        let merged = merge(&pod, &theirs, status.status.clone(), containers, Timestamp::now());
        if let Some(patch) = status_patch(&api_uid, &theirs, &merged).map_err(Error::Encode)? {
            pod = patch_status(client, status.namespace.as_str(), status.name.as_str(), patch).await?;
        }
        if let Some(overdue) = self.shared.cache.lock().sent(uid, &api_uid, status.version) {
            self.shared.metrics.synced(overdue.elapsed());
        }
        if may_be_deleted(&pod, status.finished) && containers == Containers::Gone {
            let preconditions = Preconditions { uid: Some(api_uid), resource_version: None };
            let params = DeleteParams::default().grace_period(0).preconditions(preconditions);
            match api.delete(&status.name, &params).await {
                Ok(_) => {}
                // It is gone already, or another has its name.
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                Err(error) => return Err(Error::Delete(Box::new(error))),
            }
            tracing::debug!(pod = status.name, "Pod fully terminated and removed");
            self.delete(uid);
        }
        Ok(Synced::Yes)
    }

    /// Changes the status that a pod has, unless `change` finds nothing to change.
    fn change_container(&self, uid: &str, change: impl FnOnce(&Pod, &mut PodStatus) -> Option<()>) {
        let Some(pod) = self.shared.pods.by_uid(uid) else { return };
        self.update(&pod, Update::Usual, |known| {
            let Some(mut status) = known.cloned() else {
                tracing::debug!(uid, "Container changed before its pod was synced");
                return None;
            };
            change(&pod, &mut status).map(|()| status)
        });
    }

    /// Takes in the status that `make` gives, if any, and says whether that is another. It is told the status that the pod
    /// has; nobody else changes that meanwhile.
    fn update(
        &self,
        pod: &Pod,
        update: Update,
        make: impl FnOnce(Option<&PodStatus>) -> Option<PodStatus>,
    ) -> bool {
        let mirror = is_static_pod(pod).then(|| self.shared.pods.mirror_of(pod)).flatten();
        let basis = mirror.as_deref().unwrap_or(pod).status.clone().unwrap_or_default();
        let now = (Timestamp::now(), Instant::now());
        let taken = {
            let mut cache = self.shared.cache.lock();
            let known = cache.get(uid_of(pod)).map(|cached| &cached.status);
            let Some(status) = make(known) else { return false };
            cache.update(pod, &basis, status, update, now, &self.shared.metrics)
        };
        match taken {
            Ok(true) => {
                self.shared.changed.notify_one();
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::error!(pod = pod.metadata.name, %error, "Status update on pod aborted");
                false
            }
        }
    }
}

/// How a status is taken in that the pod has while it lives; a pod that is to be deleted has its own written at once.
fn usual(pod: &Pod) -> Update {
    if pod.metadata.deletion_timestamp.is_some() { Update::Forced } else { Update::Usual }
}

/// Whether the API server has what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synced {
    Yes,
    No,
}

fn container_mut<'a>(status: &'a mut PodStatus, id: &str) -> Option<&'a mut ContainerStatus> {
    let lists = [&mut status.container_statuses, &mut status.init_container_statuses];
    let mut all = lists.into_iter().flat_map(|list| list.iter_mut().flatten());
    all.find(|container| container.container_id.as_deref() == Some(id))
}

fn uid_of(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Sends the bytes of a patch as they are.
async fn patch_status(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    patch: Vec<u8>,
) -> Result<Pod, Error> {
    let request = http::Request::patch(format!("/api/v1/namespaces/{namespace}/pods/{name}/status"))
        .header(http::header::CONTENT_TYPE, "application/strategic-merge-patch+json")
        .header(http::header::ACCEPT, "application/json")
        .body(patch)
        .map_err(Error::Request)?;
    client.request(request).await.map_err(|error| Error::Patch(Box::new(error)))
}
