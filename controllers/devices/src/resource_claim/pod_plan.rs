//! What to do for a pod or a PodGroup: make its claims from templates, say so in its status, reserve them.

use std::collections::BTreeMap;

use steersman_api::ArcStr;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_informer::Interned;
use steersman_kinds::device_allocation::Consumer;
use steersman_kinds::device_requests::RequestFacts;
use steersman_kinds::pod_device_claims::{DeviceClaim, GeneratedClaim};

use super::facts::{ClaimFacts, Claimant, ClaimantKind};
use crate::pod_claim::Named;

/// What a sync of a pod or a PodGroup decides on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodObserved {
    pub pod: Claimant,
    /// The PodGroup of the pod, if it has one and the cache shows it.
    pub group: Option<Claimant>,
    /// The existing claims that the pod names or owns, and those that its group owns, by name.
    pub claims: BTreeMap<ArcStr, ClaimFacts>,
    /// What the existing templates that the pod names ask for, by name.
    pub templates: BTreeMap<ArcStr, RequestFacts>,
    /// The claims that this sync has created, by their names in the pod's spec.
    pub created: BTreeMap<Interned, ArcStr>,
    /// Whether the feature gate `DRAPrioritizedList` is on.
    pub allows_alternatives: bool,
    /// Whether `claims` shows everything that previous leaders have created.
    pub is_confirmed: bool,
}

/// A step of a sync of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PodStep {
    /// Observe the claims again, from a cache that shows what previous leaders have created, or from the API server.
    Confirm,
    /// Make a claim from a template.
    Create(DeviceClaim),
    /// End the sync with an event: this claim of the pod can't be made, for this reason.
    Refuse(Interned, String),
    /// Set the claims in the pod's status, by server-side apply.
    ApplyStatus(Vec<GeneratedClaim>),
    /// Reserve this claim for the pod, or for its group.
    Reserve(ArcStr, Consumer),
}

/// What the controller does about one claim of a pod.
enum Handling<'a> {
    Nothing,
    /// This claim exists, and the pod's status must name it.
    Record(&'a ArcStr),
    Create,
    Refuse(String),
}

/// Decides on the next steps for a pod.
pub(super) fn plan(observed: &PodObserved) -> Plan<PodStep> {
    let pod = &observed.pod;
    // A pod that has ended gets no claims any more: its generated claims are deleted, and its reservations dropped. Upstream
    // makes both again, and again.
    if pod.is_deleting || pod.is_terminal || !observed.needs_work() {
        return Plan::done();
    }
    if pod.group.is_some() && observed.group.is_none() {
        // The appearance of the group queues its pods.
        return Plan::done();
    }
    let mut steps = Vec::new();
    let mut status = Vec::new();
    for claim in &pod.claims {
        let recorded = pod.generated.iter().find(|generated| generated.name == claim.name).cloned();
        match observed.handling(claim) {
            Handling::Nothing => status.extend(recorded),
            Handling::Record(name) => {
                let generated = Some(Interned::from(name.as_str()));
                status.push(GeneratedClaim { name: claim.name.clone(), claim: generated });
            }
            Handling::Create => steps.push(PodStep::Create(claim.clone())),
            Handling::Refuse(why) => {
                steps.push(PodStep::Refuse(claim.name.clone(), why));
                break;
            }
        }
    }
    if !steps.is_empty() {
        if !observed.is_confirmed {
            return Plan::step(PodStep::Confirm);
        }
        return Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::Stop });
    }
    if status.iter().any(|generated| !pod.generated.contains(generated)) {
        return Plan::step(PodStep::ApplyStatus(status));
    }
    match observed.unreserved() {
        // kube-scheduler reserves the claims of pods that it schedules.
        Some((claim, consumer)) if pod.is_scheduled => Plan::step(PodStep::Reserve(claim, consumer)),
        _ => Plan::done(),
    }
}

