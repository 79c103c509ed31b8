//! What the runtime tells of a pod, in the terms of the pod's status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerUser, LinuxContainerUser, Pod};

use crate::container::{ContainerState, ContainerStatus, PodStatus};
use crate::kuberuntime::actions::pod_sandbox_changed;
use crate::status_manager::conditions::Sandbox;
use crate::status_manager::statuses::{ObservedContainer, ObservedState};

/// A pod's containers as its status tells of them.
pub(super) fn containers(status: &PodStatus) -> Vec<ObservedContainer> {
    status.containers.iter().map(container).collect()
}

fn container(status: &ContainerStatus) -> ObservedContainer {
    let began = status.started_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let state = match status.state {
        ContainerState::Created => ObservedState::Created,
        ContainerState::Running => ObservedState::Running { started_at: began },
        ContainerState::Exited => ObservedState::Exited {
            started_at: began,
            finished_at: status.finished_at.unwrap_or(Timestamp::UNIX_EPOCH),
            exit_code: status.exit_code,
            reason: status.reason.clone(),
            message: status.message.clone(),
        },
        ContainerState::Unknown => ObservedState::Unknown,
    };
    let user = status.user.as_ref().map(|user| ContainerUser {
        linux: Some(LinuxContainerUser {
            uid: user.uid,
            gid: user.gid,
            supplemental_groups: Some(user.supplemental_groups.clone()).filter(|groups| !groups.is_empty()),
        }),
    });
    ObservedContainer {
        name: status.name.clone(),
        id: status.id.to_string(),
        state,
        image: status.image.clone(),
        image_ref: status.image_ref.clone(),
        restart_count: i32::try_from(status.restart_count).unwrap_or(i32::MAX),
        created_at: status.created_at,
        resources: status.resources,
        user,
    }
}

/// Whether the pod has the sandbox that it needs.
pub(super) fn sandbox(pod: &Pod, status: &PodStatus) -> Sandbox {
    if pod_sandbox_changed(pod, status).changed { Sandbox::Needed } else { Sandbox::Ready }
}

/// Whether an ordinary container was ever made in the sandbox that is there.
pub(super) fn initialized(pod: &Pod, status: &PodStatus) -> bool {
    let ordinary = |name: &str| {
        let spec = pod.spec.iter().flat_map(|spec| spec.containers.iter());
        spec.into_iter().any(|container| container.name == name)
    };
    status.active_containers().any(|container| ordinary(&container.name))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::*;
    use crate::kuberuntime::actions::testing;

    #[test]
    fn initialization_is_done_once_an_ordinary_container_is_in_the_sandbox() {
        let pod = Pod {
            spec: Some(PodSpec {
                init_containers: Some(vec![Container { name: "init".into(), ..Container::default() }]),
                containers: vec![Container { name: "foo1".into(), ..Container::default() }],
                ..PodSpec::default()
            }),
            ..Pod::default()
        };
        let mut status = testing::base().status;
        let sandbox = status.sandboxes[0].id.clone();
        let made = |name: &str, sandbox: &str| {
            let mut container = testing::container("c", name, ContainerState::Exited);
            container.sandbox_id = sandbox.to_owned();
            container
        };
        status.containers = vec![made("init", &sandbox)];
        assert!(!initialized(&pod, &status));
        status.containers = vec![made("foo1", "an earlier one")];
        assert!(!initialized(&pod, &status));
        status.containers = vec![made("foo1", &sandbox)];
        assert!(initialized(&pod, &status));
    }

    #[test]
    fn an_ended_container_keeps_how_it_ended() {
        let mut ended = testing::container("c", "app", ContainerState::Exited);
        ended.exit_code = 137;
        ended.reason = "OOMKilled".into();
        ended.restart_count = 3;
        let observed = container(&ended);
        assert_eq!(observed.restart_count, 3);
        let ObservedState::Exited { exit_code, reason, .. } = observed.state else { panic!("{observed:?}") };
        assert_eq!((exit_code, reason.as_str()), (137, "OOMKilled"));
        let created = container(&testing::container("c", "app", ContainerState::Created));
        assert_eq!(created.state, ObservedState::Created);
    }
}
