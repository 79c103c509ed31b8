//! What a pod's sandbox and containers are run with.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Secret};
use steersman_api::Uid;

use super::dns::{Complaint, DnsSettings, pod_dns};
use super::env::{EnvInputs, Referred, environment};
use super::env_file::{EnvFiles, refers_to_files};
use super::hostname::hostname_and_domain;
use super::hosts::{host_network_hosts, managed_hosts, write_hosts};
use super::mounts::{ETC_HOSTS, MountInputs, has_own_hosts, mounts, refuse_devices};
use super::resolv_conf::{ResolvConf, check_limits};
use super::service_env::{MASTER_NAMESPACE, service_env};
use crate::blocking::blocking;
use crate::cgroups::PodCgroups;
use crate::cri::v1;
use crate::downward::PodAddresses;
use crate::events::{EventType, Events, pod_reference};
use crate::kuberuntime::helper::{ContainerOptions, RuntimeHelper};
use crate::machine::Family;
use crate::node_info::NodeInfo;
use crate::objects::{Objects, Services};
use crate::pod_config::is_static_pod;
use crate::root_dir::RootDir;
use crate::volumes::MountedVolumes;

/// The parts of the node that pods' environments are made of.
#[derive(Clone)]
pub struct Parts {
    /// Config maps and secrets. Pods are registered there by who syncs them.
    pub objects: Arc<dyn Objects>,
    /// Services.
    pub services: Arc<dyn Services>,
    /// Volumes.
    pub volumes: Arc<dyn MountedVolumes>,
    /// Control groups.
    pub cgroups: Arc<dyn PodCgroups>,
    /// The node itself.
    pub node: Arc<dyn NodeInfo>,
    /// Where warnings go.
    pub events: Events,
    /// Where pods' hosts files are kept. A pod's folder is made by who syncs it.
    pub root: RootDir,
}

/// How pods are told of the world around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How they resolve names.
    pub dns: DnsSettings,
    /// The node's own hosts file, for pods in its network. Default: `/etc/hosts`.
    pub node_hosts: PathBuf,
    /// The family of which a pod's first address is. Default: version 4.
    pub ip_family: Family,
}

impl Default for Settings {
    fn default() -> Self {
        Self { dns: DnsSettings::default(), node_hosts: ETC_HOSTS.into(), ip_family: Family::V4 }
    }
}

/// Makes what pods' sandboxes and containers are run with. Any number of callers at a time; nothing is remembered of a pod.
#[derive(Clone)]
pub struct PodEnvironment(Arc<Shared>);

struct Shared {
    parts: Parts,
    settings: Settings,
    /// Whether the runtime's default handler can make mounts read-only with all in them.
    recursive_read_only: AtomicBool,
}

impl PodEnvironment {
    /// Over these parts.
    pub fn new(parts: Parts, settings: Settings) -> Self {
        Self(Arc::new(Shared { parts, settings, recursive_read_only: AtomicBool::new(false) }))
    }

    /// Whether the runtime's default handler can make mounts read-only with all that is mounted in them, as its status
    /// says; until this is called it can't.
    pub fn set_recursive_read_only(&self, supported: bool) {
        self.0.recursive_read_only.store(supported, Ordering::Relaxed);
    }

    /// Tells an event of the node if its `resolv.conf` has more to search than pods can be given. To be called at the start
    /// and now and then (upstream: every 30 s).
    pub async fn check_resolv_conf(&self) {
        let shared = Arc::clone(&self.0);
        if let Some(message) = blocking(move || check_limits(&shared.settings.dns)).await {
            let node = self.0.node_reference();
            self.0.parts.events.event(&node, EventType::Warning, "CheckLimitsForResolvConf", &message);
        }
    }

    /// The pull secrets of a pod (`imagePullSecrets`). Those that can't be had are left out, and told by an event.
    pub async fn pull_secrets(&self, pod: &Pod) -> Vec<Secret> {
        let Parts { objects, events, .. } = &self.0.parts;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let (mut secrets, mut failed) = (Vec::new(), Vec::new());
        let references = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
        // The API server lets references without a name pass.
        for reference in references.filter(|reference| !reference.name.is_empty()) {
            match objects.secret(namespace, &reference.name).await {
                Ok(secret) => secrets.push(Secret::clone(&secret)),
                Err(error) => {
                    tracing::info!(namespace, secret = reference.name, %error, "Unable to retrieve a pull secret");
                    failed.push(reference.name.as_str());
                }
            }
        }
        if !failed.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                failed.join(", ")
            );
            let pod = pod_reference(pod);
            events.event(&pod, EventType::Warning, "FailedToRetrieveImagePullSecret", &message);
        }
        secrets
    }
}

#[async_trait]
impl RuntimeHelper for PodEnvironment {
    async fn pod_dns(&self, pod: &Pod) -> Result<v1::DnsConfig, String> {
        let shared = Arc::clone(&self.0);
        let read = blocking(move || ResolvConf::of_node(shared.settings.dns.resolv_conf.as_deref())).await;
        let host = read.map_err(|error| error.to_string())?;
        let Parts { node, events, .. } = &self.0.parts;
        let (dns, complaints) = pod_dns(pod, host, &self.0.settings.dns, &node.host_ips());
        for complaint in complaints {
            let (involved, reason, message) = match complaint {
                Complaint::OfPod(reason, message) => (pod_reference(pod), reason, message),
                Complaint::OfNode(reason, message) => (self.0.node_reference(), reason, message),
            };
            events.event(&involved, EventType::Warning, reason, &message);
        }
        Ok(dns)
    }

