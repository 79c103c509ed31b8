//! Which values can't be, by themselves or together.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use steersman_api::{Quantity, names};

use super::error::Fault;
use super::kubelet_configuration::KubeletConfiguration;
use super::sections::Enforcement;
use crate::cri::Endpoint;
use crate::images::VerificationPolicy;
use crate::server::tls::cipher_suite;

/// What may be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

impl KubeletConfiguration {
    /// Checks the values, as upstream does.
    ///
    /// # Errors
    /// All that is wrong, at least one fault.
    pub fn validate(&self) -> Result<(), Vec<Fault>> {
        let mut faults = Faults::default();
        self.validate_server(&mut faults);
        self.validate_pods(&mut faults);
        self.validate_cgroups(&mut faults);
        if let Err(fault) = self.thresholds() {
            faults.0.push(fault);
        }
        if faults.0.is_empty() { Ok(()) } else { Err(faults.0) }
    }

    fn validate_server(&self, faults: &mut Faults) {
        faults.check(self.port > 0, "port", &self.port, "must be between 1 and 65535, inclusive");
        faults.check(
            self.tls_cert_file.is_some() == self.tls_private_key_file.is_some(),
            "tlsCertFile",
            &shown(self.tls_cert_file.as_deref()),
            "must be given together with tlsPrivateKeyFile",
        );
        for (at, name) in self.tls_cipher_suites.iter().enumerate() {
            if let Err(unknown) = cipher_suite(name) {
                faults.check(false, &format!("tlsCipherSuites[{at}]"), name, &unknown.to_string());
            }
        }
        faults.check(
            self.node_lease_duration_seconds > 0,
            "nodeLeaseDurationSeconds",
            &self.node_lease_duration_seconds,
            "must be greater than 0",
        );
        faults.check(
            self.node_status_max_images >= -1,
            "nodeStatusMaxImages",
            &self.node_status_max_images,
            "must be -1 or greater",
        );
        for (at, taint) in self.register_with_taints.iter().enumerate() {
            let path = format!("registerWithTaints[{at}]");
            let value = taint.value.as_deref().unwrap_or_default();
            let shown = format!("{}={value}:{}", taint.key, taint.effect);
            faults.check(
                names::qualified_name(&taint.key).is_empty(),
                &path,
                &shown,
                "the key is none of a taint",
            );
            faults.check(names::label_value(value).is_empty(), &path, &shown, "the value is none of a taint");
            let effects = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];
            faults.check(effects.contains(&taint.effect.as_str()), &path, &shown, "unsupported taint effect");
            faults.check(taint.time_added.is_none(), &path, &shown, "timeAdded must not be set");
        }
        for (path, endpoint) in [
            ("containerRuntimeEndpoint", Some(&self.container_runtime_endpoint)),
            ("imageServiceEndpoint", self.image_service_endpoint.as_ref()),
        ] {
            if let Some(Err(why)) = endpoint.map(|endpoint| endpoint.parse::<Endpoint>()) {
                faults.0.push(Fault::new(path, why.to_string()));
            }
        }
    }

    fn validate_pods(&self, faults: &mut Faults) {
        let parallel = self.max_parallel_image_pulls;
        faults.check(
            parallel != Some(0),
            "maxParallelImagePulls",
            &parallel.unwrap_or(0),
            "must be a positive number",
        );
        faults.check(
            !self.serialize_image_pulls || parallel.is_none_or(|most| most <= 1),
            "maxParallelImagePulls",
            &parallel.unwrap_or(0),
            "cannot be larger than 1 unless serializeImagePulls is set to false",
        );
        let policy = &self.image_pull_credentials_verification_policy;
        let list = &self.preloaded_images_verification_allowlist;
        faults.check(
            list.is_empty() || policy == "NeverVerifyAllowlistedImages",
            "preloadedImagesVerificationAllowlist",
            &format!("{list:?}"),
            "can't be set unless imagePullCredentialsVerificationPolicy is NeverVerifyAllowlistedImages",
        );
        if let Err(why) = VerificationPolicy::new(policy, list) {
            faults.0.push(Fault::new("imagePullCredentialsVerificationPolicy", format!("{policy}: {why}")));
        }
        let longest = self.crash_loop_back_off.max_container_restart_period;
        faults.check(
            (Duration::from_secs(1)..=Duration::from_secs(300)).contains(&longest.0),
            "crashLoopBackOff.maxContainerRestartPeriod",
            &longest,
            "must be set between 1s and 300s",
        );
        faults.check(
            self.container_log_max_files > 1,
            "containerLogMaxFiles",
            &self.container_log_max_files,
            "must be greater than 1",
        );
        faults.check(
            self.container_log_max_workers > 0,
            "containerLogMaxWorkers",
            &self.container_log_max_workers,
            "must be greater than or equal to 1",
        );
        faults.check(
            self.container_log_monitor_interval.0 >= Duration::from_secs(3),
            "containerLogMonitorInterval",
            &self.container_log_monitor_interval,
            "must be a positive time duration greater than or equal to 3s",
        );
        let logs = &self.pod_logs_dir;
        let shown = logs.display();
        faults.check(logs.is_absolute(), "podLogsDir", &shown, "must be an absolute path");
        faults.check(is_clean(logs), "podLogsDir", &shown, "must be normalized");
        let ascii = logs.as_os_str().is_ascii();
        faults.check(ascii, "podLogsDir", &shown, "must contain ASCII characters only");
    }

    fn validate_cgroups(&self, faults: &mut Faults) {
        let period = self.cpu_cfs_quota_period;
        faults.check(
            (Duration::from_millis(1)..=Duration::from_secs(1)).contains(&period.0),
            "cpuCFSQuotaPeriod",
            &period,
            "must be between 1ms and 1s, inclusive",
        );
        for (path, reserved) in
            [("systemReserved", &self.system_reserved), ("kubeReserved", &self.kube_reserved)]
        {
            validate_reserved(path, reserved, faults);
        }
        self.validate_enforcement(faults);
    }

    fn validate_enforcement(&self, faults: &mut Faults) {
        const PATH: &str = "enforceNodeAllocatable";
        let enforced = &self.enforce_node_allocatable;
        for (at, enforcement) in enforced.iter().enumerate() {
            let name = name(*enforcement);
            faults.check(!enforced[..at].contains(enforcement), PATH, &name, "is there more than once");
            let cgroup = match enforcement {
                Enforcement::None => {
                    faults.check(enforced.len() == 1, PATH, &name, "must stand alone");
                    continue;
                }
                Enforcement::Pods => Some(""),
                Enforcement::SystemReserved | Enforcement::SystemReservedCompressible => {
                    self.system_reserved_cgroup.as_deref()
                }
                Enforcement::KubeReserved | Enforcement::KubeReservedCompressible => {
                    self.kube_reserved_cgroup.as_deref()
                }
            };
            faults.check(cgroup.is_some(), PATH, &name, "wants the reserved cgroup to be named");
            faults.check(self.cgroups_per_qos, PATH, &name, "wants cgroupsPerQOS to be true");
        }
        for (one, other) in [
            (Enforcement::SystemReserved, Enforcement::SystemReservedCompressible),
            (Enforcement::KubeReserved, Enforcement::KubeReservedCompressible),
        ] {
            let both = enforced.contains(&one) && enforced.contains(&other);
            let why = format!("cannot be specified together with {}", name(other));
            faults.check(!both, PATH, &name(one), &why);
        }
    }

    /// Whether a machine with cgroup v1 will do.
    ///
    /// # Errors
    /// It will not, and why.
    pub fn allows_cgroup_v1(&self) -> Result<(), Fault> {
        if self.fail_cgroup_v1 {
            return Err(Fault::new(
                "failCgroupV1",
                "this machine has cgroup v1, and it is set to refuse that",
            ));
        }
        if self.single_process_oom_kill == Some(false) {
            return Err(Fault::new("singleProcessOOMKill", "must not be false on a machine with cgroup v1"));
        }
        Ok(())
    }
}

fn validate_reserved(path: &str, reserved: &BTreeMap<String, Quantity>, faults: &mut Faults) {
    for (resource, amount) in reserved {
        let path = format!("{path}.{resource}");
        let known = RESERVABLE.contains(&resource.as_str());
        faults.check(known, &path, amount, "this resource cannot be reserved");
        faults.check(*amount >= Quantity::default(), &path, amount, "cannot be negative");
    }
}

fn name(enforcement: Enforcement) -> String {
    serde_json::to_string(&enforcement).unwrap_or_default()
}

/// Whether a path has no parts that lead nowhere.
fn is_clean(path: &Path) -> bool {
    let parts: std::path::PathBuf = path.components().collect();
    parts.as_os_str() == path.as_os_str() && !path.components().any(|part| part == Component::ParentDir)
}

fn shown(path: Option<&Path>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn check(&mut self, holds: bool, path: &str, value: &dyn std::fmt::Display, why: &str) {
        if !holds {
            self.0.push(Fault::new(path, format!("{value}: {why}")));
        }
    }
}
