//! The lists of attached volumes in the statuses of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::{ArcStr, ObjectKey, ResourceVersion, Uid};
use steersman_controller::client::{Changed as Written, Client, Patch};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::{Group, Object};
use steersman_informer::{Lister, View};
use steersman_kinds::node::Node;
use steersman_kinds::node_volumes::NodeVolumes;

use super::AttachingNode;
use super::names::VolumeName;

/// A change of a node's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Adds the volume.
    List,
    /// Removes the volume.
    Unlist,
    /// Removes the volume unless the node's kubelet uses it, or is about to.
    UnlistUnused,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The list is as wanted.
    Done,
    /// The kubelet uses the volume, so that it stays in the list.
    InUse,
    /// The node does not exist.
    NodeGone,
}

/// How often a write that lost against another one is made again at once.
const ATTEMPTS: usize = 3;

/// Changes the lists of attached volumes in the statuses of nodes, one write at a time for each node.
///
/// Each write names the version of the node that it was decided on. So a cache that lags can't bring back an older list.
pub(super) struct NodeLists {
    nodes: Lister<AttachingNode>,
    client: Client<Node>,
    /// Of the nodes to which this process has written in its term.
    written: Mutex<HashMap<ArcStr, Arc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    /// Locked during a write.
    writing: tokio::sync::Mutex<()>,
    last: Mutex<Last>,
}

/// What is known of a node from answers of the API server.
#[derive(Default)]
enum Last {
    /// The cache shows all.
    #[default]
    Cached,
    /// The cache must reach this state.
    Known(State),
    /// A write may have had an effect.
    Unknown,
}

/// A node's list in one version.
#[derive(Clone)]
struct State {
    uid: Uid,
    version: ResourceVersion,
    volumes: NodeVolumes,
}

impl State {
    fn of(node: &Node) -> Self {
        let volumes = NodeVolumes::of(node).cloned().unwrap_or_default();
        let meta = node.meta();
        Self { uid: meta.uid.clone(), version: meta.resource_version, volumes }
    }

    fn uses(&self, volume: &VolumeName) -> bool {
        self.volumes.in_use.iter().any(|one| one == volume.as_str())
    }

    fn has(&self, volume: &VolumeName) -> bool {
        self.volumes.attached.iter().any(|one| one.name == volume.as_str())
    }

    /// The patch that adds or removes a volume.
    fn patch(&self, volume: &VolumeName, listed: bool) -> Value {
        let others = self.volumes.attached.iter().filter(|one| one.name != volume.as_str());
        let added = listed.then(|| (volume.as_str(), ""));
        let all = others.map(|one| (one.name.as_str(), one.device_path.as_str())).chain(added);
        let all: Vec<_> = all.map(|(name, path)| json!({"name": name, "devicePath": path})).collect();
        let list = if all.is_empty() { Value::Null } else { all.into() };
        json!({
            "metadata": {"uid": self.uid, "resourceVersion": self.version},
            "status": {"volumesAttached": list},
        })
    }
}

impl NodeLists {
    pub(super) fn new(nodes: Lister<AttachingNode>, client: Client<Node>) -> Self {
        Self { nodes, client, written: Mutex::default() }
    }

    /// Forgets all writes: a new term begins.
    pub(super) fn clear(&self) {
        self.written.lock().clear();
    }

    /// Forgets the writes to a node that is gone.
    pub(super) fn forget(&self, node: &str) {
        self.written.lock().remove(node);
    }

    /// Whether a node lists a volume, as the cache and this process's own writes show it.
    ///
    /// # Errors
    /// The result of an earlier write is unknown, and the API server did not tell the list.
    pub(super) async fn lists(
        &self,
        node: &View<AttachingNode>,
        volume: &VolumeName,
    ) -> Result<bool, SyncError> {
        let cached = || node.get::<NodeVolumes>().attached.iter().any(|one| one.name == volume.as_str());
        let slot = self.written.lock().get(&node.meta().key.name).cloned();
        let Some(slot) = slot else { return Ok(cached()) };
        match &*slot.last.lock() {
            Last::Cached => return Ok(cached()),
            Last::Known(state) if state.version > node.meta().resource_version => {
                return Ok(state.has(volume));
            }
            Last::Known(_) => return Ok(cached()),
            Last::Unknown => {}
        }
        let _writing = slot.writing.lock().await;
        let state = self.read(&node.meta().key, &slot).await?;
        Ok(state.is_some_and(|state| state.has(volume)))
    }

    /// Reads a node's list from the API server.
    async fn read(&self, key: &ObjectKey, slot: &Slot) -> Result<Option<State>, SyncError> {
        let state = self.client.get(key).await?.map(|node| State::of(&node));
        *slot.last.lock() = state.clone().map_or(Last::Cached, Last::Known);
        Ok(state)
    }

    /// Changes a node's list. A kubelet that begins to use the volume meanwhile changes the version of the node, so that a
    /// removal of an unused volume is refused, and decided again.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn set(
        &self,
        node: &ArcStr,
        volume: &VolumeName,
        change: Change,
    ) -> Result<Changed, SyncError> {
        let listed = change == Change::List;
        let key = ObjectKey::new("", node.clone());
        let slot = Arc::clone(self.written.lock().entry(node.clone()).or_default());
        let _writing = slot.writing.lock().await;
        let mut state = self.base(&key, &slot).await?;
        for _ in 0..ATTEMPTS {
            let Some(base) = state else { return Ok(Changed::NodeGone) };
            if base.has(volume) == listed {
                return Ok(Changed::Done);
            }
            if change == Change::UnlistUnused && base.uses(volume) {
                return Ok(Changed::InUse);
            }
            let attempt = Attempt { slot: &slot, is_over: false };
            let patched = self.client.patch_status(&key, &Patch::Merge(base.patch(volume, listed))).await;
            match patched {
                Ok(Written::Now(node)) => {
                    attempt.over();
                    *slot.last.lock() = Last::Known(State::of(&node));
                    return Ok(Changed::Done);
                }
                Ok(Written::Gone) => {
                    attempt.over();
                    return Ok(Changed::NodeGone);
                }
                Ok(Written::Conflict(_)) => {
                    attempt.over();
                    state = self.read(&key, &slot).await?;
                }
                Err(error) => {
                    if error.surely_not_done() {
                        attempt.over();
                    }
                    return Err(error);
                }
            }
        }
        Err(SyncError::Failed(format!("updating the volumes of Node {node}: others change it all the time")))
    }

    /// The newest known state of a node's list.
    async fn base(&self, key: &ObjectKey, slot: &Slot) -> Result<Option<State>, SyncError> {
        let cached = self.nodes.get(key).ok().flatten().map(|node| State::of(node.object()));
        let newest = match &*slot.last.lock() {
            Last::Unknown => None,
            Last::Known(state) if cached.as_ref().is_none_or(|cached| cached.version < state.version) => {
                Some(state.clone())
            }
            Last::Known(_) | Last::Cached => cached,
        };
        match newest {
            Some(state) => Ok(Some(state)),
            None => self.read(key, slot).await,
        }
    }
}

/// A write under way. If it is dropped before it is over, its result is unknown.
struct Attempt<'a> {
    slot: &'a Slot,
    is_over: bool,
}

impl Attempt<'_> {
    fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            *self.slot.last.lock() = Last::Unknown;
        }
    }
}
