//! What a runtime tells, in the terms of [`crate::container`]. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use arcstr::ArcStr;
use jiff::Timestamp;
use steersman_api::Uid;

use crate::cgroups::cpu::{milli_cpu_of_quota, milli_cpu_of_shares};
use crate::container::{
    ContainerId, ContainerResources, ContainerState, ContainerStatus, LinuxContainerUser, NamespaceMode,
    RuntimeContainer, RuntimePod, RuntimeSandbox, SandboxNetwork, SandboxState, SandboxStatus,
};
use crate::cri::v1;
use crate::kuberuntime::labels::{AnnotatedInfo, LabelledInfo};

/// The pods that these lists show, each with its sandboxes and containers, the newest first. What has no label of a pod is
/// somebody else's and left out.
pub(super) fn group(
    runtime: &ArcStr,
    mut sandboxes: Vec<v1::PodSandbox>,
    mut containers: Vec<v1::Container>,
) -> Vec<RuntimePod> {
    sandboxes.sort_by(|one, other| {
        let key = |of: &v1::PodSandbox| (Reverse(attempt(of)), Reverse(of.created_at));
        key(one).cmp(&key(other)).then_with(|| one.id.cmp(&other.id))
    });
    containers.sort_by(|one, other| {
        let attempt = |of: &v1::Container| of.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        let key = |of: &v1::Container| (Reverse(of.created_at), Reverse(attempt(of)));
        key(one).cmp(&key(other)).then_with(|| one.id.cmp(&other.id))
    });
    let mut pods = BTreeMap::new();
    for sandbox in sandboxes {
        if let Some(pod) = pod_of(&mut pods, &sandbox.labels) {
            pod.sandboxes.push(RuntimeSandbox {
                state: sandbox_state(sandbox.state),
                created_at: timestamp(sandbox.created_at),
                id: sandbox.id,
            });
        }
    }
    for container in containers {
        if let Some(pod) = pod_of(&mut pods, &container.labels) {
            pod.containers.push(listed_container(runtime, container));
        }
    }
    pods.into_values().collect()
}

fn attempt(sandbox: &v1::PodSandbox) -> u32 {
    sandbox.metadata.as_ref().map_or(0, |metadata| metadata.attempt)
}

fn pod_of<'a>(
    pods: &'a mut BTreeMap<Uid, RuntimePod>,
    labels: &BTreeMap<String, String>,
) -> Option<&'a mut RuntimePod> {
    let info = LabelledInfo::from_labels(labels);
    if info.pod_uid.is_empty() {
        return None;
    }
    Some(pods.entry(info.pod_uid.clone()).or_insert_with(|| RuntimePod {
        uid: info.pod_uid,
        name: info.pod_name,
        namespace: info.pod_namespace,
        containers: Vec::new(),
        sandboxes: Vec::new(),
    }))
}

fn listed_container(runtime: &ArcStr, container: v1::Container) -> RuntimeContainer {
    RuntimeContainer {
        id: ContainerId::new(runtime.clone(), container.id),
        name: container.metadata.map(|metadata| metadata.name).unwrap_or_default(),
        image: container.image.map(|image| image.image).unwrap_or_default(),
        image_id: image_id(container.image_id, &container.image_ref),
        hash: AnnotatedInfo::from_annotations(&container.annotations).hash,
        state: container_state(container.state),
        sandbox_id: container.pod_sandbox_id,
        created_at: timestamp(container.created_at),
    }
}

/// Runtimes of before 2023 tell an image's reference only.
fn image_id(id: String, reference: &str) -> String {
    if id.is_empty() { reference.to_owned() } else { id }
}

/// A sandbox, inspected.
pub(super) fn sandbox_status(status: v1::PodSandboxStatus) -> SandboxStatus {
    let namespaces = status.linux.and_then(|linux| linux.namespaces).and_then(|of| of.options);
    SandboxStatus {
        state: sandbox_state(status.state),
        attempt: status.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        created_at: timestamp(status.created_at),
        network_mode: namespaces.map_or(NamespaceMode::Pod, |options| match options.network() {
            v1::NamespaceMode::Pod => NamespaceMode::Pod,
            v1::NamespaceMode::Container => NamespaceMode::Container,
            v1::NamespaceMode::Node => NamespaceMode::Node,
            v1::NamespaceMode::Target => NamespaceMode::Target,
        }),
        network: status.network.map(|network| SandboxNetwork {
            ip: network.ip,
            additional_ips: network.additional_ips.into_iter().map(|ip| ip.ip).collect(),
        }),
        runtime_handler: status.runtime_handler,
        id: status.id,
    }
}

