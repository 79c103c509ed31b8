//! The kit of controllers whose objects own other objects, such as replica sets and their pods.
//!
//! ```text
//! changes of owners ────────────────────────────┐
//! changes of children ── their owner, or ───────┴─> queue ─> observe ─> Family: the owner, its children, what may be
//!                        owners that select them             │          adopted, what must be released
//!                                                            ├─ caches behind own writes: wait
//!                                                            └─ caches in doubt: read both from the API server
//! ```
//!
//! [`Children`] observes an owner's [`Family`], adopts and releases children, and remembers the controller's writes. The
//! rules are upstream's `ControllerRefManager`: see [`Claim`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steersman_api::selector::InvalidSelector;
use steersman_api::{LabelSelector, Meta, ObjectKey, Uid};
use steersman_client::Sender;
use steersman_informer::index::{BY_CONTROLLER, by_controller};
use steersman_informer::wire::{Kind, Object, Selection};
use steersman_informer::{AnyInformer, Index, IndexValue, Informer, Lister, Unreadable, View};

use crate::client::{Changed, Client, Patch, Wrote, controller_reference};
use crate::context::ControllerContext;
use crate::controller::SyncError;
use crate::own_writes::{Freshness, Gone, Listing, OwnWrites};
use crate::selecting::Selectors;

mod claim;
mod first_look;
mod grounds;
mod mapping;
mod selecting;
#[cfg(test)]
mod tests;

pub use claim::{Claim, is_child_of};
pub use first_look::{FirstLooks, Look};
pub use grounds::Grounds;
pub use mapping::Enqueue;

use grounds::Confirmed;

/// An owner that claims its children by labels or by their owner references, as a cache keeps it.
pub trait Owns: Selection<Kind: Kind> {
    /// What the controller reads of a child.
    type Child: Selection<Kind: Kind>;

    /// The selector of the owner's children.
    ///
    /// # Errors
    /// The selector can't be compiled. The API server refuses such owners.
    fn selector(owner: &Self::Kind) -> Result<LabelSelector, InvalidSelector>;

    /// Whether no controller has ever written about the owner: its status is as the API server made it.
    fn is_untouched(owner: &Self::Kind) -> bool;

    /// Whether [`Children::selecting`] returns owners whose selector is empty. Upstream's listers differ: `GetPodJobs`
    /// returns them, and those of other kinds, such as `GetPodReplicaSets`, do not.
    const EMPTY_SELECTOR_SELECTS: bool = false;

    /// Whether children belong to an owner by their owner references alone, as the jobs of a CronJob do. Such owners neither
    /// adopt nor release, and their [`selector`](Self::selector) must select everything.
    const BY_REFERENCE_ONLY: bool = false;

    /// The children that [`Children::observe_unsettled`] leaves out. `None`: it leaves out none.
    const SETTLED: Option<Settled<Self::Child>> = None;

    /// Whether the owner still holds a child in this state, so that the controller has to reckon with it. By default it
    /// does until nothing keeps the deleted child any more. A controller that puts a finalizer on its children holds those
    /// that have the finalizer.
    fn holds(child: &Meta) -> bool {
        !child.is_deleting() || !child.finalizers.is_empty()
    }
}

/// Describes children that have ended and that most syncs of their owner do not need. An owner may have very many of them.
pub struct Settled<C: Selection> {
    /// The name of the index of all other children. Each kind of owner needs a name of its own.
    pub index: &'static str,
    /// Whether a child is settled. [`Owns::holds`] must be false for such a child.
    pub is_settled: fn(&View<C>) -> bool,
}

/// How long the kit waits for a cache that does not show an own write, before it asks the API server.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a sync is put off at a time: a list may bring the cache up to date without a change of this owner's children
/// that would wake the key.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The children of objects of one kind.
pub struct Children<O: Owns> {
    owners: Informer<O>,
    children: Informer<O::Child>,
    owner_lister: Lister<O>,
    child_lister: Lister<O::Child>,
    by_controller: Index<O::Child>,
    /// Like `by_controller`, but leaves out settled children.
    unsettled: Index<O::Child>,
    /// `None` if owners do not adopt.
    without_controller: Option<Index<O::Child>>,
    selectors: Selectors<O>,
    owner_client: Client<O::Kind>,
    child_client: Client<<O::Child as Selection>::Kind>,
    own_writes: OwnWrites,
    first_looks: FirstLooks,
    confirmed: Confirmed,
}

type ChildOf<O> = <<O as Owns>::Child as Selection>::Kind;

/// An owner and its children at one moment.
pub struct Family<O: Owns> {
    /// The owner.
    pub owner: Arc<O::Kind>,
    /// The children, and what each is to the owner.
    pub children: Vec<(Arc<ChildOf<O>>, Claim)>,
    /// Whether the controller may act on this.
    pub grounds: Grounds,
    /// Children that the cache shows though they have gone, or lost their finalizer. See [`Family::has_gone`].
    pub gone: Gone,
}

