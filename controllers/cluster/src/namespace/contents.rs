//! The objects in a namespace that is being deleted, kind by kind.

use std::collections::BTreeMap;

use steersman_api::{ArcStr, GroupVersionResource, Meta};

use super::plan::Step;

/// Maximum number of objects, and of finalizers of one object, that a condition names.
pub(super) const NAMED: usize = 5;

/// Maximum number of different finalizers that are counted of one kind. Users make up finalizers: without a bound, some
/// hundred objects could fill the memory and exceed the size of a condition. Upstream has no bound.
const COUNTED_FINALIZERS: usize = 100;

/// The kinds of objects that the namespace may hold, and how far this sync is with each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Each kind once, in its preferred version.
    pub kinds: BTreeMap<GroupVersionResource, Content>,
    /// Why discovery failed, in whole or in part. The namespace may then hold objects of further kinds.
    pub undiscovered: Option<Undiscovered>,
}

/// Why discovery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Undiscovered {
    /// The number of group versions that failed. `None` if the list of groups itself could not be read.
    pub group_versions: Option<usize>,
    /// The error, in client-go's words.
    pub error: String,
}

/// The namespace's objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// What the API server can do with the kind.
    pub verbs: Verbs,
    /// How far this sync is.
    pub progress: Progress,
}

/// What the API server can do with the objects of a kind, beside deleting a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verbs {
    /// Delete all objects in one call.
    pub delete_collection: bool,
    /// List the objects.
    pub list: bool,
}

/// How far a sync is with the objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// A cache shows that the namespace has no such object. The controller asks the API server before it finalizes the
    /// namespace.
    Unseen,
    /// All objects have to be deleted in one call.
    DeleteAll,
    /// The objects have to be deleted one by one.
    DeleteEach,
    /// The objects that are left have to be counted.
    Count,
    /// So much is left.
    Counted(Leftover),
    /// A call failed with this error.
    Failed(String),
}

/// The objects of one kind that are left after their deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leftover {
    /// The number of objects.
    pub count: usize,
    /// The objects' first [`COUNTED_FINALIZERS`] different finalizers, each with the number of objects that have it.
    pub finalizers: BTreeMap<ArcStr, usize>,
    /// The longest grace period of the objects, in seconds.
    pub grace: i64,
    /// The first [`NAMED`] objects; those with finalizers come first.
    pub first: Vec<Remaining>,
}

/// An object that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remaining {
    /// The object's name.
    pub name: ArcStr,
    /// The object's first [`NAMED`] finalizers.
    pub finalizers: Vec<ArcStr>,
}

impl Verbs {
    /// The first call for a kind with these verbs.
    pub(super) fn begin(self) -> Progress {
        match self {
            Self { delete_collection: true, .. } => Progress::DeleteAll,
            Self { list: true, .. } => Progress::DeleteEach,
            _ => Progress::Counted(Leftover::default()),
        }
    }

    /// The call after the objects were deleted. What can't be listed counts as gone, as upstream.
    pub(super) fn deleted(self) -> Progress {
        if self.list { Progress::Count } else { Progress::Counted(Leftover::default()) }
    }

    /// The call after the API server answered that it can't delete all objects at once.
    pub(super) fn refused(self) -> Progress {
        if self.list { Progress::DeleteEach } else { Progress::Counted(Leftover::default()) }
    }
}

impl Content {
    /// A kind that no call was made for yet.
    pub(super) fn new(verbs: Verbs, is_unseen: bool) -> Self {
        let progress = if is_unseen && verbs.list { Progress::Unseen } else { verbs.begin() };
        Self { verbs, progress }
    }

    /// Continues after a count. If the cache was wrong and there are objects, they have to be deleted.
    pub(super) fn counted(&mut self, left: Leftover) {
        self.progress = match self.progress {
            Progress::Unseen if left.count > 0 => self.verbs.begin(),
            _ => Progress::Counted(left),
        };
    }

    /// What is left of the kind, if the controller has counted it and there is something.
    pub(super) fn left(&self) -> Option<&Leftover> {
        match &self.progress {
            Progress::Counted(left) if left.count > 0 => Some(left),
            _ => None,
        }
    }

    fn is_clean(&self) -> bool {
        matches!(&self.progress, Progress::Unseen | Progress::Counted(Leftover { count: 0, .. }))
    }

    /// The next call for the objects of `kind`, which this is.
    fn call(&self, kind: &GroupVersionResource) -> Option<Step> {
        match self.progress {
            Progress::DeleteAll => Some(Step::DeleteAll(kind.clone())),
            Progress::DeleteEach => Some(Step::DeleteEach(kind.clone())),
            Progress::Count => Some(Step::Count(kind.clone())),
            Progress::Unseen | Progress::Counted(_) | Progress::Failed(_) => None,
        }
    }
}

impl Contents {
    /// The calls that can be made now. None, if this sync can't do more.
    ///
    /// Pods go first, since other objects may protect them or others from them, such as network policies. Other kinds follow
    /// when no pod is left, or if a call for the pods failed, as upstream.
    pub(super) fn due(&self) -> Vec<Step> {
        let (pods, others): (Vec<_>, Vec<_>) = self.kinds.iter().partition(|(kind, _)| is_pods(kind));
        let calls = |kinds: &[(&GroupVersionResource, &Content)]| -> Vec<Step> {
            kinds.iter().filter_map(|(kind, content)| content.call(kind)).collect()
        };
        let looks = |kinds: &[(&GroupVersionResource, &Content)]| -> Vec<Step> {
            let unseen = kinds.iter().filter(|(_, content)| content.progress == Progress::Unseen);
            unseen.map(|(kind, _)| Step::Count((*kind).clone())).collect()
        };
        let due = [calls(&pods), looks(&pods)].concat();
        if !due.is_empty() || self.pods_remain() {
            return due;
        }
        let due = calls(&others);
        let is_last_look = due.is_empty() && self.undiscovered.is_none();
        if is_last_look && self.kinds.values().all(Content::is_clean) { looks(&others) } else { due }
    }

    /// Whether the namespace still has pods, as far as this sync has counted.
    pub(super) fn pods_remain(&self) -> bool {
        self.kinds.iter().any(|(kind, content)| is_pods(kind) && content.left().is_some())
    }
}

impl Leftover {
    /// Counts an object.
    pub(super) fn add(&mut self, object: &Meta) {
        self.count += 1;
        for finalizer in &object.finalizers {
            if let Some(count) = self.finalizers.get_mut(finalizer) {
                *count += 1;
            } else if self.finalizers.len() < COUNTED_FINALIZERS {
                self.finalizers.insert(finalizer.clone(), 1);
            }
        }
        self.grace = self.grace.max(object.deletion_grace().unwrap_or_default());
        let at = match &*object.finalizers {
            [] => self.first.len(),
            _ => self.first.iter().take_while(|other| !other.finalizers.is_empty()).count(),
        };
        if at < NAMED {
            let finalizers = object.finalizers.iter().take(NAMED).cloned().collect();
            self.first.insert(at, Remaining { name: object.key.name.clone(), finalizers });
            self.first.truncate(NAMED);
        }
    }
}

/// Whether these are the pods of the core group.
pub(super) fn is_pods(kind: &GroupVersionResource) -> bool {
    kind.group.is_empty() && kind.resource == "pods"
}
