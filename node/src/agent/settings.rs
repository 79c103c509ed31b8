//! What the configuration makes of each part: in the part's own terms.

use super::error::Error;
use super::node_agent::Agent;
use super::options::Options;
use crate::cgroups::{Extent, Reserved, Whose};
use crate::configuration::{Enforcement, KubeletConfiguration};
use crate::environment::DnsSettings;
use crate::images::{self, Parallelism, Rate, VerificationPolicy};
use crate::kuberuntime::container_config::NodeFacts;
use crate::logs::RotatePolicy;
use crate::machine::{CgroupVersion, Facts};
use crate::node_status::Settings;

impl Agent {
    /// What the Node is to say.
    pub(super) fn settings(&self) -> Result<Settings, Error> {
        let options = &self.options;
        let mut settings =
            Settings::new(&options.node_name, &options.kubelet_version, &options.configuration)?;
        settings.node_ips.clone_from(&options.node_ips);
        settings.node_labels.clone_from(&options.node_labels);
        settings.external_cloud_provider = options.external_cloud_provider;
        Ok(settings)
    }

    pub(super) fn node_facts(&self) -> NodeFacts {
        let configuration = &self.options.configuration;
        let mut facts = NodeFacts::of_this_machine(self.root.path());
        facts.cpu_cfs_quota = configuration.cpu_cfs_quota;
        facts.cpu_cfs_quota_period = configuration.cpu_cfs_quota_period.0;
        facts.seccomp_default = configuration.seccomp_default;
        if let Some(single) = configuration.single_process_oom_kill {
            facts.single_process_oom_kill = single;
        }
        facts
    }
}

/// The groups of the host's daemons that are to be held to what is reserved for them. Those are named: the configuration was
/// checked.
pub(super) fn reserved(configuration: &KubeletConfiguration) -> Vec<Reserved> {
    let system = (Whose::System, &configuration.system_reserved_cgroup, &configuration.system_reserved);
    let kubernetes = (Whose::Kubernetes, &configuration.kube_reserved_cgroup, &configuration.kube_reserved);
    let of = |enforcement: &Enforcement| {
        let ((whose, group, amounts), extent) = match enforcement {
            Enforcement::None | Enforcement::Pods => return None,
            Enforcement::SystemReserved => (system, Extent::All),
            Enforcement::SystemReservedCompressible => (system, Extent::Compressible),
            Enforcement::KubeReserved => (kubernetes, Extent::All),
            Enforcement::KubeReservedCompressible => (kubernetes, Extent::Compressible),
        };
        Some(Reserved { whose, group: group.clone()?, amounts: amounts.clone(), extent })
    };
    // Upstream's order, whatever that of the list: weights of those that are named twice come last.
    let order = [
        Enforcement::SystemReserved,
        Enforcement::KubeReserved,
        Enforcement::SystemReservedCompressible,
        Enforcement::KubeReservedCompressible,
    ];
    let wanted = &configuration.enforce_node_allocatable;
    order.iter().filter(|enforcement| wanted.contains(enforcement)).filter_map(of).collect()
}

pub(super) fn dns(configuration: &KubeletConfiguration) -> DnsSettings {
    DnsSettings {
        cluster_dns: configuration.cluster_dns.clone(),
        cluster_domain: configuration.cluster_domain.clone().unwrap_or_default(),
        resolv_conf: Some(configuration.resolv_conf.clone()).filter(|path| !path.as_os_str().is_empty()),
    }
}

pub(super) fn image_settings(options: &Options) -> Result<images::Settings, Error> {
    let configuration = &options.configuration;
    let parallelism = match (configuration.serialize_image_pulls, configuration.max_parallel_image_pulls) {
        (true, _) => Parallelism::One,
        (false, Some(limit)) => Parallelism::UpTo(usize::try_from(limit).unwrap_or(usize::MAX)),
        (false, None) => Parallelism::Unlimited,
    };
    #[expect(clippy::cast_precision_loss, reason = "nobody pulls millions of images a second")]
    let rate = Rate { qps: configuration.registry_pull_qps as f32, burst: configuration.registry_burst };
    let verification = VerificationPolicy::new(
        &configuration.image_pull_credentials_verification_policy,
        &configuration.preloaded_images_verification_allowlist,
    )?;
    Ok(images::Settings {
        parallelism,
        rate,
        verification,
        credential_provider_config: options.credential_provider_config.clone(),
    })
}

pub(super) fn rotation(configuration: &KubeletConfiguration) -> RotatePolicy {
    RotatePolicy {
        max_size: configuration.container_log_max_size.value(),
        max_files: configuration.container_log_max_files,
        max_workers: configuration.container_log_max_workers,
        interval: configuration.container_log_monitor_interval.0,
    }
}

/// Whether the configuration lets a node run on a machine like this.
pub(super) fn check_machine(configuration: &KubeletConfiguration, facts: &Facts) -> Result<(), Error> {
    if configuration.fail_swap_on && facts.swap > 0 {
        let why = "running with swap on is not supported: turn it off, or set failSwapOn to false";
        return Err(Error::Setting(why.to_owned()));
    }
    if facts.cgroup_version == CgroupVersion::V1 {
        configuration.allows_cgroup_v1()?;
    }
    Ok(())
}