/// The addresses of a sandbox in their usual form, the first one first. None at all where one of them does not read, as it
/// is not known then which is missing.
pub(super) fn sandbox_ips(sandbox: &SandboxStatus) -> Vec<String> {
    let Some(network) = &sandbox.network else { return Vec::new() };
    let told = Some(&network.ip).filter(|ip| !ip.is_empty()).into_iter().chain(&network.additional_ips);
    let read: Option<Vec<String>> = told.map(|ip| Some(parse_ip(ip)?.to_string())).collect();
    if read.is_none() {
        tracing::info!(sandbox = sandbox.id, ?network, "a sandbox has an address that does not read");
    }
    read.unwrap_or_default()
}

/// Reads an address; as upstream, leading zeros in an IPv4 one mean nothing.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    let bytes: Vec<u8> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into())
}

/// A container, inspected, but for its termination message.
pub(super) fn container_status(
    runtime: &ArcStr,
    sandbox_id: &str,
    status: &v1::ContainerStatus,
) -> ContainerStatus {
    let (labelled, annotated) =
        (LabelledInfo::from_labels(&status.labels), AnnotatedInfo::from_annotations(&status.annotations));
    let state = container_state(status.state);
    let exited = state == ContainerState::Exited;
    let stamp = |nanos: i64| Some(nanos).filter(|nanos| *nanos > 0).map(timestamp);
    let when_exited = |text: &str| if exited { text.to_owned() } else { String::new() };
    let user = status.user.as_ref().and_then(|user| user.linux.as_ref());
    ContainerStatus {
        id: ContainerId::new(runtime.clone(), status.id.clone()),
        name: labelled.container_name,
        sandbox_id: sandbox_id.to_owned(),
        state,
        created_at: timestamp(status.created_at),
        started_at: stamp(status.started_at).filter(|_| state != ContainerState::Created),
        finished_at: if exited { Some(timestamp(status.finished_at)) } else { None },
        exit_code: if exited { status.exit_code } else { 0 },
        image: status.image.as_ref().map(|image| image.image.clone()).unwrap_or_default(),
        image_id: image_id(status.image_id.clone(), &status.image_ref),
        image_ref: status.image_ref.clone(),
        hash: annotated.hash,
        restart_count: annotated.restart_count,
        reason: when_exited(&status.reason),
        message: when_exited(&status.message),
        resources: status.resources.as_ref().and_then(|told| told.linux.as_ref()).and_then(resources_of),
        user: user.map(|user| LinuxContainerUser {
            uid: user.uid,
            gid: user.gid,
            supplemental_groups: user.supplemental_groups.clone(),
        }),
        stop_signal: match status.stop_signal() {
            v1::Signal::RuntimeDefault => None,
            signal => Some(signal.as_str_name().to_owned()),
        },
    }
}

/// What a container was given, as far as its control groups show; requests of memory do not show there.
pub(super) fn resources_of(linux: &v1::LinuxContainerResources) -> Option<ContainerResources> {
    let positive = |value: i64| Some(value).filter(|value| *value > 0);
    let shares = u64::try_from(linux.cpu_shares).unwrap_or_default();
    let found = ContainerResources {
        cpu_limit_milli: positive(milli_cpu_of_quota(linux.cpu_quota, linux.cpu_period)),
        cpu_request_milli: positive(milli_cpu_of_shares(shares)),
        memory_limit: positive(linux.memory_limit_in_bytes),
        memory_request: None,
    };
    (found != ContainerResources::default()).then_some(found)
}

