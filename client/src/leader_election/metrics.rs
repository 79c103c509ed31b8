//! The metrics of leader election, under component-base's names.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// The families `leader_election_*`. A clone counts into the same families. They count whether or not they are
/// [registered](Metrics::register).
#[derive(Debug, Clone)]
pub struct Metrics {
    status: IntGaugeVec,
    slow_path: IntCounterVec,
}

impl Metrics {
    /// Creates the families, empty.
    pub fn new() -> Self {
        let status = Opts::new(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. \
             'name' is the string used to identify the lease. Please make sure to group by name.",
        );
        let slow_path = Opts::new(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the \
             lease. Please make sure to group by name.",
        );
        Self {
            status: IntGaugeVec::new(status, &["name"]).expect("a constant metric description must be valid"),
            slow_path: IntCounterVec::new(slow_path, &["name"])
                .expect("a constant metric description must be valid"),
        }
    }

    /// Adds the families to `registry`.
    ///
    /// # Errors
    /// If the registry already has a family of one of these names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.status.clone()))?;
        registry.register(Box::new(self.slow_path.clone()))
    }

    /// Records that this process holds the lease `name`.
    pub(super) fn leading(&self, name: &str) {
        self.status.with_label_values(&[name]).set(1);
    }

    /// Records that this process does not hold the lease `name`.
    pub(super) fn following(&self, name: &str) {
        self.status.with_label_values(&[name]).set(0);
    }

    /// Counts a renewal that needed a read.
    pub(super) fn slow_path(&self, name: &str) {
        self.slow_path.with_label_values(&[name]).inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
impl Metrics {
    /// Whether this process leads, and the number of renewals by the slow path.
    pub(super) fn read(&self, name: &str) -> (bool, u64) {
        (self.status.with_label_values(&[name]).get() == 1, self.slow_path.with_label_values(&[name]).get())
    }
}
