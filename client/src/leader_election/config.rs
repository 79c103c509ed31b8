//! The configuration of an elector, and its validation.

use std::time::Duration;

use super::JITTER_FACTOR;

/// The configuration of one candidate.
#[derive(Debug, Clone)]
pub struct Config {
    /// The Lease's namespace. Upstream's default: `kube-system`.
    pub namespace: String,
    /// The Lease's name, which is also the label `name` of the metrics.
    pub name: String,
    /// The candidate's identity, which no other candidate may have; see [`identity`].
    pub identity: String,
    /// How long other candidates wait after the last change of the Lease that they saw before they take it. The Lease
    /// has whole seconds. Default: 15 s.
    pub lease_duration: Duration,
    /// How long the leader leads without a successful renewal, counted from the start of the last one. Default: 10 s.
    pub renew_deadline: Duration,
    /// The wait between two tries. Default: 2 s.
    pub retry_period: Duration,
    /// How the leader is chosen. Default: the candidates compete.
    pub mode: Mode,
}

/// How the leader is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The first candidate that writes a free or expired Lease leads.
    #[default]
    Contended,
    /// The API server's coordinator chooses among `LeaseCandidate` objects (coordinated leader election). A candidate
    /// renews the Lease only while the Lease names it as the holder and names no preferred holder.
    Coordinated,
}

/// Why a [`Config`] is invalid. The process should not start. The messages are client-go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Other candidates could take the Lease while this one still writes.
    #[error("leaseDuration must be greater than renewDeadline: {} s (whole seconds) and {renewal:?}", lease.as_secs())]
    LeaseDuration {
        /// The configured lease duration.
        lease: Duration,
        /// The configured renew deadline.
        renewal: Duration,
    },
    /// There would be no time for a second renewal.
    #[error(
        "renewDeadline must be greater than retryPeriod*JitterFactor: {renewal:?} and {retry:?}*{JITTER_FACTOR}"
    )]
    RenewDeadline {
        /// The configured renew deadline.
        renewal: Duration,
        /// The configured retry period.
        retry: Duration,
    },
    /// The candidate would try without a pause.
    #[error("retryPeriod must be greater than zero")]
    RetryPeriod,
    /// Candidates could not be distinguished.
    #[error("Lock identity is empty")]
    Identity,
}

impl Config {
    /// Creates a configuration with upstream's durations.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            mode: Mode::default(),
        }
    }

    /// Checks the rules that make the fence safe.
    ///
    /// # Errors
    /// The first violated rule, in client-go's order.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { lease_duration: lease, renew_deadline: renewal, retry_period: retry, .. } = self;
        if self.lease_seconds() <= *renewal {
            return Err(ConfigError::LeaseDuration { lease: *lease, renewal: *renewal });
        }
        if *renewal <= retry.mul_f64(JITTER_FACTOR) {
            return Err(ConfigError::RenewDeadline { renewal: *renewal, retry: *retry });
        }
        if retry.is_zero() {
            return Err(ConfigError::RetryPeriod);
        }
        if self.identity.is_empty() {
            return Err(ConfigError::Identity);
        }
        Ok(())
    }

    /// The time from the end of a term that was not renewed until another candidate may lead. Zero if the configuration is
    /// invalid.
    pub fn margin(&self) -> Duration {
        self.lease_seconds().saturating_sub(self.renew_deadline)
    }

    /// The lease duration that other candidates read: in whole seconds.
    fn lease_seconds(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// The lease duration as the API's integer.
    pub(super) fn lease_duration_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// Deadline of one call: half the renew deadline, but at least a second. One call that hangs does not cost the
    /// leadership. Upstream: resourcelock `NewFromKubeconfig`.
    pub(super) fn call_deadline(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// A candidate's wait: between one and 2.2 retry periods, so that candidates do not try at the same times.
    pub(super) fn jittered_retry_period(&self) -> Duration {
        self.retry_period.mul_f64(1.0 + rand::random::<f64>() * JITTER_FACTOR)
    }
}

/// Creates an identity in the form of kube-controller-manager, `<hostname>_<uuid>`. Processes on one machine differ.
pub fn identity() -> String {
    let machine = rustix::system::uname();
    format!("{}_{}", machine.nodename().to_string_lossy(), uuid::Uuid::new_v4())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(lease: f64, renewal: f64, retry: f64) -> Result<(), ConfigError> {
        Config {
            lease_duration: Duration::from_secs_f64(lease),
            renew_deadline: Duration::from_secs_f64(renewal),
            retry_period: Duration::from_secs_f64(retry),
            ..Config::new("kube-system", "kube-controller-manager", "me")
        }
        .validate()
    }

    #[test]
    fn durations_that_cannot_work_are_told_apart() {
        use ConfigError::{LeaseDuration, RenewDeadline, RetryPeriod};
        assert_eq!(seconds(15.0, 10.0, 2.0), Ok(()));
        assert!(matches!(seconds(10.0, 10.0, 2.0), Err(LeaseDuration { .. })));
        assert!(matches!(seconds(0.0, 0.0, 0.0), Err(LeaseDuration { .. })));
        assert!(matches!(seconds(15.0, 2.4, 2.0), Err(RenewDeadline { .. })));
        assert!(matches!(seconds(15.0, 0.0, 0.0), Err(RenewDeadline { .. })));
        assert!(matches!(seconds(15.0, 10.0, 0.0), Err(RetryPeriod)));
        assert!(
            matches!(seconds(1.9, 1.5, 0.5), Err(LeaseDuration { .. })),
            "others read one second and would take the lease while the fence is open"
        );
        let nobody = Config::new("kube-system", "kube-controller-manager", "");
        assert_eq!(nobody.validate(), Err(ConfigError::Identity));
    }

    #[test]
    fn an_identity_names_the_machine_and_is_never_given_twice() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        let (machine, uuid) = one.rsplit_once('_').unwrap();
        assert!(!machine.is_empty());
        uuid::Uuid::try_parse(uuid).unwrap();
    }
}