impl PodObserved {
    /// Whether the pod may lack something. A pod may lack a claim that only its user, or the end of another claim, can give
    /// it: then there is nothing to do. Upstream's `podNeedsWork`.
    fn needs_work(&self) -> bool {
        let pod = &self.pod;
        pod.claims.iter().any(|claim| {
            let (name, is_generated) = match pod.named(claim) {
                Named::NotCreated | Named::Unsupported => return true,
                Named::Unneeded => return false,
                Named::Shared(name) => (name, false),
                Named::Generated(name) => (name, true),
            };
            match self.claims.get(name.as_arc()) {
                // The claim of a group is made for the group.
                None => claim.template.is_some() && self.holder(claim).uid == pod.uid,
                Some(found) if is_generated && !found.is_for(pod) => false,
                Some(found) => pod.is_scheduled && found.is_allocated && !found.is_reserved_for(pod),
            }
        })
    }

    /// The claimant that a claim of the pod belongs to: the pod's group, if the group has the same claim. Upstream: `BindTo`.
    fn holder(&self, claim: &DeviceClaim) -> &Claimant {
        self.group.as_ref().filter(|group| group.claims.contains(claim)).unwrap_or(&self.pod)
    }

    fn handling(&self, claim: &DeviceClaim) -> Handling<'_> {
        let pod = &self.pod;
        match pod.named(claim) {
            Named::Unsupported => {
                let whose = match pod.kind {
                    ClaimantKind::Pod => {
                        format!("pod \"{}\", spec.resourceClaim {:?}", pod.key, &*claim.name)
                    }
                    ClaimantKind::PodGroup => {
                        format!("PodGroup {}, spec.resourceClaim {}", pod.key, &*claim.name)
                    }
                };
                return Handling::Refuse(format!(
                    "checking for claim before creating it: {whose}: none of the supported fields are set"
                ));
            }
            Named::Unneeded | Named::Shared(_) => return Handling::Nothing,
            Named::Generated(name)
                if self.claims.get(name.as_arc()).is_some_and(|found| found.is_for(pod)) =>
            {
                return Handling::Nothing;
            }
            // The claim may have been deleted by accident.
            Named::Generated(_) | Named::NotCreated => {}
        }
        let Some(template) = &claim.template else { return Handling::Nothing };
        if let Some(created) = self.created.get(&claim.name) {
            return Handling::Record(created);
        }
        let holder = self.holder(claim);
        let is_it = |found: &&ClaimFacts| {
            found.meta.is_controlled_by(&holder.uid) && found.pod_claim.as_deref() == Some(&*claim.name)
        };
        if let Some(found) = self.claims.values().find(is_it) {
            return Handling::Record(&found.meta.key.name);
        }
        if holder.uid != pod.uid {
            // The appearance of the group's claim, or of its name in the group's status, queues the pod.
            return Handling::Nothing;
        }
        match self.templates.get(template.as_arc()) {
            None => Handling::Refuse(format!(
                "resource claim template {:?}: resourceclaimtemplate.resource.k8s.io {:?} not found",
                &**template, &**template
            )),
            Some(requests) if requests.alternatives && !self.allows_alternatives => Handling::Refuse(
                "template includes a prioritized list of subrequests, but the feature is disabled".to_owned(),
            ),
            Some(_) => Handling::Create,
        }
    }

    /// The first claim of the pod that must be reserved for it, and the consumer to reserve it for. A claim that does not exist
    /// yet, or that was made for another pod, holds up those after it, as upstream.
    fn unreserved(&self) -> Option<(ArcStr, Consumer)> {
        let pod = &self.pod;
        for claim in &pod.claims {
            let (name, is_generated) = match pod.named(claim) {
                Named::Shared(name) => (name, false),
                Named::Generated(name) => (name, true),
                Named::NotCreated | Named::Unneeded | Named::Unsupported => continue,
            };
            let found = self.claims.get(name.as_arc())?;
            if is_generated && !found.is_for(pod) {
                return None;
            }
            if found.is_allocated && !found.is_reserved_for(pod) {
                return Some((name.as_arc().clone(), self.holder(claim).consumer()));
            }
        }
        None
    }
}
