//! What annotations make of a sandbox or a container.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use crate::cri::v1;
use crate::runtime::{Code, Error, Result};

/// What the annotations' keys begin with; [the module](super) has the table of what follows.
pub const PREFIX: &str = "simulated.steersman.io/";

/// Where a process is killed by SIGTERM: 128 and the signal's number.
const TERMINATED: i32 = 143;

/// How a container goes through life. [The module](super) says what each means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerBehaviour {
    pub(super) create_error: Option<String>,
    pub(super) start_delay: Duration,
    pub(super) start_error: Option<String>,
    pub(super) exit_after: Option<Duration>,
    pub(super) exit_code: i32,
    pub(super) exit_reason: Option<String>,
    pub(super) termination_message: Option<String>,
    /// `None` ignores SIGTERM.
    pub(super) stop_delay: Option<Duration>,
    pub(super) stop_code: i32,
    pub(super) log: Option<String>,
    pub(super) log_interval: Option<Duration>,
    pub(super) exec: Exec,
    pub(super) usage: SimulatedUsage,
}

/// What a simulated container uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimulatedUsage {
    /// Processors, in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

impl SimulatedUsage {
    /// The usage of a container that has been restarted `restarts` times, by the annotations of its pod.
    ///
    /// # Errors
    /// An annotation is malformed.
    pub fn of(annotations: &BTreeMap<String, String>, container: &str, restarts: usize) -> Result<Self> {
        let own = BTreeMap::new();
        Self::find(&Annotations { own: &own, shared: annotations, name: container, attempt: restarts })
    }

    fn find(found: &Annotations<'_>) -> Result<Self> {
        Ok(Self {
            cpu_millis: found.number("cpu-millis")?.unwrap_or(0),
            memory_bytes: found.number("memory-bytes")?.unwrap_or(0),
        })
    }
}

/// How a command in a container ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exec {
    pub(super) delay: Duration,
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl ContainerBehaviour {
    /// From what the container and its sandbox are annotated with.
    pub(super) fn new(config: &v1::ContainerConfig, sandbox: &BTreeMap<String, String>) -> Result<Self> {
        let metadata = config.metadata.clone().unwrap_or_default();
        let found = Annotations {
            own: &config.annotations,
            shared: sandbox,
            name: &metadata.name,
            attempt: usize::try_from(metadata.attempt).unwrap_or(usize::MAX),
        };
        Ok(Self {
            create_error: found.text("create-error"),
            start_delay: found.duration("start-delay")?.unwrap_or_default(),
            start_error: found.text("start-error"),
            exit_after: found.duration("exit-after")?,
            exit_code: found.number("exit-code")?.unwrap_or(0),
            exit_reason: found.listed("exit-reason").map(str::to_owned),
            termination_message: found.text("termination-message"),
            stop_delay: match found.text("stop-delay") {
                None => Some(Duration::ZERO),
                Some(_) => found.duration("stop-delay")?,
            },
            stop_code: found.number("stop-code")?.unwrap_or(TERMINATED),
            log: found.text("log"),
            log_interval: found.duration("log-interval")?.filter(|interval| !interval.is_zero()),
            exec: Exec {
                delay: found.duration("exec-delay")?.unwrap_or_default(),
                code: found.number("exec-code")?.unwrap_or(0),
                stdout: found.text("exec-stdout").unwrap_or_default(),
                stderr: found.text("exec-stderr").unwrap_or_default(),
            },
            usage: SimulatedUsage::find(&found)?,
        })
    }
}

/// How a sandbox goes through life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SandboxBehaviour {
    pub(super) delay: Duration,
    pub(super) error: Option<String>,
    pub(super) exit_after: Option<Duration>,
    pub(super) address: Address,
}

/// Where a sandbox's address comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    Pool,
    Missing,
    Fixed(Ipv4Addr),
}

impl SandboxBehaviour {
    pub(super) fn new(config: &v1::PodSandboxConfig) -> Result<Self> {
        let attempt = config.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        let found = Annotations {
            own: &config.annotations,
            shared: &BTreeMap::new(),
            name: "",
            attempt: usize::try_from(attempt).unwrap_or(usize::MAX),
        };
        Ok(Self {
            delay: found.duration("sandbox-delay")?.unwrap_or_default(),
            error: found.text("sandbox-error"),
            exit_after: found.duration("sandbox-exit-after")?,
            address: match found.listed("sandbox-ip") {
                None => Address::Pool,
                Some("none") => Address::Missing,
                Some(_) => found.number("sandbox-ip")?.map_or(Address::Pool, Address::Fixed),
            },
        })
    }
}

/// The annotations that one container sees.
struct Annotations<'a> {
    own: &'a BTreeMap<String, String>,
    shared: &'a BTreeMap<String, String>,
    name: &'a str,
    attempt: usize,
}

