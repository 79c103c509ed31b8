//! The one node: on a runtime in memory, or on real containers.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use prometheus::Registry;
use steersman_client::{Clients, events};
use steersman_node::agent::{Agent, Connections, Options};
use steersman_node::configuration::{CgroupDriver, KubeletConfiguration};
use steersman_node::kuberuntime::manager::garbage;
use steersman_node::runtime;
use steersman_node::runtime::simulated::{Logs, SimulatedConfig, SimulatedRuntime};
use steersman_node::volumes::Rights;

use super::Error;
use crate::node::{CONTAINER_LOG_LINKS, Runtime, hostname};
use crate::version;

/// Where the name server of pods is by convention, in the range of services.
const CLUSTER_DNS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);

/// What the node is to be.
pub(super) struct Plan<'a> {
    /// Its name; otherwise the machine's.
    pub(super) name: Option<&'a str>,
    /// The folder that is its own.
    pub(super) folder: &'a Path,
    /// The socket of a container runtime; otherwise containers are simulated.
    pub(super) endpoint: Option<&'a str>,
    /// Who makes cgroups, where the runtime does not say so.
    pub(super) cgroup_driver: CgroupDriver,
    /// PEM of those whose certificates are believed.
    pub(super) ca: &'a str,
}

impl Plan<'_> {
    /// The name.
    pub(super) fn name(&self) -> String {
        self.name.map_or_else(hostname, str::to_owned)
    }

    /// The agent, and the port that it serves.
    ///
    /// # Errors
    /// The node can't be set up.
    pub(super) fn agent(
        &self,
        clients: Clients,
        event_metrics: events::Metrics,
        registry: Registry,
    ) -> Result<(Agent, u16), Error> {
        let failed = |source| Error::Node { path: self.folder.to_owned(), source };
        fs::create_dir_all(self.folder).map_err(failed)?;
        let ca = self.folder.join("client-ca.crt");
        // Not again: a disk that has become full must not keep the node from starting.
        if !fs::read(&ca).is_ok_and(|written| written == self.ca.as_bytes()) {
            fs::write(&ca, self.ca).map_err(failed)?;
        }
        let mut configuration = match self.endpoint {
            Some(endpoint) => KubeletConfiguration {
                container_runtime_endpoint: endpoint.to_owned(),
                cgroup_driver: self.cgroup_driver,
                ..Default::default()
            },
            None => simulated(self.folder),
        };
        // The API server looks it up: another node of this machine may have the usual one.
        let port = free_port(configuration.address).map_err(Error::Port)?;
        configuration.port = port;
        configuration.healthz_port = 0;
        configuration.authentication.x509.client_ca_file = Some(ca);
        // A machine for development is taken as it is, however full it may be.
        configuration.eviction_hard.clear();
        configuration.fail_swap_on = false;
        configuration.fail_cgroup_v1 = false;
        let (runtime, node_ips, links) = match self.endpoint {
            Some(_) => (crate::node::runtime(&configuration)?, Vec::new(), CONTAINER_LOG_LINKS.into()),
            // Others need not reach a node that runs nothing.
            None => (in_memory(), vec![Ipv4Addr::LOCALHOST.into()], self.folder.join("logs/containers")),
        };
        let options = Options {
            configuration,
            node_name: self.name(),
            node_ips,
            node_labels: Default::default(),
            root_dir: self.folder.join("root"),
            cert_dir: self.folder.join("pki"),
            container_log_links: links,
            volume_rights: if self.endpoint.is_some() { Rights::All } else { Rights::Ordinary },
            // It is the machine of a developer, and not a node.
            kernel: None,
            external_cloud_provider: false,
            credential_provider_config: None,
            garbage: garbage::Policy::default(),
            kubelet_version: version::info().git_version,
            unmet_guarantees: Vec::new(),
        };
        let connections = Connections {
            clients: Some(clients),
            client_certificate: None,
            runtime: runtime.containers,
            images: runtime.images,
            runtime_metrics: runtime.metrics,
            event_metrics,
        };
        Ok((Agent::new(options, connections, registry)?, port))
    }
}

/// Of a node that needs no rights, and writes nothing outside its folder.
fn simulated(folder: &Path) -> KubeletConfiguration {
    KubeletConfiguration {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        cgroups_per_qos: false,
        enforce_node_allocatable: Vec::new(),
        pod_logs_dir: folder.join("logs/pods"),
        resolv_conf: Default::default(),
        // Nobody is there, and nobody asks; without it every pod would be warned of.
        cluster_dns: vec![CLUSTER_DNS.into()],
        cluster_domain: Some("cluster.local".to_owned()),
        ..KubeletConfiguration::default()
    }
}

fn in_memory() -> Runtime {
    let metrics = runtime::Metrics::new();
    let config =
        SimulatedConfig { logs: Logs::Written, metrics: metrics.clone(), ..SimulatedConfig::default() };
    let runtime = Arc::new(SimulatedRuntime::new(config));
    Runtime { containers: Arc::<SimulatedRuntime>::clone(&runtime), images: runtime, metrics }
}

/// A port of that address that is free now.
fn free_port(address: IpAddr) -> io::Result<u16> {
    Ok(std::net::TcpListener::bind((address, 0))?.local_addr()?.port())
}
