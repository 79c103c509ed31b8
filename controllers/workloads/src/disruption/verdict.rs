//! What follows from a budget and its pods.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use steersman_api::{ArcStr, Meta, OwnerReference, Time, Uid};
use steersman_kinds::selector::SelectorSpec;

use super::budget::Bound;
use super::notice::Notice;
use super::observed::{Observed, Replicas};
use super::owners::Owner;
use super::pods::Pod;
use super::status::Status;

/// How long after an eviction the controller waits to see the pod being deleted. Then the pod counts as healthy again.
/// Upstream: `DeletionTimeout`.
pub(super) const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// What follows from a budget and its pods.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The events to record.
    pub notices: Vec<Notice>,
    /// The status to write; `None` if the stored one is right.
    pub status: Option<Status>,
    /// When to look again, since an entry of `disruptedPods` expires then.
    pub recheck: Option<Duration>,
}

/// The owners whose scale must be read first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown(pub Vec<OwnerReference>);

/// The number of expected pods.
struct Expected {
    count: i32,
    /// Whether some of the pods have no managing owner, so that `count` lacks them.
    unmanaged: bool,
}

impl Verdict {
    /// Judges a budget. The order of the events, and what counts, is upstream's `trySync`.
    ///
    /// # Errors
    /// The scale of some owners is not known yet.
    pub(super) fn of(observed: &Observed, now: Time) -> Result<Self, Unknown> {
        let budget = &observed.budget;
        let pods = match &observed.pods {
            Ok(pods) => pods,
            Err(why) => {
                return Ok(Self::failure(observed, Vec::new(), Notice::PodsFailed(why.clone()), why, now));
            }
        };
        let mut notices = Vec::new();
        if pods.is_empty() {
            notices.push(Notice::NoPods);
        }
        let expected = if budget.bound.needs_scale() {
            expected_scale(pods, &observed.foreign)?
        } else if matches!(budget.bound, Bound::None) {
            Ok(Expected { count: 0, unmanaged: false })
        } else {
            Ok(Expected { count: i32::try_from(pods.len()).unwrap_or(i32::MAX), unmanaged: false })
        };
        let counted =
            expected.and_then(|expected| Ok((budget.bound.desired_healthy(expected.count)?, expected)));
        let (desired, expected) = match counted {
            Ok(counted) => counted,
            Err(why) => {
                return Ok(Self::failure(observed, notices, Notice::ExpectedFailed(why.clone()), &why, now));
            }
        };
        if expected.unmanaged {
            let selector = budget.selector.as_ref().map_or_else(|| "nil".to_owned(), SelectorSpec::go_text);
            notices.push(Notice::UnmanagedPods(selector));
        }
        let disrupted = Disrupted::of(observed, pods, now);
        let evicted = |pod: &Pod| disrupted.pods.contains_key(&pod.meta.key.name);
        let healthy = pods.iter().filter(|pod| pod.ready && !pod.meta.is_deleting() && !evicted(pod)).count();
        let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
        // A budget without pods allows nothing, so that it is safe when its first pods come.
        let allowed = if expected.count > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
        let status = Status {
            observed_generation: budget.meta.generation,
            disrupted_pods: disrupted.pods,
            disruptions_allowed: allowed,
            current_healthy: healthy,
            desired_healthy: desired,
            expected_pods: expected.count,
            conditions: Vec::new(),
        };
        notices.extend(disrupted.survivors.into_iter().map(Notice::NotDeleted));
        let status = status.over(&budget.status, now);
        Ok(Self { notices, status, recheck: disrupted.recheck })
    }

    fn failure(
        observed: &Observed,
        mut notices: Vec<Notice>,
        notice: Notice,
        message: &str,
        now: Time,
    ) -> Self {
        notices.push(notice);
        Self { notices, status: Status::failed_over(&observed.budget.status, message, now), recheck: None }
    }
}

/// The sum of the replicas of the pods' owners, or why it can't be told.
fn expected_scale(
    pods: &[Pod],
    foreign: &HashMap<Uid, Replicas>,
) -> Result<Result<Expected, String>, Unknown> {
    let mut scales = BTreeMap::new();
    let mut unknown: Vec<OwnerReference> = Vec::new();
    let mut unmanaged = false;
    for pod in pods {
        let scale = match &pod.owner {
            Owner::Unmanaged => {
                unmanaged = true;
                continue;
            }
            Owner::Scaled(scale) => scale,
            Owner::Unreadable(why) => return known(unknown, Err(why.clone())),
            Owner::Foreign(owner) => match foreign.get(&owner.uid) {
                None => {
                    if !unknown.iter().any(|other| other.uid == owner.uid) {
                        unknown.push(owner.clone());
                    }
                    continue;
                }
                Some(Replicas::Of(scale)) => scale,
                Some(Replicas::NoOwner) => {
                    let why = format!("found no controllers for pod {:?}", pod.meta.key.name);
                    return known(unknown, Err(why));
                }
                Some(Replicas::Failed(why)) => return known(unknown, Err(why.clone())),
            },
        };
        scales.insert(&scale.uid, scale.replicas);
    }
    let count = scales.into_values().fold(0, i32::saturating_add);
    known(unknown, Ok(Expected { count, unmanaged }))
}

fn known<T>(unknown: Vec<OwnerReference>, result: T) -> Result<T, Unknown> {
    if unknown.is_empty() { Ok(result) } else { Err(Unknown(unknown)) }
}

/// The pods that the API server has agreed to evict, brought up to date.
struct Disrupted {
    /// The entries that stay.
    pods: BTreeMap<ArcStr, Time>,
    /// The pods whose entries have expired though nothing deletes them.
    survivors: Vec<Meta>,
    /// The time until the next entry expires.
    recheck: Option<Duration>,
}

impl Disrupted {
    /// Drops the entries of pods that are being deleted, or gone, or still there after [`DELETION_TIMEOUT`].
    ///
    /// Unlike upstream, an entry of a pod that the cache lacks stays while the cache is older than the entry: the pod may be
    /// newer than the cache. Were its entry dropped, the pod would count as healthy from when the cache shows it until
    /// the cache shows its deletion, and the budget would allow one eviction too many.
    fn of(observed: &Observed, pods: &[Pod], now: Time) -> Self {
        let stored = &observed.budget.status.disrupted_pods;
        let mut disrupted = Self { pods: BTreeMap::new(), survivors: Vec::new(), recheck: None };
        if stored.is_empty() {
            return disrupted;
        }
        let shown: HashMap<&ArcStr, &Pod> = pods.iter().map(|pod| (&pod.meta.key.name, pod)).collect();
        let outdated = observed.pods_version < observed.agreed_at;
        for (name, since) in stored {
            let pod = shown.get(name);
            if pod.map_or(!outdated, |pod| pod.meta.is_deleting()) {
                continue;
            }
            let left = DELETION_TIMEOUT.saturating_sub(now.since(*since));
            if left.is_zero() {
                disrupted.survivors.extend(pod.map(|pod| pod.meta.clone()));
            } else {
                disrupted.recheck = Some(disrupted.recheck.map_or(left, |other| other.min(left)));
                disrupted.pods.insert(name.clone(), *since);
            }
        }
        disrupted
    }
}
