//! What an agent is told.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use steersman_client::{Clients, Limits, events};

use crate::client_certificate::ClientCertificate;
use crate::configuration::KubeletConfiguration;
use crate::kernel::Kernel;
use crate::kuberuntime::manager::garbage;
use crate::runtime::{self, ImageService, RuntimeService};
use crate::volumes;

/// What one node's agent is told: the configuration, which may hold for many nodes, and what only its flags say.
#[derive(Debug, Clone)]
pub struct Options {
    /// The configuration.
    pub configuration: KubeletConfiguration,
    /// The node's name, and what its label `kubernetes.io/hostname` says: `--hostname-override`, else the machine's, in
    /// lower case.
    pub node_name: String,
    /// `--node-ip`; none to choose. Of the loopback only where the server listens there.
    pub node_ips: Vec<IpAddr>,
    /// `--node-labels`.
    pub node_labels: BTreeMap<String, String>,
    /// `--root-dir`. Default: `/var/lib/kubelet`.
    pub root_dir: PathBuf,
    /// `--cert-dir`: where the server's own certificate is kept. Default: `/var/lib/kubelet/pki`.
    pub cert_dir: PathBuf,
    /// Where links to the logs of all containers are made, for collectors of the old way. Default: `/var/log/containers`.
    pub container_log_links: PathBuf,
    /// What may be done for volumes: all, but where containers are simulated.
    pub volume_rights: volumes::Rights,
    /// Through what the kernel is set up as nodes need it: sysctls and iptables chains. `None` leaves the kernel alone, for
    /// nodes whose containers are simulated and for clusters on somebody's own machine.
    pub kernel: Option<Kernel>,
    /// `--cloud-provider=external`: a cloud's own controller completes the node.
    pub external_cloud_provider: bool,
    /// `--image-credential-provider-config`: refused where set.
    pub credential_provider_config: Option<PathBuf>,
    /// What is kept of dead containers. Default: the newest of each.
    pub garbage: garbage::Policy,
    /// The version that the node says it has, such as `v1.36.3`.
    pub kubelet_version: String,
    /// Settings whose guarantees this version does not give ([`Loaded::unmet_guarantees`]): events on the Node tell them.
    ///
    /// [`Loaded::unmet_guarantees`]: crate::configuration::Loaded::unmet_guarantees
    pub unmet_guarantees: Vec<String>,
}

/// Whom an agent talks to.
#[derive(Clone)]
pub struct Connections {
    /// The API server; absent for a node that runs the pods of its manifests alone.
    pub clients: Option<Clients>,
    /// The client certificate that those use, if they use one: warnings come before it expires.
    pub client_certificate: Option<ClientCertificate>,
    /// The container runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// The container runtime's images.
    pub images: Arc<dyn ImageService>,
    /// Where calls to the runtime are counted.
    pub runtime_metrics: runtime::Metrics,
    /// Where events are counted. Not registered by the agent: others may count into the same families.
    pub event_metrics: events::Metrics,
}

/// A number of whole requests a second; zero means none are limited.
pub(super) fn limits(qps: u32, burst: u32) -> Limits {
    #[expect(clippy::cast_precision_loss, reason = "nobody asks millions of times a second")]
    Limits::new(qps as f32, burst)
}
