//! The controller's metrics, under upstream's names.

use prometheus::{Error, IntCounter, Registry};

/// The families `ephemeral_volume_controller_*`.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    /// Attempts to create a claim, failed ones included.
    pub attempts: IntCounter,
    /// Attempts that failed.
    pub failures: IntCounter,
}

impl Metrics {
    pub(super) fn new() -> Self {
        // Upstream has the same help for both.
        let counter = |name: &str| {
            let help = "[ALPHA] Number of PersistentVolumeClaim creation requests";
            IntCounter::new(format!("ephemeral_volume_controller_{name}"), help)
                .expect("a constant description must be valid")
        };
        Self { attempts: counter("create_total"), failures: counter("create_failures_total") }
    }

    /// Serves the metrics from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.attempts.clone()))?;
        registry.register(Box::new(self.failures.clone()))
    }
}
