//! What the runtime is told of a container.
//!
//! Pure: everything that must be looked up, made or asked is among the inputs.

mod error;
mod linux_resources;
pub(super) mod namespaces;
pub mod node_facts;
mod oom_score;
mod profiles;
pub(super) mod security_context;
mod stop_signal;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};

pub use crate::cgroups::CgroupVersion;
pub use error::ConfigError;
pub use linux_resources::container_resources;
pub(crate) use linux_resources::{sandbox_overhead, sandbox_resources};
pub use node_facts::NodeFacts;

use super::helper::ContainerOptions;
use super::labels::{new_container_annotations, new_container_labels};
use super::log_path::container_log_path;
use super::resource_claims;
use crate::cri::v1;
use crate::environment::expansion::expand;

/// What a container's configuration depends on besides its spec.
#[derive(Clone, Copy, Debug)]
pub struct ContainerInputs<'a> {
    /// The image as the runtime named it when it was pulled or found.
    pub image_ref: &'a str,
    /// How many containers of this name the pod had before.
    pub restart_count: u32,
    /// Environment, mounts, devices and annotations.
    pub options: &'a ContainerOptions,
    /// As whom the image wants to run.
    pub image_user: &'a ImageUser,
    /// The id of the container whose processes this one is to see: that an ephemeral container was aimed at.
    pub target_container: Option<&'a str>,
    /// The file for the termination message, where there is to be one: mounted at the path that the spec says.
    pub termination_message: Option<&'a Path>,
    /// Groups that volumes add.
    pub extra_supplemental_groups: &'a [i64],
    /// The node.
    pub node: &'a NodeFacts,
}

/// As whom an image wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    /// This id.
    Id(i64),
    /// A name that only the image's own files resolve.
    Name(String),
}

impl ImageUser {
    /// What the runtime tells of an image; root where it tells nothing.
    pub fn of(image: Option<&v1::Image>) -> Self {
        match image {
            Some(v1::Image { uid: Some(uid), .. }) => Self::Id(uid.value),
            Some(image) if !image.username.is_empty() => Self::Name(image.username.clone()),
            _ => Self::Id(0),
        }
    }
}

/// The configuration of `container`, one of the pod's ordinary, init or ephemeral containers (as an ordinary one).
///
/// # Errors
/// The spec contradicts itself, or the image.
pub fn container_config(
    pod: &Pod,
    container: &Container,
    inputs: &ContainerInputs<'_>,
) -> Result<v1::ContainerConfig, ConfigError> {
    security_context::verify_run_as_non_root(pod, container, inputs.image_user)?;
    if let Some(why) = resource_claims::refusal_of_container(pod, container) {
        return Err(ConfigError::ResourceClaim(why));
    }
    let options = inputs.options;
    let env: HashMap<&str, &str> =
        options.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expanded = |texts: &Option<Vec<String>>| -> Vec<String> {
        texts.iter().flatten().map(|text| expand(text, |name| env.get(name))).collect()
    };
    let restarts = inputs.restart_count;
    Ok(v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: container.name.clone(), attempt: restarts }),
        image: Some(v1::ImageSpec {
            image: inputs.image_ref.to_owned(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..v1::ImageSpec::default()
        }),
        command: expanded(&container.command),
        args: expanded(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: options.env.iter().map(|(name, value)| variable(name, value)).collect(),
        mounts: mounts(container, inputs),
        devices: options.devices.clone(),
        labels: new_container_labels(container, pod),
        annotations: new_container_annotations(container, pod, restarts, options.annotations.clone()),
        log_path: container_log_path(&container.name, restarts),
        stdin: container.stdin.unwrap_or_default(),
        stdin_once: container.stdin_once.unwrap_or_default(),
        tty: container.tty.unwrap_or_default(),
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(container_resources(pod, container, inputs.node)),
            security_context: Some(security_context::linux_security_context(pod, container, inputs)?),
        }),
        windows: None,
        // Containers that use claimed devices were refused above.
        cdi_devices: Vec::new(),
        stop_signal: stop_signal::of(container) as i32,
    })
}

fn variable(name: &str, value: &str) -> v1::KeyValue {
    v1::KeyValue { key: name.to_owned(), value: value.as_bytes().to_vec() }
}

fn mounts(container: &Container, inputs: &ContainerInputs<'_>) -> Vec<v1::Mount> {
    let mut mounts = inputs.options.mounts.clone();
    for mount in &mut mounts {
        mount.selinux_relabel &= inputs.node.selinux;
    }
    let path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    if let (Some(file), Some(path)) = (inputs.termination_message, path) {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        mounts.push(v1::Mount {
            container_path: path,
            host_path: file.to_string_lossy().into_owned(),
            selinux_relabel: inputs.node.selinux,
            ..v1::Mount::default()
        });
    }
    mounts
}