impl<O: Owns> Family<O> {
    /// Whether the owner does not hold a child any more, although the observation may show the child as before: the
    /// controller has removed the child or its finalizer, or a list of the API server has shown that another process has.
    pub fn has_gone(&self, child: &Meta, claim: Claim) -> bool {
        // Lists go by the selector, which does not select strays: that they are not listed says nothing.
        let unlisted = || claim != Claim::Stray && self.gone.is_past(&child.uid, child.resource_version);
        self.gone.is_condemned(&child.uid) || unlisted()
    }
}

/// The result of observing an owner.
pub enum Sight<O: Owns> {
    /// The owner and its children.
    Family(Family<O>),
    /// There is no such owner.
    Absent,
    /// A cache does not show the controller's own writes yet.
    Behind {
        /// The longest wait until the next observation.
        at_most: Duration,
        /// The cache, if this observation is the first that finds it behind. For the metric `stale_sync_skips_total`.
        newly: Option<steersman_api::GroupVersionResource>,
    },
}

impl<O: Owns> Children<O> {
    /// Makes the kit of one controller. Its calls go through `sender`.
    ///
    /// # Errors
    /// A cache runs already without the fields that the controller reads.
    pub fn new(
        context: &ControllerContext,
        sender: &Sender,
    ) -> Result<Self, steersman_informer::factory::Error> {
        let owners = context.informers.informer::<O>()?;
        let children = context.informers.informer::<O::Child>()?;
        let by_controller = children.add_index(BY_CONTROLLER, by_controller);
        Ok(Self {
            owner_lister: owners.lister(),
            child_lister: children.lister(),
            unsettled: match O::SETTLED {
                Some(Settled { index, .. }) => children.add_index(index, unsettled::<O>),
                None => by_controller,
            },
            by_controller,
            without_controller: (!O::BY_REFERENCE_ONLY)
                .then(|| children.add_index(WITHOUT_CONTROLLER, without_controller)),
            selectors: Selectors::new(&owners),
            owner_client: Client::keeping::<O>(sender.clone()),
            child_client: Client::keeping::<O::Child>(sender.clone()),
            own_writes: OwnWrites::new(PATIENCE).over(&owners.any()).over(&children.any()),
            first_looks: context.first_looks.clone(),
            confirmed: Confirmed::default(),
            owners,
            children,
        })
    }

    /// The caches that must sync before the controller starts.
    pub fn caches(&self) -> [Arc<dyn AnyInformer>; 2] {
        [self.owners.any(), self.children.any()]
    }

    /// The cache of owners.
    pub fn owners(&self) -> &Lister<O> {
        &self.owner_lister
    }

    /// The cache of children.
    pub fn children(&self) -> &Lister<O::Child> {
        &self.child_lister
    }

    /// The index of children by their managing owner.
    pub fn by_controller(&self) -> Index<O::Child> {
        self.by_controller
    }

    /// The index of children by their managing owner. It leaves out [settled](Owns::SETTLED) children.
    pub fn unsettled(&self) -> Index<O::Child> {
        self.unsettled
    }

    /// The informers of owners and of children, for a controller that maps their changes itself.
    pub fn informers(&self) -> (&Informer<O>, &Informer<O::Child>) {
        (&self.owners, &self.children)
    }

    /// Calls of owners.
    pub fn owner_client(&self) -> &Client<O::Kind> {
        &self.owner_client
    }

    /// Calls of children.
    pub fn child_client(&self) -> &Client<ChildOf<O>> {
        &self.child_client
    }

    /// The writes that the caches may not show yet. Writes that the controller makes itself go through it.
    pub fn own_writes(&self) -> &OwnWrites {
        &self.own_writes
    }

    /// Discards what was learnt in an earlier term. Call this in [`Controller::term_begins`](crate::Controller::term_begins).
    pub fn term_begins(&self) {
        self.own_writes.clear();
        self.confirmed.clear();
    }

    /// Forgets an owner that is gone, or on which the controller will not decide again.
    pub fn forget(&self, owner: &ObjectKey) {
        self.own_writes.forget(owner);
        self.confirmed.forget(owner);
    }

    /// The owner and its children: from the caches if these show the controller's own writes, else from the API server.
    ///
    /// # Errors
    /// An object can't be decoded, or a call failed.
    pub async fn observe(&self, key: &ObjectKey) -> Result<Sight<O>, SyncError> {
        self.observe_by(&self.by_controller, key).await
    }

