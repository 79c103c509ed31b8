//! Syncs of volumes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use steersman_api::{ArcStr, Meta, ObjectKey, ResourceVersion, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::call::{Content, JSON};
use steersman_controller::children::{FirstLooks, Look};
use steersman_controller::client::{Client, Created, Delete, Deleted, Wrote, event_reference};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::own_writes::{Awaited, Freshness, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_informer::wire::{Group, Object};
use steersman_informer::{AnyInformer, Index as CacheIndex, IndexValue, Lister};
use steersman_kinds::node::{Node, Readiness, Taints};
use steersman_kinds::node_volumes::{Attaching, NodeVolumes};
use steersman_kinds::pod::Pod;
use steersman_kinds::volume_attachment::VolumeAttachment;
use tokio::time::Instant;

use super::AttachingNode;
use super::metrics::{Ending, Metrics, Operation, Subject};
use super::names::VolumeName;
use super::node_lists::{Change, Changed, NodeLists};
use super::observed::{self, Attachment, Memory, Observed, Settings, Site, User};
use super::outcome::Outcome;
use super::plan::{Action, Step, plan};
use super::volumes::{OUT_OF_SERVICE, Volumes};

/// How long a key waits at most for a cache that lags.
const BEHIND: Duration = Duration::from_secs(1);

/// Attaches and detaches volumes. A key is a volume, so that no two syncs decide about one volume at once.
pub(super) struct AttachDetachController {
    pub volumes: Arc<Volumes>,
    pub nodes: Lister<AttachingNode>,
    /// The nodes by the names of the volumes that they list as attached.
    pub by_attached: CacheIndex<AttachingNode>,
    pub attachment_cache: Arc<dyn AnyInformer>,
    pub node_cache: Arc<dyn AnyInformer>,
    pub first_looks: FirstLooks,
    pub client: Client<VolumeAttachment>,
    pub node_client: Client<Node>,
    pub lists: Arc<NodeLists>,
    pub own_writes: OwnWrites<VolumeName>,
    pub memories: Mutex<HashMap<VolumeName, BTreeMap<ArcStr, Memory>>>,
    pub settings: Settings,
    pub recorder: Recorder,
    pub metrics: Metrics,
}

/// The VolumeAttachment of a volume at one node, with the version of that state.
struct Shown {
    attachment: Attachment,
    version: ResourceVersion,
}

impl Shown {
    fn of(object: &VolumeAttachment) -> Self {
        Self { attachment: Attachment::of(object), version: object.meta().resource_version }
    }
}

impl AttachDetachController {
    /// The nodes that matter to a volume, with the pods there that need it.
    fn sites(&self, volume: &VolumeName) -> Result<(BTreeMap<ArcStr, Vec<User>>, bool), SyncError> {
        let sites = self.volumes.index.lock().sites(volume);
        let exclusive = sites.values().any(|site| site.exclusive);
        let mut sites: BTreeMap<_, _> = sites.into_iter().map(|(node, site)| (node, site.users)).collect();
        let listing = self.nodes.by_index(&self.by_attached, &IndexValue::from(volume.as_str()));
        for node in listing.map_err(|node| SyncError::Unreadable(format!("Node {}", node.key)))? {
            sites.entry(node.meta().key.name.clone()).or_default();
        }
        Ok((sites, exclusive))
    }

    /// The attachments of a volume to these nodes, from the cache.
    fn cached(&self, volume: &VolumeName, nodes: &[&ArcStr]) -> Result<HashMap<ArcStr, Shown>, SyncError> {
        let mut found = HashMap::new();
        for node in nodes {
            let Some(key) = attachment_key(volume, node) else { continue };
            let cached = self.volumes.attachments.get(&key);
            let cached =
                cached.map_err(|one| SyncError::Unreadable(format!("VolumeAttachment {}", one.key)))?;
            if let Some(object) = cached {
                found.insert((*node).clone(), Shown::of(object.object()));
            }
        }
        let is_deleting = |uid: &Uid| {
            found.values().find(|one| one.attachment.uid == *uid).map(|one| one.attachment.deleting)
        };
        let gone = self.own_writes.gone::<VolumeAttachment>(volume, |uid| is_deleting(uid) == Some(false));
        for shown in found.values_mut() {
            shown.attachment.deleting |= gone.is_condemned(&shown.attachment.uid);
        }
        Ok(found)
    }

    /// The attachments of a volume to these nodes, from the API server.
    async fn live(
        &self,
        volume: &VolumeName,
        nodes: &[&ArcStr],
    ) -> Result<HashMap<ArcStr, Shown>, SyncError> {
        let mut found = HashMap::new();
        for node in nodes {
            let Some(key) = attachment_key(volume, node) else { continue };
            if let Some(object) = self.client.get(&key).await? {
                found.insert((*node).clone(), Shown::of(&object));
            }
        }
        let newest = found.values().map(|shown| shown.version).max();
        let spared =
            |uid: &Uid| found.values().any(|one| one.attachment.uid == *uid && !one.attachment.deleting);
        self.own_writes.reread(volume, newest.map(Wrote::of::<VolumeAttachment>), spared);
        Ok(found)
    }

    async fn node(
        &self,
        name: &ArcStr,
        volume: &VolumeName,
    ) -> Result<(Option<observed::Node>, bool), SyncError> {
        let node = self.nodes.get(&ObjectKey::new("", name.clone()));
        let node = node.map_err(|node| SyncError::Unreadable(format!("Node {}", node.key)))?;
        let Some(node) = node else {
            let last = self.volumes.index.lock().last_use(name, volume);
            return Ok((None, last.unwrap_or(true)));
        };
        let in_use = uses(node.get::<NodeVolumes>(), volume);
        let listed = self.lists.lists(&node, volume).await?;
        let node = observed::Node {
            managed: node.get::<Attaching>().managed.0,
            ready: node.get::<Readiness>().ready.is_true(),
            out_of_service: node.get::<Taints>().has(OUT_OF_SERVICE),
            listed,
        };
        Ok((Some(node), in_use))
    }

    fn is_attachable(&self, volume: &VolumeName) -> Result<bool, SyncError> {
        let attachable = self.volumes.is_attachable(volume);
        attachable.map_err(|driver| SyncError::Unreadable(format!("CSIDriver {}", driver.key)))
    }

    fn tell<'a>(
        &self,
        users: impl IntoIterator<Item = &'a User>,
        kind: EventType,
        message: impl Fn(&User) -> String,
    ) {
        let reason = match kind {
            EventType::Normal => "SuccessfulAttachVolume",
            EventType::Warning => "FailedAttachVolume",
        };
        for user in users {
            let meta = Meta { key: user.pod.clone(), uid: user.uid.clone(), ..Meta::default() };
            self.recorder.event(&event_reference::<Pod>(&meta), kind, reason, message(user));
        }
    }

    fn tell_failure(&self, site: &Site, why: &str) {
        self.tell(&site.users, EventType::Warning, |user| {
            format!("AttachVolume.Attach failed for volume {:?} : {why}", user.persistent_volume)
        });
    }

    /// Measures the detachments from nodes where nothing is left of the volume.
    fn detached(&self, volume: &VolumeName, left: &BTreeMap<ArcStr, Memory>) {
        for memory in left.values() {
            if let Some(since) = memory.detaching_since {
                self.ended(volume, memory.migrated, Operation::Detach, Ending::Success, since.elapsed());
            }
        }
    }

    fn ended(
        &self,
        volume: &VolumeName,
        migrated: bool,
        operation: Operation,
        ending: Ending,
        took: Duration,
    ) {
        let subject = Subject { plugin: volume.plugin(), migrated };
        self.metrics.ended(&subject, operation, ending, took);
    }

    /// Measures an attempt to attach a volume.
    fn attempted(&self, volume: &VolumeName, site: &Site, ending: Ending) {
        let took = site.memory.attaching_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.ended(volume, site.memory.migrated, Operation::Attach, ending, took);
    }

    async fn create(
        &self,
        volume: &VolumeName,
        node: &ArcStr,
        site: &Site,
        pv: &ArcStr,
    ) -> Result<Outcome, SyncError> {
        let Some(((driver, _), key)) = volume.csi().zip(attachment_key(volume, node)) else {
            return Err(SyncError::Failed(format!("{volume} has no VolumeAttachments")));
        };
        let name = &key.name;
        let object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": name},
            "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": pv}},
        });
        let created =
            self.own_writes.write(volume, self.client.create("", Content::json(JSON, &object))).await;
        match created {
            Ok(Created::Now(object)) => Ok(Outcome::Found(Some(Attachment::of(&object)))),
            Ok(Created::Exists(_)) => match self.client.get(&key).await? {
                Some(object) => Ok(Outcome::Found(Some(Attachment::of(&object)))),
                None => Err(SyncError::Failed(format!("VolumeAttachment {name} is gone"))),
            },
            Ok(Created::NamespaceTerminating) => {
                Err(SyncError::Failed(format!("creating VolumeAttachment {name}: its namespace terminates")))
            }
            Err(error) => {
                if let Some(status) = error.status() {
                    self.attempted(volume, site, Ending::Failure);
                    self.tell_failure(
                        site,
                        &format!("kubernetes.io/csi: attacher.Attach failed: {}", status.message),
                    );
                }
                Err(error)
            }
        }
    }

    async fn set(&self, node: &ArcStr, volume: &VolumeName, change: Change) -> Result<Outcome, SyncError> {
        Ok(match self.lists.set(node, volume, change).await? {
            Changed::Done => Outcome::Done,
            Changed::InUse => Outcome::Use { in_use: true, listed: true },
            Changed::NodeGone => Outcome::NodeGone,
        })
    }

    async fn unlist(
        &self,
        node: &ArcStr,
        volume: &VolumeName,
        site: &Site,
        change: Change,
    ) -> Result<Outcome, SyncError> {
        let outcome = self.set(node, volume, change).await;
        if volume.is_disk() && !matches!(outcome, Ok(Outcome::Use { .. })) {
            let ending = if outcome.is_ok() { Ending::Success } else { Ending::Failure };
            self.ended(volume, site.memory.migrated, Operation::Detach, ending, Duration::ZERO);
        }
        outcome
    }

    async fn delete(
        &self,
        volume: &VolumeName,
        node: &ArcStr,
        site: &Site,
        uid: &Uid,
    ) -> Result<Outcome, SyncError> {
        let Some(key) = attachment_key(volume, node) else { return Ok(Outcome::Found(None)) };
        let deletion = Delete::of(uid);
        let call = self.client.delete(&key, &deletion);
        let deleted = self.own_writes.remove::<VolumeAttachment, _>(volume, uid, call).await;
        match deleted {
            Err(ref error) if !error.is_end_of_leadership() => {
                self.ended(volume, site.memory.migrated, Operation::Detach, Ending::Failure, Duration::ZERO);
            }
            Ok(Deleted::Gone) => {
                self.ended(volume, site.memory.migrated, Operation::Detach, Ending::Success, Duration::ZERO);
            }
            _ => {}
        }
        match deleted? {
            Deleted::Now(..) => Ok(Outcome::Found(site.attachment.clone())),
            Deleted::Gone => Ok(Outcome::Found(None)),
            Deleted::Conflict(status) => {
                Err(SyncError::Refused { what: format!("deleting VolumeAttachment {}", key.name), status })
            }
        }
    }
}