impl<'a> Annotations<'a> {
    /// The container's own, or the pod's for this container, or the pod's for all.
    fn get(&self, key: &str) -> Option<&'a str> {
        let whole = format!("{PREFIX}{key}");
        self.own
            .get(&whole)
            .or_else(|| self.shared.get(&format!("{whole}.{}", self.name)))
            .or_else(|| self.shared.get(&whole))
            .map(String::as_str)
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(str::to_owned)
    }

    /// Of a list with commas, what is meant for this attempt; the last stands for all that follow.
    fn listed(&self, key: &str) -> Option<&'a str> {
        let values = self.get(key)?;
        values.split(',').take(self.attempt.saturating_add(1)).last().map(str::trim)
    }

    fn number<T: FromStr<Err: std::fmt::Display>>(&self, key: &str) -> Result<Option<T>> {
        self.listed(key).map(|value| value.parse().map_err(|error| malformed(key, value, &error))).transpose()
    }

    /// `never` is `None`, as is a missing one.
    fn duration(&self, key: &str) -> Result<Option<Duration>> {
        let Some(value) = self.listed(key).filter(|value| *value != "never") else { return Ok(None) };
        let signed: SignedDuration = value.parse().map_err(|error| malformed(key, value, &error))?;
        Duration::try_from(signed).map(Some).map_err(|error| malformed(key, value, &error))
    }
}

fn malformed(key: &str, value: &str, error: &dyn std::fmt::Display) -> Error {
    Error::status(Code::InvalidArgument, format!("annotation {PREFIX}{key}: {value:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned())).collect()
    }

    fn container(attempt: u32, own: &[(&str, &str)], pod: &[(&str, &str)]) -> Result<ContainerBehaviour> {
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: "main".into(), attempt }),
            annotations: annotations(own),
            ..Default::default()
        };
        ContainerBehaviour::new(&config, &annotations(pod))
    }

    #[test]
    fn a_container_without_annotations_runs_until_it_is_asked_to_end() {
        let behaviour = container(0, &[], &[]).unwrap();
        assert_eq!(behaviour.exit_after, None);
        assert_eq!((behaviour.stop_delay, behaviour.stop_code), (Some(Duration::ZERO), 143));
        assert_eq!(behaviour.start_delay, Duration::ZERO);
    }

    #[test]
    fn the_nearest_annotation_holds() {
        let pod = [("exit-code", "1"), ("exit-code.main", "2"), ("exit-code.other", "3")];
        assert_eq!(container(0, &[], &pod[..1]).unwrap().exit_code, 1);
        assert_eq!(container(0, &[], &pod).unwrap().exit_code, 2);
        assert_eq!(container(0, &[("exit-code", "4")], &pod).unwrap().exit_code, 4);
    }

    #[test]
    fn a_list_has_a_value_for_each_attempt_and_the_last_for_the_rest() {
        let pod = [("exit-after", "1s, 250ms,never"), ("exit-code", "7,0")];
        let lives = [0, 1, 2, 9].map(|attempt| {
            let behaviour = container(attempt, &[], &pod).unwrap();
            (behaviour.exit_after.map(|after| after.as_millis()), behaviour.exit_code)
        });
        assert_eq!(lives, [(Some(1000), 7), (Some(250), 0), (None, 0), (None, 0)]);
    }

    #[test]
    fn the_usage_of_a_container_is_that_of_its_annotations_and_attempt() {
        let pod = annotations(&[("cpu-millis", "100,900"), ("memory-bytes.main", "4096")]);
        let usage = |cpu_millis, memory_bytes| SimulatedUsage { cpu_millis, memory_bytes };
        assert_eq!(SimulatedUsage::of(&pod, "main", 0).unwrap(), usage(100, 4096));
        assert_eq!(SimulatedUsage::of(&pod, "side", 3).unwrap(), usage(900, 0));
        let malformed = annotations(&[("cpu-millis", "much")]);
        assert!(SimulatedUsage::of(&malformed, "main", 0).unwrap_err().message().contains("cpu-millis"));
    }

    #[test]
    fn never_stopping_ignores_the_signal() {
        assert_eq!(container(0, &[], &[("stop-delay", "never")]).unwrap().stop_delay, None);
    }

    #[test]
    fn a_malformed_value_is_named() {
        for (key, value) in [("exit-after", "soon"), ("start-delay", "-1s"), ("exit-code", "x")] {
            let error = container(0, &[], &[(key, value)]).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
            assert!(error.message().contains(key) && error.message().contains(value), "{error}");
        }
        let config = v1::PodSandboxConfig {
            annotations: annotations(&[("sandbox-ip", "here")]),
            ..Default::default()
        };
        assert!(SandboxBehaviour::new(&config).unwrap_err().message().contains("sandbox-ip"));
    }
}
