//! Room for pods that the node can't do without: which others must go. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};

use super::{is_critical, resources};
use crate::pod_workers::StatusChange;
use crate::resources::{CPU, MEMORY, QosClass, qos_class};
use crate::status_manager::conditions::{DISRUPTION_TARGET, replace_or_append};

/// The reason of a victim's event, and of its status.
pub const REASON: &str = "Preempting";
/// The message of both.
pub const MESSAGE: &str = "Preempted in order to admit critical pod";

/// The pods that must go before another can run.
#[derive(Debug, Clone, PartialEq)]
pub struct Preemption {
    /// Those that must go, of the lowest quality of service first.
    pub victims: Vec<Arc<Pod>>,
    /// The first of the resources that are short; as it is counted.
    pub signal: String,
}

/// How much of a resource is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) resource: String,
    /// Above zero.
    pub(super) amount: i64,
}

/// Which of `others` are ended to make up for `shortages`: as few as do it, and those of a lower quality of service first.
///
/// # Errors
/// All that may go would not be enough; says of what, in words.
pub(super) fn choose(
    preemptor: &Pod,
    others: &[&Arc<Pod>],
    shortages: &[Shortage],
) -> Result<Vec<Arc<Pod>>, String> {
    let of_class = |class: QosClass| -> Vec<Candidate> {
        let may_go = others.iter().filter(|other| may_preempt(preemptor, other) && qos_class(other) == class);
        may_go.map(|other| Candidate::new(other)).collect()
    };
    let best_effort = of_class(QosClass::BestEffort);
    let burstable = of_class(QosClass::Burstable);
    let guaranteed = of_class(QosClass::Guaranteed);
    let without = |gone: &[&[Candidate]]| {
        let gone: Vec<_> = gone.iter().copied().flatten().collect();
        missing_without(shortages, &gone)
    };
    let missing = without(&[&best_effort, &burstable, &guaranteed]);
    if !missing.is_empty() {
        return Err(not_enough(&missing));
    }
    // Of each class those that are needed even if all of the lower classes go.
    let missing = without(&[&best_effort, &burstable]);
    let guaranteed = nearest(guaranteed, missing)?;
    let missing = without(&[&best_effort, &guaranteed]);
    let burstable = nearest(burstable, missing)?;
    let missing = without(&[&burstable, &guaranteed]);
    let best_effort = nearest(best_effort, missing)?;
    Ok([best_effort, burstable, guaranteed].into_iter().flatten().map(|chosen| chosen.pod).collect())
}

/// What becomes of a victim's status.
pub fn preempted(pod: &Pod) -> StatusChange {
    let generation = pod.metadata.generation.filter(|generation| *generation != 0);
    StatusChange::new(move |status: &mut PodStatus| {
        status.phase = Some("Failed".to_owned());
        status.reason = Some(REASON.to_owned());
        status.message = Some(MESSAGE.to_owned());
        let condition = PodCondition {
            type_: DISRUPTION_TARGET.to_owned(),
            status: "True".to_owned(),
            reason: Some("TerminationByKubelet".to_owned()),
            message: Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned()),
            observed_generation: generation,
            // Filled in as the status is set.
            last_transition_time: None,
            last_probe_time: None,
        };
        replace_or_append(status.conditions.get_or_insert_default(), condition);
    })
}

/// Whether a pod may take another's place.
fn may_preempt(preemptor: &Pod, other: &Pod) -> bool {
    if is_critical(preemptor) && !is_critical(other) {
        return true;
    }
    let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority);
    priority(preemptor).zip(priority(other)).is_some_and(|(own, other)| own > other)
}

/// A pod that may go.
#[derive(Debug, Clone)]
struct Candidate {
    pod: Arc<Pod>,
    requests: crate::resources::ResourceList,
}

impl Candidate {
    fn new(pod: &Arc<Pod>) -> Self {
        Self { pod: Arc::clone(pod), requests: crate::resources::pod_requests(pod) }
    }

    /// How much of a resource is free without it.
    fn frees(&self, resource: &str) -> i64 {
        match resource {
            resources::PODS => 1,
            other => resources::counted_amount(&self.requests, other),
        }
    }

    /// How far its going is from what is missing; 0 is enough.
    fn distance(&self, missing: &[Shortage]) -> f64 {
        let left = missing.iter().map(|shortage| {
            let left = shortage.amount.saturating_sub(self.frees(&shortage.resource)).max(0);
            #[expect(clippy::cast_precision_loss, reason = "a share, and no more exact upstream")]
            let share = left as f64 / shortage.amount as f64;
            share * share
        });
        left.sum()
    }

    /// Whether it asks for no more than another: of memory, then of processor time.
    fn is_as_small_as(&self, other: &Self) -> bool {
        let sizes = [MEMORY, CPU].map(|resource| (self.frees(resource), other.frees(resource)));
        sizes.into_iter().find(|(own, other)| own != other).is_none_or(|(own, other)| own < other)
    }
}

/// What is still missing once these are gone.
fn missing_without(shortages: &[Shortage], gone: &[&Candidate]) -> Vec<Shortage> {
    let left = shortages.iter().filter_map(|shortage| {
        let freed = |sum: i64, pod: &&Candidate| sum.saturating_add(pod.frees(&shortage.resource));
        let amount = shortage.amount.saturating_sub(gone.iter().fold(0, freed));
        (amount > 0).then(|| Shortage { amount, ..shortage.clone() })
    });
    left.collect()
}

/// Takes, until nothing is missing, the candidate whose going is nearest to what is; of two that are as near the smaller.
fn nearest(mut candidates: Vec<Candidate>, mut missing: Vec<Shortage>) -> Result<Vec<Candidate>, String> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let mut best: Option<(usize, f64)> = None;
        for (index, candidate) in candidates.iter().enumerate() {
            let distance = candidate.distance(&missing);
            let better = best.is_none_or(|(at, nearest)| {
                distance < nearest || (distance <= nearest && candidate.is_as_small_as(&candidates[at]))
            });
            if better {
                best = Some((index, distance));
            }
        }
        let Some((index, _)) = best else { return Err(not_enough(&missing)) };
        let next = candidates.swap_remove(index);
        missing = missing_without(&missing, &[&next]);
        chosen.push(next);
    }
    Ok(chosen)
}

fn not_enough(missing: &[Shortage]) -> String {
    let listed: String = missing
        .iter()
        .map(|shortage| format!("(res: {}, q: {}), ", shortage.resource, shortage.amount))
        .collect();
    format!("no set of running pods found to reclaim resources: [{listed}]")
}
