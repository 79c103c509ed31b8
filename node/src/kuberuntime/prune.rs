//! Which ended init containers the runtime need not keep.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use crate::container::{ContainerId, ContainerState, PodStatus};

/// The init containers to remove before new ones are started: of each name all that ended but the newest.
pub fn init_containers_to_prune(pod: &Pod, status: &PodStatus) -> Vec<ContainerId> {
    let ended = |state| matches!(state, ContainerState::Exited | ContainerState::Unknown);
    let mut kept = BTreeSet::new();
    let names = init_names(pod);
    let candidates = status.containers.iter().filter(|container| ended(container.state));
    candidates
        .filter(|container| names.contains(container.name.as_str()) && !kept.insert(container.name.as_str()))
        .map(|container| container.id.clone())
        .collect()
}

/// The init containers to remove before a new sandbox is made, in which all of them start over: every one. They must have
/// been stopped with the old sandbox.
pub fn init_containers_to_purge(pod: &Pod, status: &PodStatus) -> Vec<ContainerId> {
    let names = init_names(pod);
    let all = status.containers.iter().filter(|container| names.contains(container.name.as_str()));
    all.map(|container| container.id.clone()).collect()
}

fn init_names(pod: &Pod) -> BTreeSet<&str> {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    init.map(|container| container.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuberuntime::actions::testing::{self, Scene};

    fn scene() -> Scene {
        let mut scene = testing::base().with_init(testing::plain_init());
        scene.status.containers = vec![
            testing::container("i1-now", "init1", ContainerState::Running),
            testing::container("i2-now", "init2", ContainerState::Exited),
            testing::container("i1-old", "init1", ContainerState::Exited),
            testing::container("foo-old", "foo1", ContainerState::Exited),
            testing::container("i2-lost", "init2", ContainerState::Unknown),
            testing::container("i1-older", "init1", ContainerState::Exited),
        ];
        scene
    }

    fn ids(ids: Vec<ContainerId>) -> Vec<String> {
        ids.into_iter().map(|id| id.id).collect()
    }

    #[test]
    fn the_newest_that_ended_is_kept_of_each_name() {
        let scene = scene();
        assert_eq!(ids(init_containers_to_prune(&scene.pod, &scene.status)), ["i2-lost", "i1-older"]);
    }

    #[test]
    fn a_purge_takes_all_init_containers_and_no_other() {
        let scene = scene();
        let purged = ids(init_containers_to_purge(&scene.pod, &scene.status));
        assert_eq!(purged, ["i1-now", "i2-now", "i1-old", "i2-lost", "i1-older"]);
    }
}
