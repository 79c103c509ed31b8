//! Removes containers that ended, but for the newest of each name.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use steersman_api::Uid;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::container::{ContainerId, ContainerState, PodStatus};
use crate::pleg::StatusReader;

/// Containers that may wait to be removed; more are left to garbage collection, as upstream leaves them.
const WAITING: usize = 50;
/// How many are removed at a time: one that hangs does not hold up the others.
const AT_ONCE: usize = 4;

/// Removes containers from the runtime.
#[async_trait]
pub trait ContainerRemover: Send + Sync + 'static {
    /// Removes an ended container, with its log.
    ///
    /// # Errors
    /// In words. It is left to garbage collection.
    async fn remove_container(&self, container: &ContainerId) -> Result<(), String>;
}

/// The one who removes, not yet running.
pub struct ContainerDeletor {
    remover: Arc<dyn ContainerRemover>,
    requests: mpsc::Receiver<ContainerId>,
}

/// What may be asked of a [`ContainerDeletor`]; a clone asks the same. Never waits.
#[derive(Clone)]
pub struct Deletions {
    statuses: StatusReader,
    keep: usize,
    requests: mpsc::Sender<ContainerId>,
}

impl ContainerDeletor {
    /// One that leaves `keep` ended containers of each name (upstream: at least 1).
    pub fn new(statuses: StatusReader, remover: Arc<dyn ContainerRemover>, keep: usize) -> (Self, Deletions) {
        let (sender, requests) = mpsc::channel(WAITING);
        (Self { remover, requests }, Deletions { statuses, keep, requests: sender })
    }

    /// Removes what it is asked to until `stop`, or until nobody can ask any more.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut under_way = FuturesUnordered::new();
        // Each container of a pod that ends has it asked for again.
        let mut busy = HashSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                request = self.requests.recv(), if under_way.len() < AT_ONCE => {
                    let Some(container) = request else { return };
                    if !busy.insert(container.clone()) {
                        continue;
                    }
                    let remover = self.remover.clone();
                    under_way.push(async move {
                        let removed = remover.remove_container(&container).await;
                        (container, removed)
                    });
                }
                Some((container, removed)) = under_way.next(), if !under_way.is_empty() => {
                    busy.remove(&container);
                    if let Err(error) = removed {
                        tracing::warn!(%container, error, "Failed to remove the container");
                    }
                }
            }
        }
    }
}

impl Deletions {
    /// A container of the pod ended: older ones of its name can go.
    pub fn container_died(&self, pod: &Uid, container: &str) {
        self.delete(pod, |status| older_than(container, status, self.keep));
    }

    /// All ended containers of the pod can go.
    pub fn remove_all(&self, pod: &Uid) {
        self.delete(pod, ended);
    }

    fn delete(&self, pod: &Uid, which: impl Fn(&PodStatus) -> Vec<ContainerId>) {
        let Ok(status) = self.statuses.get(pod) else { return };
        for container in which(&status) {
            if let Err(error) = self.requests.try_send(container) {
                tracing::debug!(%pod, %error, "An ended container is left to garbage collection");
            }
        }
    }
}

/// The ended containers of the pod.
pub fn ended(status: &PodStatus) -> Vec<ContainerId> {
    let containers = status.containers.iter();
    containers
        .filter(|container| container.state == ContainerState::Exited)
        .map(|container| container.id.clone())
        .collect()
}

/// The ended containers that have the name of the container of that id, but for the `keep` newest ones. None if the pod has no
/// such container.
pub fn older_than(container: &str, status: &PodStatus, keep: usize) -> Vec<ContainerId> {
    let Some(died) = status.containers.iter().find(|one| one.id.id == container) else { return Vec::new() };
    let mut of_name: Vec<_> = status
        .containers
        .iter()
        .filter(|one| one.name == died.name && one.state == ContainerState::Exited)
        .collect();
    of_name.sort_by_key(|one| std::cmp::Reverse(one.created_at));
    of_name.into_iter().skip(keep).map(|one| one.id.clone()).collect()
}
