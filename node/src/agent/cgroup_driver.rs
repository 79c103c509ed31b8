//! Which cgroup driver the runtime has: the node's must be the same.

use std::time::Duration;

use prometheus::{GaugeVec, Opts, Registry};

use super::error::Error;
use crate::configuration::CgroupDriver;
use crate::cri::v1;
use crate::runtime::RuntimeService;

/// How often the runtime is asked, should it fail.
const TRIES: u32 = 3;
/// Between two tries: a runtime that has just started may need them.
const PAUSE: Duration = Duration::from_secs(2);
/// The release whose kubelet no longer takes a runtime that does not tell.
const LAST_WITHOUT: &str = "1.37.0";

/// The driver that the runtime tells of; `None` for one that tells of none, where the configuration's holds.
///
/// # Errors
/// The runtime fails each time, or tells of a driver that nobody knows.
pub(super) async fn told_by(
    runtime: &dyn RuntimeService,
    registry: &Registry,
) -> Result<Option<CgroupDriver>, Error> {
    let mut tries = 1;
    let told = loop {
        match runtime.runtime_config().await {
            Ok(told) => break told,
            Err(error) if error.is_unimplemented() => {
                warn_of_support(registry)?;
                tracing::info!(
                    "CRI implementation should be updated to support RuntimeConfig. Falling back to using cgroupDriver from \
                     kubelet config."
                );
                return Ok(None);
            }
            Err(error) if tries == TRIES => return Err(Error::RuntimeConfig(error)),
            Err(error) => tracing::warn!(%error, "The runtime does not tell its cgroup driver yet"),
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    };
    let Some(linux) = told.linux else { return Ok(None) };
    let driver = match v1::CgroupDriver::try_from(linux.cgroup_driver) {
        Ok(v1::CgroupDriver::Systemd) => CgroupDriver::Systemd,
        Ok(v1::CgroupDriver::Cgroupfs) => CgroupDriver::Cgroupfs,
        Err(_) => return Err(Error::UnknownCgroupDriver(linux.cgroup_driver)),
    };
    tracing::info!(?driver, "Using cgroup driver setting received from the CRI runtime");
    Ok(Some(driver))
}

/// Tells that newer nodes will not take the runtime. The family is there on such nodes alone.
fn warn_of_support(registry: &Registry) -> Result<(), Error> {
    let options = Opts::new(
        "kubelet_cri_losing_support",
        "the Kubernetes version that the currently running CRI implementation will lose support on if not upgraded.",
    );
    let family = GaugeVec::new(options, &["version"])?;
    registry.register(Box::new(family.clone()))?;
    family.with_label_values(&[LAST_WITHOUT]).inc();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::simulated::{Fault, SimulatedConfig, SimulatedRuntime};
    use crate::runtime::{Code, Operation};

    fn fails(code: Code) -> Fault {
        Fault::Fails { code, message: "no".to_owned() }
    }

    async fn told(runtime: &SimulatedRuntime) -> Result<Option<CgroupDriver>, String> {
        told_by(runtime, &Registry::new()).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_runtimes_driver_is_taken_if_it_has_one() {
        let runtime = SimulatedRuntime::new(SimulatedConfig::default());
        for (linux, expected) in [
            (Some(0), Ok(Some(CgroupDriver::Systemd))),
            (Some(1), Ok(Some(CgroupDriver::Cgroupfs))),
            (None, Ok(None)),
            (Some(7), Err("runtime returned an unknown cgroup driver 7".to_owned())),
        ] {
            let linux = linux.map(|cgroup_driver| v1::LinuxRuntimeConfiguration { cgroup_driver });
            runtime.set_runtime_config(v1::RuntimeConfigResponse { linux });
            assert_eq!(told(&runtime).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_fails_is_asked_thrice() {
        let runtime = SimulatedRuntime::new(SimulatedConfig::default());
        runtime.inject(Operation::RuntimeConfig, 2, fails(Code::Unavailable));
        assert_eq!(told(&runtime).await, Ok(Some(CgroupDriver::Cgroupfs)));
        runtime.inject(Operation::RuntimeConfig, 3, fails(Code::Unavailable));
        assert_eq!(told(&runtime).await, Err("rpc error: code = Unavailable desc = no".to_owned()));
    }

    #[tokio::test]
    async fn a_runtime_without_the_call_leaves_it_to_the_configuration_and_is_told_of() {
        let (runtime, registry) = (SimulatedRuntime::new(SimulatedConfig::default()), Registry::new());
        runtime.inject(Operation::RuntimeConfig, 1, fails(Code::Unimplemented));
        assert_eq!(told_by(&runtime, &registry).await.unwrap(), None);
        let families = registry.gather();
        assert_eq!(families[0].name(), "kubelet_cri_losing_support");
        assert_eq!(families[0].get_metric()[0].get_label()[0].value(), "1.37.0");
        assert_eq!(families[0].get_metric()[0].get_gauge().get_value(), 1.0);
    }
}