/// The key of the VolumeAttachment of a volume to a node. `None` if such volumes have none.
fn attachment_key(volume: &VolumeName, node: &str) -> Option<ObjectKey> {
    Some(ObjectKey::new("", volume.attachment(node)?))
}

fn uses(volumes: &NodeVolumes, volume: &VolumeName) -> bool {
    volumes.in_use.iter().any(|name| name == volume.as_str())
}

impl Controller for AttachDetachController {
    type Key = VolumeName;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.memories.lock().clear();
        self.own_writes.clear();
        self.lists.clear();
    }

    fn awaited(&self, key: &VolumeName) -> Vec<Awaited> {
        self.own_writes.awaited(key)
    }

    async fn observe(&self, volume: &VolumeName) -> Result<Observation<Observed>, SyncError> {
        let freshness = self.own_writes.check(volume);
        if let Freshness::Behind { .. } = freshness {
            return Ok(Observation::Behind(BEHIND));
        }
        let (users, exclusive) = self.sites(volume)?;
        if users.is_empty() {
            let memories = self.memories.lock().remove(volume);
            self.detached(volume, &memories.unwrap_or_default());
            self.own_writes.forget(volume);
            return Ok(Observation::Nothing);
        }
        // What is attached where is said by VolumeAttachments, and of disks by nodes.
        let look = if volume.is_disk() {
            self.first_looks.look(self.node_client.resource(), &self.node_cache).await?
        } else {
            self.first_looks.look(self.client.resource(), &self.attachment_cache).await?
        };
        if look == Look::Behind {
            return Ok(Observation::Behind(BEHIND));
        }
        let nodes: Vec<_> = users.keys().collect();
        let mut attachments = match freshness {
            Freshness::Doubtful => self.live(volume, &nodes).await?,
            _ => self.cached(volume, &nodes)?,
        };
        let mut memories = self.memories.lock().get(volume).cloned().unwrap_or_default();
        let mut sites = BTreeMap::new();
        for (name, users) in users {
            let (node, in_use) = self.node(&name, volume).await?;
            let site = Site {
                users,
                node,
                in_use,
                attachment: attachments.remove(&name).map(|shown| shown.attachment),
                memory: memories.remove(&name).unwrap_or_default(),
                ..Site::default()
            };
            sites.insert(name, site);
        }
        let mut observed = Observed {
            volume: volume.clone(),
            attachable: self.is_attachable(volume)?,
            exclusive,
            sites,
            settings: self.settings,
            now: Instant::now(),
        };
        self.detached(volume, &memories);
        for (migrated, took) in observed.take_detached() {
            self.ended(volume, migrated, Operation::Detach, Ending::Success, took);
        }
        observed.settle();
        Ok(Observation::Ready(observed))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, volume: &VolumeName, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let node = &step.node;
        let site = observed.sites.get(node).expect("a step must be for a node that was observed");
        match &step.action {
            Action::List => return self.set(node, volume, Change::List).await,
            Action::Unlist => return self.unlist(node, volume, site, Change::Unlist).await,
            Action::UnlistUnused => return self.unlist(node, volume, site, Change::UnlistUnused).await,
            Action::CheckUse => {
                let live = self.node_client.get(&ObjectKey::new("", node.clone())).await?;
                let Some(live) = live else { return Ok(Outcome::NodeGone) };
                let volumes = NodeVolumes::of(&live).cloned().unwrap_or_default();
                let listed = volumes.attached.iter().any(|one| one.name == volume.as_str());
                return Ok(Outcome::Use { in_use: uses(&volumes, volume), listed });
            }
            Action::Probe => {
                let Some(key) = attachment_key(volume, node) else { return Ok(Outcome::Found(None)) };
                let live = self.client.get(&key).await?;
                return Ok(Outcome::Found(live.map(|object| Attachment::of(&object))));
            }
            Action::Create(pv) => return self.create(volume, node, site, pv).await,
            Action::Delete(uid) => return self.delete(volume, node, site, uid).await,
            Action::Force(reason) => {
                tracing::info!(%node, reason = reason.as_str(), "Detaching a volume without the kubelet's consent");
                self.metrics.forced(*reason);
            }
            Action::Announce => {
                self.attempted(volume, site, Ending::Success);
                self.tell(&site.users, EventType::Normal, |user| {
                    // Upstream's message ends with a space.
                    format!("AttachVolume.Attach succeeded for volume {:?} ", user.persistent_volume)
                });
            }
            Action::Fail(why) => {
                self.attempted(volume, site, Ending::Failure);
                tracing::warn!(%node, error = why, "Volume was not attached");
                self.tell_failure(site, why);
            }
            Action::Refuse(refused) => {
                for (user, why) in refused {
                    self.tell([user], EventType::Warning, |user| {
                        format!("Multi-Attach error for volume {:?} {why}", user.persistent_volume)
                    });
                }
            }
        }
        Ok(Outcome::Done)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }

    fn finished(&self, volume: &VolumeName, sync: FinishedSync<'_, Observed>) {
        let Some(observed) = sync.observed else { return };
        let kept = observed.memories();
        let mut memories = self.memories.lock();
        if kept.is_empty() {
            memories.remove(volume);
        } else {
            memories.insert(volume.clone(), kept);
        }
    }
}
