//! What the controller reads of the objects in its caches.

use std::time::Duration;

use steersman_api::LabelSelector;
use steersman_api::selector::InvalidSelector;
use steersman_controller::children::Owns;
use steersman_informer::keep;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::daemon_set::{
    DaemonSet, DaemonSetSpec, DaemonSetStatus, DaemonSetTemplate, Generation, TemplateRules,
};
use steersman_kinds::node::{Node, Taints};
use steersman_kinds::pod::{Phase, Pinning, Placement, Pod, Readiness};
use steersman_kinds::scheduling::NodeRules;

use super::observed::{Set, UpdateStrategy};
use super::status::Status;

keep! {
    /// What the controller reads of a DaemonSet.
    pub struct SyncedDaemonSet: DaemonSet =>
        DaemonSetSpec, DaemonSetTemplate, TemplateRules, Generation, DaemonSetStatus
}

keep! {
    /// What the controller reads of a pod.
    pub struct DaemonPod: Pod => Placement, Pinning, Phase, Readiness
}

keep! {
    /// What the controller reads of a node.
    pub struct DaemonNode: Node => Taints
}

fn group<G: Group>(object: &G::Kind) -> &G {
    G::of(object).expect("the groups that the controller reads must be kept")
}

impl Owns for SyncedDaemonSet {
    type Child = DaemonPod;

    fn selector(owner: &DaemonSet) -> Result<LabelSelector, InvalidSelector> {
        group::<DaemonSetSpec>(owner).selector.clone().unwrap_or_default().to_selector()
    }

    fn is_untouched(owner: &DaemonSet) -> bool {
        group::<DaemonSetStatus>(owner).observed_generation == 0
    }
}

/// The rules by which a DaemonSet chooses its nodes.
pub(super) fn rules(set: &DaemonSet) -> &NodeRules {
    &group::<TemplateRules>(set).template.spec
}

/// What policy reads of a DaemonSet.
///
/// # Errors
/// The selector can't be compiled. The API server refuses such DaemonSets.
pub(super) fn set(object: &DaemonSet) -> Result<Set, InvalidSelector> {
    let spec = group::<DaemonSetSpec>(object);
    let rolling = spec.update_strategy.rolling_update.clone().unwrap_or_default();
    Ok(Set {
        selector: SyncedDaemonSet::selector(object)?,
        meta: object.meta().clone(),
        strategy: if spec.update_strategy.kind == "RollingUpdate" {
            UpdateStrategy::RollingUpdate {
                max_unavailable: rolling.max_unavailable,
                max_surge: rolling.max_surge,
            }
        } else {
            UpdateStrategy::OnDelete
        },
        min_ready: Duration::from_secs(u64::try_from(spec.min_ready_seconds).unwrap_or(0)),
        // The API server's own default.
        history_limit: usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0),
        template_generation: group::<Generation>(object).template.0,
        template: group::<DaemonSetTemplate>(object).template.clone(),
        status: Status::stored(group::<DaemonSetStatus>(object)),
    })
}

/// Whether a DaemonSet selects all pods of its namespace, which the API server refuses today.
pub(super) fn selects_everything(object: &DaemonSet) -> bool {
    let selector = group::<DaemonSetSpec>(object).selector.as_ref();
    selector.is_some_and(|spec| spec.match_labels.is_empty() && spec.match_expressions.is_empty())
}
