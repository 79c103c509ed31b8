//! What containers use, for `metrics.k8s.io`.

use steersman_apiserver::{Amounts, RunningContainer, Usage};
use steersman_node::runtime::simulated::{NAME, SimulatedUsage};

/// The usage of simulated containers, as the annotations of their pods say. That of real containers is not known.
#[derive(Debug)]
pub(super) struct OfSimulated;

fn is_simulated(named: &str) -> bool {
    named.split_once("://").is_some_and(|(runtime, _)| runtime == NAME)
}

impl Usage for OfSimulated {
    fn of_container(&self, container: &RunningContainer<'_>) -> Option<Amounts> {
        if !is_simulated(container.id) {
            return None;
        }
        // A malformed annotation, which may have been set after the container started, tells nothing.
        let usage = SimulatedUsage::of(container.annotations, container.name, container.restarts).ok()?;
        Some(Amounts { cpu_millis: usage.cpu_millis, memory_bytes: usage.memory_bytes })
    }

    fn covers_node(&self, runtime: &str) -> bool {
        is_simulated(runtime)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_simulated_containers_and_nodes_have_a_known_usage() {
        let annotations = |value: &str| {
            BTreeMap::from([("simulated.steersman.io/cpu-millis".to_owned(), value.to_owned())])
        };
        let usage = |id, value: &str| {
            let annotations = annotations(value);
            let container = RunningContainer { name: "main", id, restarts: 0, annotations: &annotations };
            OfSimulated.of_container(&container)
        };
        let some = Some(Amounts { cpu_millis: 250, memory_bytes: 0 });
        assert_eq!(usage("simulated://a1", "250"), some);
        assert_eq!(usage("simulated://a1", "much"), None);
        assert_eq!(usage("containerd://a1", "250"), None);
        assert!(OfSimulated.covers_node("simulated://1.0.0"));
        assert!(!OfSimulated.covers_node("containerd://2.1.0") && !OfSimulated.covers_node(""));
    }
}
