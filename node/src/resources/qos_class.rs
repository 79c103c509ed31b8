//! The quality of service that a pod's resources entitle it to.

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use steersman_api::Quantity;

use super::{CPU, MEMORY, ResourceList, limits, pod_level, requests};

/// How a pod fares when the node runs short, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QosClass {
    /// Has what it asked for and never more: limits and requests are there and equal.
    Guaranteed,
    /// Has what it asked for, and more where there is some.
    Burstable,
    /// Has what is left over.
    BestEffort,
}

impl QosClass {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Guaranteed, Self::Burstable, Self::BestEffort].into_iter().find(|class| class.as_str() == text)
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The pod's class: what its status says, since it never changes over a pod's life; of one without, as computed.
pub fn qos_class(pod: &Pod) -> QosClass {
    let recorded = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    recorded.and_then(QosClass::parse).unwrap_or_else(|| compute_qos_class(pod))
}

/// The class that the spec comes to. Only processor time and memory count, and only amounts above zero. Resources of the
/// pod as a whole, where it has that field, count instead of its containers'; ephemeral containers never do.
pub fn compute_qos_class(pod: &Pod) -> QosClass {
    let Some(spec) = &pod.spec else { return QosClass::BestEffort };
    let (mut asked, mut allowed) = (ResourceList::new(), ResourceList::new());
    let mut all_limited = true;
    let mut take = |requirements: Option<&ResourceRequirements>| {
        let limits = positive(limits(requirements));
        super::add(&mut asked, &positive(requests(requirements)));
        super::add(&mut allowed, &limits);
        limits.len() == 2
    };
    if let Some(of_pod) = pod_level(pod) {
        // A pod that has only requests is told apart below: its limits are not as many.
        let any_limits = of_pod.limits.as_ref().is_some_and(|limits| !limits.is_empty());
        all_limited = take(Some(of_pod)) || !any_limits;
    } else {
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            all_limited &= take(container.resources.as_ref());
        }
    }
    if asked.is_empty() && allowed.is_empty() {
        QosClass::BestEffort
    } else if all_limited && asked == allowed {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

fn positive(mut list: ResourceList) -> ResourceList {
    list.retain(|name, amount| [CPU, MEMORY].contains(&name.as_str()) && *amount > Quantity::default());
    list
}
