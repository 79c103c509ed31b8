//! In which order the containers of a pod end: sidecars outlive what they serve.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use crate::restart_policy::is_restartable_init_container;

/// Whom each running container waits for before it is asked to stop.
///
/// Regular, ephemeral and plain init containers wait for nobody. A sidecar waits for all regular containers and for
/// the next sidecar after it; so sidecars end in the reverse of the order in which they started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminationOrder {
    waits_for: BTreeMap<String, BTreeSet<String>>,
}

impl TerminationOrder {
    /// The order for `pod`, of which the containers of these names run. Who does not run keeps nobody waiting.
    pub fn new(pod: &Pod, running: &BTreeSet<String>) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let running_name = |name: &String| running.contains(name).then(|| name.clone());
        let regular: BTreeSet<String> =
            spec.containers.iter().filter_map(|container| running_name(&container.name)).collect();
        let mut waits_for = BTreeMap::new();
        let mut later_sidecar: Option<&String> = None;
        let init = spec.init_containers.iter().flatten();
        for sidecar in init.rev().filter(|container| is_restartable_init_container(container)) {
            let mut whom = regular.clone();
            whom.extend(later_sidecar.and_then(running_name));
            waits_for.insert(sidecar.name.clone(), whom);
            later_sidecar = Some(&sidecar.name);
        }
        Self { waits_for }
    }

    /// Whether the container `name` may be asked to stop, now that those of `ended` have.
    pub fn may_stop(&self, name: &str, ended: &BTreeSet<String>) -> bool {
        self.waits_for.get(name).is_none_or(|whom| whom.is_subset(ended))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::*;

    fn pod() -> Pod {
        let container = |name: &str, policy: Option<&str>| Container {
            name: name.into(),
            restart_policy: policy.map(Into::into),
            ..Container::default()
        };
        let always = Some("Always");
        Pod {
            spec: Some(PodSpec {
                init_containers: Some(vec![
                    container("first", always),
                    container("setup", None),
                    container("second", always),
                    container("third", always),
                ]),
                containers: vec![container("app", None), container("helper", None)],
                ..PodSpec::default()
            }),
            ..Pod::default()
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn sidecars_end_after_the_regular_containers_the_last_one_first() {
        let order = TerminationOrder::new(&pod(), &names(&["first", "second", "third", "app", "helper"]));
        let stoppable = |ended: &[&str]| {
            let ended = names(ended);
            let all = ["first", "setup", "second", "third", "app", "helper", "debugger"];
            all.into_iter().filter(|name| order.may_stop(name, &ended)).collect::<Vec<_>>()
        };
        assert_eq!(stoppable(&[]), ["setup", "app", "helper", "debugger"]);
        assert_eq!(stoppable(&["app"]), ["setup", "app", "helper", "debugger"]);
        assert_eq!(stoppable(&["app", "helper"]), ["setup", "third", "app", "helper", "debugger"]);
        assert!(stoppable(&["app", "helper", "third"]).contains(&"second"));
        assert!(!stoppable(&["app", "helper", "third"]).contains(&"first"));
        assert!(stoppable(&["app", "helper", "third", "second"]).contains(&"first"));
    }

    #[test]
    fn who_does_not_run_keeps_nobody_waiting() {
        let order = TerminationOrder::new(&pod(), &names(&["first", "second", "helper"]));
        assert!(order.may_stop("second", &names(&["helper"])));
        assert!(!order.may_stop("first", &names(&["helper"])));
        let alone = TerminationOrder::new(&pod(), &names(&["first"]));
        assert!(alone.may_stop("first", &names(&[])));
    }
}