    /// Like [`observe`](Self::observe), but leaves out [settled](Owns::SETTLED) children, so that their number does not matter for
    /// the time that it takes. A family that the kit reads from the API server contains them.
    ///
    /// # Errors
    /// An object can't be decoded, or a call failed.
    pub async fn observe_unsettled(&self, key: &ObjectKey) -> Result<Sight<O>, SyncError> {
        self.observe_by(&self.unsettled, key).await
    }

    async fn observe_by(&self, index: &Index<O::Child>, key: &ObjectKey) -> Result<Sight<O>, SyncError> {
        let family = match self.own_writes.check(key) {
            Freshness::Behind { resource, newly } => {
                return Ok(Sight::Behind { at_most: LOOK_AGAIN, newly: newly.then_some(resource) });
            }
            Freshness::Current => self.cached(index, key).await?,
            Freshness::Doubtful => self.read(key).await?,
        };
        let Some(family) = family else {
            // A later sync must not trust a cache that still shows the owner.
            if self.owner_lister.meta(key).is_none() {
                self.forget(key);
            }
            return Ok(Sight::Absent);
        };
        Ok(Sight::Family(family))
    }

    /// Observes an owner again once the controller wants to act on an observation whose grounds are
    /// [`Grounds::Unsure`]. The result's grounds are [`Grounds::Sure`]. `None`: there is no such owner any more.
    ///
    /// # Errors
    /// An object can't be decoded, or a call failed.
    pub async fn confirm(&self, key: &ObjectKey) -> Result<Option<Family<O>>, SyncError> {
        let owners = self.first_looks.look(self.owner_client.resource(), &self.owners.any()).await?;
        let children = self.first_looks.look(self.child_client.resource(), &self.children.any()).await?;
        if (owners, children) == (Look::Current, Look::Current) {
            self.confirmed.all();
            return self.cached(&self.by_controller, key).await;
        }
        self.read(key).await
    }

    /// Fails unless the API server still has the owner of this uid and the owner is not being deleted: only then may it
    /// adopt children.
    ///
    /// # Errors
    /// The owner is gone or going, or the call failed.
    pub async fn check_alive(&self, owner: &Meta) -> Result<(), SyncError> {
        let (kind, key, uid) = (O::Kind::KIND, &owner.key, &owner.uid);
        let failed = |why: String| Err(SyncError::Failed(format!("can't adopt objects: {why}")));
        match self.owner_client.get(key).await? {
            None => failed(format!("{kind} {key} is gone")),
            Some(found) if found.meta().uid != *uid => {
                failed(format!("original {kind} {key} is gone: got uid {}, wanted {uid}", found.meta().uid))
            }
            Some(found) if found.meta().is_deleting() => failed(format!("{kind} {key} is being deleted")),
            Some(_) => Ok(()),
        }
    }

    /// Makes the owner the managing owner of a child that has none. `finalizers` are added to the child's.
    ///
    /// # Errors
    /// The call failed.
    pub async fn adopt(
        &self,
        owner: &Meta,
        child: &Meta,
        finalizers: &[&str],
    ) -> Result<Changed<ChildOf<O>>, SyncError> {
        let patch = adoption::<O::Kind>(owner, child, finalizers);
        self.own_writes.write(&owner.key, self.child_client.patch(&child.key, &patch)).await
    }

    /// Removes the owner from a child's owner references, and these finalizers from the child.
    ///
    /// # Errors
    /// The call failed. If the child does not exist, or has no owners any more, the outcome is [`Changed::Gone`].
    pub async fn release(
        &self,
        owner: &Meta,
        child: &Meta,
        finalizers: &[&str],
    ) -> Result<Changed<ChildOf<O>>, SyncError> {
        let patch = release(owner, child, finalizers);
        match self.own_writes.write(&owner.key, self.child_client.patch(&child.key, &patch)).await {
            // The child has no owners any more, or another object has its name.
            Err(error) if error.is("Invalid") => Ok(Changed::Gone),
            other => other,
        }
    }

    /// Reads the owner and its children from the caches. `index` finds the children that the owner manages.
    async fn cached(&self, index: &Index<O::Child>, key: &ObjectKey) -> Result<Option<Family<O>>, SyncError> {
        let unreadable =
            |kind: &str, object: &Unreadable| SyncError::Unreadable(format!("{kind} {}", object.key));
        let Some(owner) = self.owner_lister.get(key).map_err(|e| unreadable(O::Kind::KIND, &e))? else {
            return Ok(None);
        };
        let (owner, child_kind) = (Arc::clone(owner.object()), <ChildOf<O>>::KIND);
        let selector = self.selector(&owner)?;
        let meta = owner.meta();
        let owned = |child: &Meta| is_child_of::<O::Kind>(child, key, &meta.uid);
        let by_owner = IndexValue::Owner(key.namespace.clone(), meta.uid.clone());
        let mut all = self
            .child_lister
            .by_index_where(index, &by_owner, owned)
            .map_err(|e| unreadable(child_kind, &e))?;
        if let Some(without_controller) = &self.without_controller {
            // Of the objects that no controller manages only those matter that the owner would adopt.
            let adoptable = |child: &Meta| selector.matches(&child.labels);
            let namespace = key.namespace.clone().into();
            let free = self.child_lister.by_index_where(without_controller, &namespace, adoptable);
            all.extend(free.map_err(|e| unreadable(child_kind, &e))?);
        }
        let held: HashSet<&Uid> = all
            .iter()
            .map(|child| child.meta())
            .filter(|child| O::holds(child))
            .map(|child| &child.uid)
            .collect();
        let gone = self.own_writes.gone::<ChildOf<O>>(key, |uid| held.contains(uid));
        let children = all.iter().map(|child| Arc::clone(child.object()));
        let children = Self::claim(&owner, &selector, children);
        let grounds = self.grounds(&owner).await?;
        Ok(Some(Family { owner, children, grounds, gone }))
    }

