//! What the runtime is told of a pod's sandbox.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::net::Ipv6Addr;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec};

use super::container_config::{
    NodeFacts, namespaces, sandbox_overhead, sandbox_resources,
    security_context::{pod_context, selinux_options, supplemental_groups_policy},
};
use super::labels::{new_pod_annotations, new_pod_labels};
use crate::admission::sysctl::normal;
use crate::cri::v1;

/// What a kernel takes as the machine's name.
const MAX_FQDN: usize = 64;

/// What a sandbox's configuration depends on besides the pod.
#[derive(Clone, Copy, Debug)]
pub struct SandboxInputs<'a> {
    /// The DNS settings of the pod.
    pub dns: &'a v1::DnsConfig,
    /// The pod's host name.
    pub hostname: &'a str,
    /// Its domain, or empty.
    pub domain: &'a str,
    /// The pod's cgroup as the runtime is told it; empty for none.
    pub cgroup_parent: &'a str,
    /// The folder of the pod's logs, on which its containers' log paths stand.
    pub log_directory: &'a str,
    /// Groups that volumes add.
    pub extra_supplemental_groups: &'a [i64],
    /// The node.
    pub node: &'a NodeFacts,
}

/// The configuration of the pod's sandbox number `attempt`, from 0.
///
/// # Errors
/// What of the pod can't be had, in words for the event.
pub fn pod_sandbox_config(
    pod: &Pod,
    attempt: u32,
    inputs: &SandboxInputs<'_>,
) -> Result<v1::PodSandboxConfig, String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let on_host_network = spec.and_then(|spec| spec.host_network) == Some(true);
    Ok(v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: text(&pod.metadata.name),
            uid: text(&pod.metadata.uid),
            namespace: text(&pod.metadata.namespace),
            attempt,
        }),
        hostname: if on_host_network { String::new() } else { kernel_hostname(pod, inputs)? },
        log_directory: inputs.log_directory.to_owned(),
        dns_config: Some(inputs.dns.clone()),
        port_mappings: spec.map(port_mappings).unwrap_or_default(),
        labels: new_pod_labels(pod),
        annotations: new_pod_annotations(pod),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent: inputs.cgroup_parent.to_owned(),
            security_context: Some(linux_security_context(pod, inputs)?),
            sysctls: pod_context(pod)
                .and_then(|context| context.sysctls.as_ref())
                .into_iter()
                .flatten()
                // The only form in which runc tells which namespace a setting is of.
                .map(|sysctl| (normal(&sysctl.name), sysctl.value.clone()))
                .collect(),
            overhead: Some(sandbox_overhead(pod, inputs.node)),
            resources: Some(sandbox_resources(pod, inputs.node)),
        }),
        windows: None,
    })
}

/// The host name, or the whole domain name where the pod wants that.
fn kernel_hostname(pod: &Pod, inputs: &SandboxInputs<'_>) -> Result<String, String> {
    let SandboxInputs { hostname, domain, .. } = inputs;
    let whole = pod.spec.as_ref().and_then(|spec| spec.set_hostname_as_fqdn) == Some(true);
    if domain.is_empty() || !whole {
        return Ok((*hostname).to_owned());
    }
    let fqdn = format!("{hostname}.{domain}");
    let length = fqdn.len();
    if length > MAX_FQDN {
        return Err(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long ({MAX_FQDN} characters is the max, {length} characters requested)"
        ));
    }
    Ok(fqdn)
}

/// All ports of ordinary containers; those without a port of the host too, which the runtime passes over.
fn port_mappings(spec: &PodSpec) -> Vec<v1::PortMapping> {
    spec.containers.iter().flat_map(ports_of).collect()
}

/// Each port of the container once: by its name, or by everything about it.
fn ports_of(container: &Container) -> Vec<v1::PortMapping> {
    let mut seen = HashSet::new();
    container.ports.iter().flatten().filter(|port| seen.insert(port_key(port))).map(port_mapping).collect()
}

fn port_key(port: &ContainerPort) -> String {
    if let Some(name) = port.name.as_ref().filter(|name| !name.is_empty()) {
        return name.clone();
    }
    let host_ip = port.host_ip.as_deref().unwrap_or_default();
    let family = match host_ip {
        "" => "any",
        ip if ip.parse::<Ipv6Addr>().is_ok() => "v6",
        _ => "v4",
    };
    let protocol = port.protocol.as_deref().unwrap_or_default();
    let host_port = port.host_port.unwrap_or_default();
    format!("{family}-{protocol}-{host_ip}:{}:{host_port}", port.container_port)
}

fn port_mapping(port: &ContainerPort) -> v1::PortMapping {
    let protocol =
        port.protocol.as_deref().and_then(v1::Protocol::from_str_name).unwrap_or(v1::Protocol::Tcp);
    v1::PortMapping {
        protocol: protocol as i32,
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or_default(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    }
}

/// A pod without a security context is as one with an empty one, which the API server gives every pod.
fn linux_security_context(
    pod: &Pod,
    inputs: &SandboxInputs<'_>,
) -> Result<v1::LinuxSandboxSecurityContext, String> {
    let of_pod = pod_context(pod);
    let of_pod_id = |id: Option<i64>| id.map(|value| v1::Int64Value { value });
    let groups = of_pod.and_then(|of_pod| of_pod.fs_group).into_iter();
    let groups = groups.chain(inputs.extra_supplemental_groups.iter().copied());
    let own_groups = of_pod.and_then(|of_pod| of_pod.supplemental_groups.as_ref()).into_iter().flatten();
    Ok(v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces::of_pod(pod)?),
        selinux_options: of_pod.and_then(|of_pod| of_pod.se_linux_options.as_ref()).map(selinux_options),
        run_as_user: of_pod_id(of_pod.and_then(|of_pod| of_pod.run_as_user)),
        run_as_group: of_pod_id(of_pod.and_then(|of_pod| of_pod.run_as_group)),
        supplemental_groups: groups.chain(own_groups.copied()).collect(),
        supplemental_groups_policy: supplemental_groups_policy(of_pod)
            .map_err(|policy| format!("unsupported supplementalGroupsPolicy: {policy}"))?,
        privileged: pod.spec.as_ref().is_some_and(has_privileged_container),
        // What holds the sandbox needs no more than the least, whatever the containers need.
        seccomp: Some(v1::SecurityProfile {
            profile_type: v1::security_profile::ProfileType::RuntimeDefault as i32,
            localhost_ref: String::new(),
        }),
        ..v1::LinuxSandboxSecurityContext::default()
    })
}

fn has_privileged_container(spec: &PodSpec) -> bool {
    let own = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let own = own.map(|container| container.security_context.as_ref());
    let ephemeral =
        spec.ephemeral_containers.iter().flatten().map(|container| container.security_context.as_ref());
    own.chain(ephemeral).flatten().any(|context| context.privileged == Some(true))
}