    fn hostname_and_domain(&self, pod: &Pod) -> Result<(String, String), String> {
        hostname_and_domain(pod, &self.0.settings.dns.cluster_domain)
    }

    fn cgroup_parent(&self, pod: &Pod) -> String {
        self.0.parts.cgroups.parent_of(pod)
    }

    /// The groups that annotations of mounted persistent volumes name, and the pod does not.
    fn extra_supplemental_groups(&self, pod: &Pod) -> Vec<i64> {
        let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let own = context.and_then(|context| context.supplemental_groups.as_deref()).unwrap_or_default();
        self.0.parts.volumes.groups(&uid(pod)).into_iter().filter(|group| !own.contains(group)).collect()
    }

    async fn container_options(
        &self,
        pod: &Pod,
        container: &Container,
        pod_ips: &[String],
    ) -> Result<ContainerOptions, String> {
        refuse_devices(container)?;
        // In the host's network a pod has the node's addresses.
        let host_network = is_host_network(pod);
        let pod_ips =
            if host_network && pod_ips.is_empty() { self.0.parts.node.host_ips() } else { pod_ips.to_vec() };
        let env = self.0.env(pod, container, &pod_ips).await?;
        let (shared, pod, container) = (Arc::clone(&self.0), pod.clone(), container.clone());
        let (env, mounts) = blocking(move || {
            let mounts = shared.mounts(&pod, &container, &env, &pod_ips)?;
            Ok::<_, String>((env, mounts))
        })
        .await?;
        Ok(ContainerOptions { env, mounts, ..ContainerOptions::default() })
    }
}

impl Shared {
    async fn env(
        &self,
        pod: &Pod,
        container: &Container,
        pod_ips: &[String],
    ) -> Result<Vec<(String, String)>, String> {
        let Parts { objects, services, node, .. } = &self.parts;
        // Services come after pods when a node starts; a pod without the API server's address could not go on.
        if !is_static_pod(pod) && !services.synced() {
            return Err("services have not yet been read at least once, cannot construct envvars".to_owned());
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
        let mut told = services.of_namespace(MASTER_NAMESPACE);
        if namespace != MASTER_NAMESPACE && links {
            told.extend(services.of_namespace(namespace));
        }
        let services = service_env(told.iter().map(AsRef::as_ref), namespace, links);
        let objects = Referred::get(objects.as_ref(), namespace, container).await;
        let files = match refers_to_files(container) {
            false => EnvFiles::default(),
            true => {
                let (container, volumes) = (container.clone(), self.parts.volumes.mounted(&uid(pod)));
                blocking(move || EnvFiles::read(&container, &volumes)).await
            }
        };
        let inputs = EnvInputs {
            services: &services,
            objects: &objects,
            files: &files,
            addresses: &PodAddresses::new(pod_ips, &node.host_ips(), self.settings.ip_family),
            allocatable: &node.allocatable(),
        };
        environment(pod, container, &inputs)
    }

    /// The container's mounts, and the hosts file as it has to be. Blocking.
    fn mounts(
        &self,
        pod: &Pod,
        container: &Container,
        env: &[(String, String)],
        pod_ips: &[String],
    ) -> Result<Vec<v1::Mount>, String> {
        let volumes = &self.parts.volumes;
        let prepare = |index, mount: &_, sub_path: &str| {
            volumes.prepare_sub_path(pod, &container.name, index, mount, sub_path)
        };
        let default_handler = pod.spec.as_ref().is_none_or(|spec| spec.runtime_class_name.is_none());
        let inputs = MountInputs {
            volumes: &volumes.mounted(&uid(pod)),
            env,
            recursive_read_only: default_handler && self.recursive_read_only.load(Ordering::Relaxed),
            prepare_sub_path: &prepare,
        };
        let mut mounts = mounts(container, &inputs)?;
        let has_address = is_host_network(pod) || !pod_ips.is_empty();
        if has_address && !has_own_hosts(container) {
            mounts.push(self.hosts_mount(pod, pod_ips)?);
        }
        Ok(mounts)
    }

    fn hosts_mount(&self, pod: &Pod, pod_ips: &[String]) -> Result<v1::Mount, String> {
        let aliases = pod.spec.as_ref().and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
        let content = if is_host_network(pod) {
            let path = &self.settings.node_hosts;
            let node_hosts =
                std::fs::read(path).map_err(|error| format!("open {}: {error}", path.display()))?;
            host_network_hosts(&node_hosts, aliases)
        } else {
            let (hostname, domain) = hostname_and_domain(pod, &self.settings.dns.cluster_domain)?;
            managed_hosts(pod_ips, &hostname, &domain, aliases).into_bytes()
        };
        let path = self.parts.root.pod_etc_hosts(&uid(pod));
        write_hosts(&path, &content).map_err(|error| format!("open {}: {error}", path.display()))?;
        let host_path = path.into_os_string().into_string();
        Ok(v1::Mount {
            container_path: ETC_HOSTS.to_owned(),
            host_path: host_path.map_err(|path| format!("the path {} is not UTF-8", path.display()))?,
            selinux_relabel: true,
            ..v1::Mount::default()
        })
    }

    /// As upstream, an event of a node has its name for a uid.
    fn node_reference(&self) -> ObjectReference {
        let name = self.parts.node.name();
        ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(name.to_owned()),
            ..ObjectReference::default()
        }
    }
}

fn uid(pod: &Pod) -> Uid {
    Uid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

fn is_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true)
}

#[cfg(test)]
mod tests;
