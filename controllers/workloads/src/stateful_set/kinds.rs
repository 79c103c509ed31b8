//! What the controller reads of StatefulSets.

use std::collections::HashSet;
use std::time::Duration;

use steersman_api::LabelSelector;
use steersman_api::selector::InvalidSelector;
use steersman_controller::children::Owns;
use steersman_informer::keep;
use steersman_informer::wire::{Group, IntOrString, Object};
use steersman_kinds::stateful_set::{
    ClaimTemplate, Repair, StatefulSet, StatefulSetSpec, StatefulSetStatus, StatefulSetTemplates,
};

use super::StatefulPod;
use super::claims::Retention;
use super::observed::{Order, Set, Update};
use super::status::Status;

keep! {
    /// What the controller reads of a StatefulSet.
    pub struct SyncedStatefulSet: StatefulSet =>
        StatefulSetSpec, StatefulSetTemplates, Repair, StatefulSetStatus
}

fn group<G: Group>(object: &G::Kind) -> &G {
    G::of(object).expect("the groups that the controller reads must be kept")
}

impl Owns for SyncedStatefulSet {
    type Child = StatefulPod;

    fn selector(owner: &StatefulSet) -> Result<LabelSelector, InvalidSelector> {
        group::<StatefulSetSpec>(owner).selector.clone().unwrap_or_default().to_selector()
    }

    fn is_untouched(owner: &StatefulSet) -> bool {
        group::<StatefulSetStatus>(owner).observed_generation == 0
    }
}

/// Whether `maxUnavailable` counts: the gate `MaxUnavailableStatefulSet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaxUnavailable {
    /// It does.
    Counts,
    /// One pod is updated at a time, whatever the set says.
    Ignored,
}

/// The templates without those that a later one of the same name replaces: the API server accepts several of one name.
fn distinct(templates: &[ClaimTemplate]) -> Vec<ClaimTemplate> {
    let mut names = HashSet::new();
    let from_last = templates.iter().rev();
    let mut distinct: Vec<_> = from_last.filter(|template| names.insert(&template.name)).cloned().collect();
    distinct.reverse();
    distinct
}

/// What policy reads of a set.
pub(super) fn set(object: &StatefulSet, gate: MaxUnavailable) -> Set {
    let (spec, status) = (group::<StatefulSetSpec>(object), group::<StatefulSetStatus>(object));
    let templates = group::<StatefulSetTemplates>(object);
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let max_unavailable = || {
        let given = rolling.and_then(|rolling| rolling.max_unavailable.clone());
        given.unwrap_or(IntOrString::Int(1))
    };
    Set {
        meta: object.meta().clone(),
        replicas: spec.replicas.unwrap_or(1).max(0),
        start: spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start.max(0)),
        order: if spec.pod_management_policy == "Parallel" { Order::Parallel } else { Order::Ready },
        update: Update {
            on_delete: spec.update_strategy.kind == "OnDelete",
            partition: rolling.map(|rolling| rolling.partition.unwrap_or(0)),
            max_unavailable: (gate == MaxUnavailable::Counts).then(max_unavailable),
        },
        min_ready: Duration::from_secs(u64::try_from(spec.min_ready_seconds).unwrap_or(0)),
        history_limit: spec.revision_history_limit.unwrap_or(10),
        retention: Retention::of(spec.claim_retention.as_ref()),
        service_name: spec.service_name.clone(),
        match_labels: spec
            .selector
            .as_ref()
            .map(|selector| selector.match_labels.clone())
            .unwrap_or_default(),
        template: templates.template.clone(),
        claims: distinct(&templates.claims),
        replaces_broken_pods: group::<Repair>(object).broken_pods.0,
        status: Status {
            observed_generation: status.observed_generation,
            replicas: status.replicas,
            ready_replicas: status.ready_replicas,
            current_replicas: status.current_replicas,
            updated_replicas: status.updated_replicas,
            current_revision: status.current_revision.clone(),
            update_revision: status.update_revision.clone(),
            collision_count: status.collision_count,
            available_replicas: status.available_replicas,
        },
    }
}

#[cfg(test)]
mod tests {
    use steersman_informer::wire::{FieldValue, Opaque};

    use super::*;

    #[test]
    fn of_templates_of_one_name_the_last_counts() {
        let template = |name: &str, size: i32| ClaimTemplate {
            name: name.into(),
            claim: Opaque::from_json(&serde_json::json!(size)).unwrap(),
        };
        let templates = distinct(&[template("data", 1), template("logs", 2), template("data", 3)]);
        let size = |template: &ClaimTemplate| match &template.claim {
            Opaque::Json(text) => text.get().to_owned(),
            other => panic!("{other:?}"),
        };
        let read: Vec<_> =
            templates.iter().map(|template| (template.name.as_str(), size(template))).collect();
        assert_eq!(read, [("logs", "2".to_owned()), ("data", "3".to_owned())]);
    }
}
