//! What the configuration makes of each part: in the part's own terms.

use steersman_api::Quantity;

use super::error::Error;
use super::node_agent::Agent;
use super::options::Options;
use crate::cgroups::{Extent, PIDS, Reserved, Whose, left_for_pods};
use crate::configuration::{Enforcement, KubeletConfiguration};
use crate::environment::DnsSettings;
use crate::images::{self, Parallelism, Rate, VerificationPolicy};
use crate::kuberuntime::container_config::NodeFacts;
use crate::logs::RotatePolicy;
use crate::machine::{CgroupVersion, Facts};
use crate::node_status::Settings;
use crate::node_status::capacity::{capacity, reservation};
use crate::resources::{ResourceList, amount};

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

/// What all pods may use together of what the machine has, the number of its tasks included where that is known. What is
/// reserved for daemons is not theirs, if the configuration has pods held to that.
pub(super) fn for_all_pods(
    configuration: &KubeletConfiguration,
    mut capacity: ResourceList,
    tasks: Option<i64>,
) -> ResourceList {
    capacity.extend(tasks.map(|tasks| (PIDS.to_owned(), Quantity::new(tasks))));
    if configuration.enforce_node_allocatable.contains(&Enforcement::Pods) {
        left_for_pods(&capacity, &[&configuration.system_reserved, &configuration.kube_reserved])
    } else {
        capacity
    }
}

/// Whether the machine has what is reserved for daemons and before evictions.
pub(super) fn check_reserved(facts: &Facts, settings: &Settings) -> Result<(), Error> {
    let capacity = capacity(facts, settings);
    let beyond = reservation(&capacity, settings).into_iter().filter_map(|(name, reserved)| {
        let there = amount(&capacity, &name);
        (reserved > there).then(|| {
            format!(
                "Resource {name:?} has a reservation of {reserved} but capacity of {there}. Expected capacity >= \
                 reservation."
            )
        })
    });
    let beyond = beyond.collect::<Vec<_>>().join(" ");
    if beyond.is_empty() {
        return Ok(());
    }
    Err(Error::Setting(format!("invalid Node Allocatable configuration. {beyond}")))
}

/// What is said of a machine that may write to its disk what volumes keep in memory: it has `swap`, and `is_kept` says that they
/// are not kept from it.
pub(super) fn swap_warning(swap: i64, is_kept: impl FnOnce() -> bool) -> Option<&'static str> {
    (swap > 0 && !is_kept()).then_some(
        "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be swapped to \
         disk and should no longer be considered secure.",
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reserving(amounts: &[(&str, &str)]) -> KubeletConfiguration {
        let amounts = amounts.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap()));
        KubeletConfiguration { system_reserved: amounts.collect(), ..KubeletConfiguration::default() }
    }

    #[test]
    fn all_pods_may_have_the_tasks_that_are_not_reserved() {
        let tasks = |configuration: &KubeletConfiguration, tasks| {
            let there = for_all_pods(configuration, ResourceList::new(), tasks);
            there.get("pid").map(|tasks| tasks.value())
        };
        let mut configuration = reserving(&[("pid", "1000")]);
        configuration.kube_reserved = reserving(&[("pid", "500")]).system_reserved;
        assert_eq!(tasks(&configuration, Some(32_768)), Some(31_268));
        assert_eq!(tasks(&configuration, None), None);
        configuration.enforce_node_allocatable = vec![Enforcement::None];
        assert_eq!(tasks(&configuration, Some(32_768)), Some(32_768));
    }

    #[test]
    fn a_machine_that_swaps_what_is_in_memory_is_warned_of() {
        let unasked = || -> bool { unreachable!("nothing is swapped") };
        assert_eq!(swap_warning(0, unasked), None);
        assert_eq!(swap_warning(1 << 30, || true), None);
        assert!(swap_warning(1 << 30, || false).is_some_and(|warning| warning.contains("noswap")));
    }

    #[test]
    fn more_than_there_is_can_not_be_reserved() {
        let facts = crate::machine::Machine::this().facts(std::path::Path::new("/")).unwrap();
        let facts = Facts { cpus: 2, memory: 1 << 30, ephemeral_storage: 10 << 30, ..facts };
        let checked = |configuration: &KubeletConfiguration| {
            let settings = Settings::new("n", "v1.36.3", configuration).unwrap();
            check_reserved(&facts, &settings).map_err(|error| error.to_string())
        };
        // What must be left before evictions counts: 100Mi of memory, and a tenth of the disk.
        assert_eq!(checked(&reserving(&[("cpu", "2"), ("memory", "924Mi"), ("pid", "9999999")])), Ok(()));
        let refused = checked(&reserving(&[("cpu", "2500m"), ("memory", "925Mi")]));
        assert_eq!(
            refused.unwrap_err(),
            "invalid Node Allocatable configuration. Resource \"cpu\" has a reservation of 2500m but capacity of 2. \
             Expected capacity >= reservation. Resource \"memory\" has a reservation of 1025Mi but capacity of 1Gi. \
             Expected capacity >= reservation."
        );
    }
}