    /// Reads the owner and its children from the API server.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Family<O>>, SyncError> {
        let Some(owner) = self.owner_client.get(key).await? else { return Ok(None) };
        let selector = self.selector(&owner)?;
        let listed = self.child_client.list(&key.namespace, &selector).await?;
        let children = Self::claim(&owner, &selector, listed.objects.into_iter());
        let metas = || children.iter().map(|(child, _)| child.meta());
        let newest = metas().map(|child| child.resource_version).max().unwrap_or_default();
        let held: HashSet<Uid> =
            metas().filter(|child| O::holds(child)).map(|child| child.uid.clone()).collect();
        let versions = [Wrote::of::<O::Kind>(owner.meta().resource_version), Wrote::of::<ChildOf<O>>(newest)];
        self.own_writes.reread(key, versions, |uid| held.contains(uid));
        self.own_writes.listed::<ChildOf<O>>(key, Listing { as_of: listed.as_of, held });
        self.confirmed.owner(key, &owner.meta().uid);
        Ok(Some(Family { owner, children, grounds: Grounds::Sure, gone: Gone::default() }))
    }

    fn claim(
        owner: &O::Kind,
        selector: &LabelSelector,
        children: impl Iterator<Item = Arc<ChildOf<O>>>,
    ) -> Vec<(Arc<ChildOf<O>>, Claim)> {
        let claimed = |child: Arc<ChildOf<O>>| {
            let claim = Claim::of::<O::Kind>(owner.meta(), selector, child.meta())?;
            (!O::BY_REFERENCE_ONLY || claim == Claim::Owned).then_some((child, claim))
        };
        children.filter_map(claimed).collect()
    }

    fn selector(&self, owner: &O::Kind) -> Result<LabelSelector, SyncError> {
        let failed = |error| SyncError::Failed(format!("{} {}: {error}", O::Kind::KIND, owner.meta().key));
        O::selector(owner).map_err(failed)
    }
}

/// The patch that makes an owner of kind `O` the managing owner of a child that has none. `finalizers` are added to the child's.
pub fn adoption<O: Kind>(owner: &Meta, child: &Meta, finalizers: &[&str]) -> Patch {
    let owners = [controller_reference::<O>(owner)];
    let mut patch = json!({"metadata": {"ownerReferences": owners, "uid": child.uid}});
    if !finalizers.is_empty() {
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    Patch::Strategic(patch)
}

/// The patch that removes an owner from a child's owner references, and these finalizers from the child.
///
/// The API server refuses it with the reason `Invalid` if the child has no owners any more, or if another object has the
/// child's name.
pub fn release(owner: &Meta, child: &Meta, finalizers: &[&str]) -> Patch {
    let owners = json!([{"$patch": "delete", "uid": owner.uid}]);
    let mut patch = json!({"metadata": {"uid": child.uid, "ownerReferences": owners}});
    if !finalizers.is_empty() {
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!(finalizers);
    }
    Patch::Strategic(patch)
}

/// The function of [`Settled::index`]. The index leaves out the children of other kinds of owners, too.
fn unsettled<O: Owns>(child: &View<O::Child>) -> Vec<IndexValue> {
    let is_ours = child.meta().controller().is_some_and(|owner| owner.kind == O::Kind::KIND);
    let is_settled = || O::SETTLED.is_some_and(|settled| (settled.is_settled)(child));
    if is_ours && !is_settled() { by_controller(child) } else { Vec::new() }
}

/// The name of the index of objects without a managing owner, by namespace.
pub const WITHOUT_CONTROLLER: &str = "namespaceWithoutController";

/// The function of the index [`WITHOUT_CONTROLLER`].
pub fn without_controller<C: Selection>(child: &View<C>) -> Vec<IndexValue> {
    let free = child.meta().controller().is_none();
    free.then(|| child.meta().key.namespace.clone().into()).into_iter().collect()
}
