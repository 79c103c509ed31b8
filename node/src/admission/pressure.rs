//! A node that runs short takes no more pods, but for those it can't do without.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Taint};

use super::{Rejection, is_critical, taints};
use crate::node_status::pressure::Pressure;
use crate::resources::{QosClass, qos_class};

/// Short of memory alone, pods that asked for some are taken, and those that say they can bear it.
pub(super) fn check(pod: &Pod, pressures: &BTreeSet<Pressure>) -> Result<(), Rejection> {
    if pressures.is_empty() || is_critical(pod) {
        return Ok(());
    }
    if pressures.iter().eq([&Pressure::Memory]) {
        let taint = Taint {
            key: "node.kubernetes.io/memory-pressure".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if qos_class(pod) != QosClass::BestEffort || taints::tolerates(pod, &taint) {
            return Ok(());
        }
    }
    let listed = pressures.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    Err(Rejection::new("Evicted", format!("The node had condition: [{listed}]. ")))
}
