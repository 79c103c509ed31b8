//! The containers of a pod's spec, and how events and messages name them. Pure.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, ObjectReference, Pod};

use crate::events::container_reference;

/// What the path of a container begins with that is not in its pod's spec.
pub(super) const IMPLICIT: &str = "implicitly required container ";

/// The spec of a container of any kind by its name; an ephemeral one in the form that all have.
pub(crate) fn container_spec(pod: &Pod, name: &str) -> Option<Container> {
    let spec = pod.spec.as_ref()?;
    let ordinary = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut ephemeral = spec.ephemeral_containers.iter().flatten();
    ordinary
        .clone()
        .find(|container| container.name == name)
        .cloned()
        .or_else(|| ephemeral.find(|container| container.name == name).map(of_ephemeral))
}

/// What an ephemeral container has in common with others.
pub(super) fn of_ephemeral(container: &EphemeralContainer) -> Container {
    let of = container.clone();
    Container {
        name: of.name,
        image: of.image,
        command: of.command,
        args: of.args,
        working_dir: of.working_dir,
        ports: of.ports,
        env_from: of.env_from,
        env: of.env,
        resources: of.resources,
        resize_policy: of.resize_policy,
        restart_policy: of.restart_policy,
        restart_policy_rules: of.restart_policy_rules,
        volume_mounts: of.volume_mounts,
        volume_devices: of.volume_devices,
        liveness_probe: of.liveness_probe,
        readiness_probe: of.readiness_probe,
        startup_probe: of.startup_probe,
        lifecycle: of.lifecycle,
        termination_message_path: of.termination_message_path,
        termination_message_policy: of.termination_message_policy,
        image_pull_policy: of.image_pull_policy,
        security_context: of.security_context,
        stdin: of.stdin,
        stdin_once: of.stdin_once,
        tty: of.tty,
    }
}

/// The reference by which an event names a container of the pod.
pub(crate) fn reference(pod: &Pod, container: &str) -> ObjectReference {
    container_reference(pod, &field_path(pod, container))
}

fn field_path(pod: &Pod, name: &str) -> String {
    if let Some(spec) = &pod.spec {
        if spec.containers.iter().any(|container| container.name == name) {
            return format!("spec.containers{{{name}}}");
        }
        if spec.init_containers.iter().flatten().any(|container| container.name == name) {
            return format!("spec.initContainers{{{name}}}");
        }
        if spec.ephemeral_containers.iter().flatten().any(|container| container.name == name) {
            return format!("spec.ephemeralContainers{{{name}}}");
        }
    }
    format!("{IMPLICIT}{name}")
}

/// Whether the pod is in the node's network.
pub(super) fn is_on_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuberuntime::actions::testing;
    use crate::pod_text::pod_text;

    #[test]
    fn every_kind_of_container_has_its_field_path() {
        let pod = testing::base().with_init(testing::plain_init()).with_ephemeral("debug").pod;
        for (name, path) in [
            ("foo1", "spec.containers{foo1}"),
            ("init2", "spec.initContainers{init2}"),
            ("debug", "spec.ephemeralContainers{debug}"),
            ("lost", "implicitly required container lost"),
        ] {
            assert_eq!(reference(&pod, name).field_path.as_deref(), Some(path));
            assert_eq!(container_spec(&pod, name).is_some(), name != "lost", "{name}");
        }
        assert_eq!(pod_text(&pod), "foo_foo-ns(12345678)");
    }
}