pub(super) fn container_state(state: i32) -> ContainerState {
    match v1::ContainerState::try_from(state) {
        Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(v1::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(v1::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}

pub(super) fn sandbox_state(state: i32) -> SandboxState {
    match v1::PodSandboxState::try_from(state) {
        Ok(v1::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(v1::PodSandboxState::SandboxNotready) | Err(_) => SandboxState::NotReady,
    }
}

/// Of nanoseconds since 1970.
pub(super) fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuberuntime::labels;

    fn labelled(uid: &str) -> BTreeMap<String, String> {
        [(labels::POD_UID, uid), (labels::POD_NAME, "web"), (labels::POD_NAMESPACE, "shop")]
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into()
    }

    fn sandbox(id: &str, uid: &str, attempt: u32, created_at: i64) -> v1::PodSandbox {
        v1::PodSandbox {
            id: id.into(),
            metadata: Some(v1::PodSandboxMetadata { attempt, ..Default::default() }),
            labels: labelled(uid),
            created_at,
            ..Default::default()
        }
    }

    fn container(id: &str, uid: &str, attempt: u32, created_at: i64) -> v1::Container {
        v1::Container {
            id: id.into(),
            metadata: Some(v1::ContainerMetadata { name: "app".into(), attempt }),
            labels: labelled(uid),
            created_at,
            ..Default::default()
        }
    }

    #[test]
    fn lists_are_grouped_by_pod_with_the_newest_first() {
        let sandboxes = vec![
            sandbox("s1", "u1", 0, 5),
            sandbox("s3", "u1", 1, 5),
            sandbox("s2", "u2", 0, 9),
            sandbox("s4", "u1", 0, 7),
            v1::PodSandbox { id: "foreign".into(), ..Default::default() },
        ];
        let containers = vec![
            container("c1", "u1", 0, 5),
            container("c2", "u1", 1, 5),
            container("c3", "u1", 2, 8),
            container("lone", "u3", 0, 1),
            v1::Container { id: "foreign".into(), ..Default::default() },
        ];
        let pods = group(&ArcStr::from("test"), sandboxes, containers);
        let ids: Vec<(String, Vec<&str>)> =
            pods.iter().map(|pod| (pod.uid.to_string(), pod.ids().collect())).collect();
        assert_eq!(
            ids,
            [
                ("u1".to_owned(), vec!["c3", "c2", "c1", "s3", "s4", "s1"]),
                ("u2".to_owned(), vec!["s2"]),
                ("u3".to_owned(), vec!["lone"]),
            ]
        );
        assert_eq!((pods[0].name.as_str(), pods[0].namespace.as_str()), ("web", "shop"));
        assert_eq!(pods[0].containers[0].name, "app");
    }

    #[test]
    fn addresses_have_their_usual_form_or_are_not_told_at_all() {
        let with = |ip: &str, more: &[&str]| {
            let network = SandboxNetwork {
                ip: ip.into(),
                additional_ips: more.iter().map(|ip| (*ip).to_owned()).collect(),
            };
            sandbox_ips(&SandboxStatus {
                network: Some(network),
                ..crate::kuberuntime::actions::testing::sandbox("s", 0)
            })
        };
        assert_eq!(with("10.0.0.1", &["FD00:0:0::1"]), ["10.0.0.1", "fd00::1"]);
        assert_eq!(with("010.000.0.1", &[]), ["10.0.0.1"]);
        assert_eq!(with("", &["fd00::1"]), ["fd00::1"]);
        assert_eq!(with("", &[]), [""; 0]);
        for (ip, more) in [("here", &[][..]), ("10.0.0.1", &["there"]), ("10.0.0", &[]), ("10.0.0.256", &[])]
        {
            assert_eq!(with(ip, more), [""; 0], "{ip} {more:?}");
        }
    }

    #[test]
    fn a_container_tells_of_its_end_only_once_it_has_ended() {
        let told = |state: v1::ContainerState| v1::ContainerStatus {
            id: "c".into(),
            state: state.into(),
            created_at: 1_000_000_000,
            started_at: 2_000_000_000,
            finished_at: 3_000_000_000,
            exit_code: 3,
            reason: "Error".into(),
            message: "said".into(),
            stop_signal: v1::Signal::Sigusr1.into(),
            ..Default::default()
        };
        let read = |state| container_status(&ArcStr::from("test"), "s", &told(state));
        let second = |second| Timestamp::from_second(second).ok();
        let exited = read(v1::ContainerState::ContainerExited);
        assert_eq!((exited.exit_code, exited.reason.as_str(), exited.message.as_str()), (3, "Error", "said"));
        assert_eq!((exited.started_at, exited.finished_at), (second(2), second(3)));
        assert_eq!(exited.stop_signal.as_deref(), Some("SIGUSR1"));
        let running = read(v1::ContainerState::ContainerRunning);
        assert_eq!((running.exit_code, running.reason.as_str(), running.finished_at), (0, "", None));
        assert_eq!(running.started_at, second(2));
        assert_eq!(read(v1::ContainerState::ContainerCreated).started_at, None);
    }

    #[test]
    fn control_groups_tell_what_a_container_was_given() {
        let read = |linux: v1::LinuxContainerResources| resources_of(&linux);
        let given = v1::LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: 150_000,
            cpu_shares: 256,
            memory_limit_in_bytes: 4096,
            ..Default::default()
        };
        let found = ContainerResources {
            cpu_limit_milli: Some(1500),
            cpu_request_milli: Some(250),
            memory_limit: Some(4096),
            memory_request: None,
        };
        assert_eq!(read(given), Some(found));
        let unlimited =
            v1::LinuxContainerResources { cpu_period: 100_000, cpu_quota: -1, ..Default::default() };
        assert_eq!(read(unlimited), None);
    }
}
