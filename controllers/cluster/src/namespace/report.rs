//! What a sync has found of a namespace's contents.

use std::collections::BTreeMap;

use steersman_api::{ArcStr, GroupVersionResource};

use super::contents::{Contents, Leftover, NAMED, Progress, Remaining, Undiscovered, is_pods};

/// The time in seconds in which a finalizer is expected to go, as upstream.
const FINALIZER_ESTIMATE: i64 = 15;

/// What a sync has found of a namespace's contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Why discovery failed.
    pub undiscovered: Option<Undiscovered>,
    /// The errors of calls, and of objects that should be gone, by the kinds' order.
    pub errors: Vec<String>,
    /// The number of objects of each kind that are left, without kinds of which none is left. Empty while pods remain: as
    /// upstream, conditions tell of the others only.
    pub remaining: BTreeMap<GroupVersionResource, usize>,
    /// The number of objects that have each finalizer; empty while pods remain.
    pub finalizers: BTreeMap<ArcStr, usize>,
    /// The first [`NAMED`] objects that are left, pods included. Those with finalizers come first.
    pub blocking: Vec<String>,
    /// The time in seconds after which the rest should be gone. Zero if nothing is left, or if the controller can't tell.
    pub estimate: i64,
}

impl Report {
    /// Reports on the contents of the namespace of this name, `since` seconds after its deletion.
    pub(super) fn of(namespace: &str, contents: &Contents, since: i64) -> Self {
        let mut report = Self { undiscovered: contents.undiscovered.clone(), ..Self::default() };
        let mut objects = Vec::new();
        for (kind, content) in &contents.kinds {
            let (left, error) = match (&content.progress, content.left()) {
                (Progress::Failed(error), _) => (None, Some(error.clone())),
                (_, left) => (left, left.and_then(|left| left.unexpected(namespace, kind, since))),
            };
            report.errors.extend(error.map(|error| match is_pods(kind) {
                true => format!("failed to delete pods for namespace: {namespace}, err: {error}"),
                false => error,
            }));
            let Some(left) = left else { continue };
            report.estimate = report.estimate.max(left.estimate(kind, since));
            objects.extend(left.first.iter().map(|object| (kind, object)));
            if !contents.pods_remain() {
                report.remaining.insert(kind.clone(), left.count);
                for (finalizer, count) in &left.finalizers {
                    *report.finalizers.entry(finalizer.clone()).or_default() += count;
                }
            }
        }
        // The sort is stable.
        objects.sort_by_key(|(_, object)| object.finalizers.is_empty());
        report.blocking = objects.iter().take(NAMED).map(|(kind, object)| object.describe(kind)).collect();
        report
    }

    /// The error with which the sync must end. `None` if there was none.
    pub(super) fn error(&self) -> Option<String> {
        let discovery = self.undiscovered.iter().map(|undiscovered| &undiscovered.error);
        let errors: Vec<&str> = discovery.chain(&self.errors).map(String::as_str).collect();
        (!errors.is_empty()).then(|| errors.join("; "))
    }
}

impl Leftover {
    /// The time in seconds after which these objects should be gone.
    fn estimate(&self, kind: &GroupVersionResource, since: i64) -> i64 {
        // Objects of other kinds have no grace period.
        let is_within_grace = is_pods(kind) && self.grace > since;
        match (is_within_grace, self.finalizers.is_empty()) {
            (true, _) => self.grace,
            (false, false) => FINALIZER_ESTIMATE,
            (false, true) => 0,
        }
    }

    /// The error that nothing explains why these objects are still there.
    fn unexpected(&self, namespace: &str, kind: &GroupVersionResource, since: i64) -> Option<String> {
        let GroupVersionResource { group, version, resource } = kind;
        (self.estimate(kind, since) == 0).then(|| {
            format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={resource}"
            )
        })
    }
}

impl Remaining {
    /// The object as `kubectl get` takes it, with its finalizers.
    fn describe(&self, kind: &GroupVersionResource) -> String {
        if self.finalizers.is_empty() {
            return format!("{kind}/{}", self.name);
        }
        let finalizers: Vec<&str> = self.finalizers.iter().map(ArcStr::as_str).collect();
        format!("{kind}/{} (finalizers: {})", self.name, finalizers.join(", "))
    }
}
