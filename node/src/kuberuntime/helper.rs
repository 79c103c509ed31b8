//! What kuberuntime asks of the rest of the node about a pod.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::cri::v1;

/// The node's part in making sandboxes and containers (`RuntimeHelper` upstream).
#[async_trait]
pub trait RuntimeHelper: Send + Sync + 'static {
    /// The DNS settings of the pod's sandbox.
    ///
    /// # Errors
    /// In words, for the event.
    async fn pod_dns(&self, pod: &Pod) -> Result<v1::DnsConfig, String>;

    /// The pod's host name, and its domain name or an empty text.
    ///
    /// # Errors
    /// In words: the host name is too long, and the like.
    fn hostname_and_domain(&self, pod: &Pod) -> Result<(String, String), String>;

    /// The cgroup of the pod as the runtime is told it.
    fn cgroup_parent(&self, pod: &Pod) -> String;

    /// Groups that mounted volumes add to all containers of the pod.
    fn extra_supplemental_groups(&self, pod: &Pod) -> Vec<i64>;

    /// What a container is run with. `pod_ips` are those of the sandbox, the first one first; none for the host's network.
    ///
    /// # Errors
    /// In words, for the waiting state `CreateContainerConfigError`.
    async fn container_options(
        &self,
        pod: &Pod,
        container: &Container,
        pod_ips: &[String],
    ) -> Result<ContainerOptions, String>;

    /// The name of the runtime's handler that the pod's runtime class asks for; empty for the runtime's own choice.
    ///
    /// # Errors
    /// In words, for the event. By default every class is refused.
    async fn runtime_handler(&self, pod: &Pod) -> Result<String, String> {
        let class = pod.spec.as_ref().and_then(|spec| spec.runtime_class_name.as_deref());
        match class.filter(|class| !class.is_empty()) {
            None => Ok(String::new()),
            Some(class) => Err(format!("RuntimeClass {class:?} is not supported by this node")),
        }
    }
}

/// What a container is run with that its spec alone does not say (`RunContainerOptions` upstream).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerOptions {
    /// Its environment, in order; each name once.
    pub env: Vec<(String, String)>,
    /// Its mounts: volumes and `/etc/hosts`. The termination message is not among them.
    pub mounts: Vec<v1::Mount>,
    /// Devices of the node.
    pub devices: Vec<v1::Device>,
    /// Annotations for the runtime.
    pub annotations: BTreeMap<String, String>,
}
