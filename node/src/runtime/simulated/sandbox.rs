//! A pod sandbox of the simulation: what it is, and how the CRI shows it.

use std::net::Ipv4Addr;

use tokio::time::Instant;

use super::clock::Clock;
use crate::cri::v1;

#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) id: String,
    /// What nobody else may be called meanwhile.
    pub(super) name: String,
    /// Ids, in the order of creation.
    pub(super) containers: Vec<String>,
    pub(super) config: v1::PodSandboxConfig,
    pub(super) runtime_handler: String,
    pub(super) created: Instant,
    pub(super) ready: bool,
    /// Gone once it is stopped; never there on the node's network.
    pub(super) address: Option<Ipv4Addr>,
    /// The address is the pool's.
    pub(super) pooled: bool,
}

impl Sandbox {
    pub(super) fn state(&self) -> v1::PodSandboxState {
        if self.ready { v1::PodSandboxState::SandboxReady } else { v1::PodSandboxState::SandboxNotready }
    }

    pub(super) fn metadata(&self) -> v1::PodSandboxMetadata {
        self.config.metadata.clone().unwrap_or_default()
    }

    pub(super) fn matches(&self, filter: &v1::PodSandboxFilter) -> bool {
        (filter.id.is_empty() || filter.id == self.id)
            && filter.state.as_ref().is_none_or(|wanted| wanted.state == i32::from(self.state()))
            && filter.label_selector.iter().all(|(key, value)| self.config.labels.get(key) == Some(value))
    }

    /// As `list_pod_sandbox` shows it.
    pub(super) fn listed(&self, clock: Clock) -> v1::PodSandbox {
        v1::PodSandbox {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state().into(),
            created_at: clock.nanos(self.created),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            runtime_handler: self.runtime_handler.clone(),
        }
    }

    /// As `pod_sandbox_status` shows it.
    pub(super) fn status(&self, clock: Clock) -> v1::PodSandboxStatus {
        v1::PodSandboxStatus {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state().into(),
            created_at: clock.nanos(self.created),
            network: Some(v1::PodSandboxNetworkStatus {
                ip: self.address.map(|address| address.to_string()).unwrap_or_default(),
                additional_ips: Vec::new(),
            }),
            linux: Some(v1::LinuxPodSandboxStatus {
                namespaces: Some(v1::Namespace { options: namespaces(&self.config).cloned() }),
            }),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            runtime_handler: self.runtime_handler.clone(),
        }
    }

    pub(super) fn attributes(&self) -> v1::PodSandboxAttributes {
        v1::PodSandboxAttributes {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
        }
    }
}

/// A sandbox on the node's network has no address of its own.
pub(super) fn is_on_host_network(config: &v1::PodSandboxConfig) -> bool {
    namespaces(config).is_some_and(|options| options.network() == v1::NamespaceMode::Node)
}

fn namespaces(config: &v1::PodSandboxConfig) -> Option<&v1::NamespaceOption> {
    config.linux.as_ref()?.security_context.as_ref()?.namespace_options.as_ref()
}
