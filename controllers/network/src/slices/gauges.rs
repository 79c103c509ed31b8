//! Gauges of all services' endpoints and slices, summed up from those of each service.

use std::collections::HashMap;

use parking_lot::Mutex;
use prometheus::{Error, IntGauge, Registry};
use steersman_api::ObjectKey;

/// The numbers of one service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The endpoints that there should be.
    pub endpoints: usize,
    /// The slices that there are after the sync.
    pub slices: usize,
    /// The slices that would do if each were full.
    pub desired_slices: usize,
}

/// The gauges `endpoints_desired`, `num_endpoint_slices` and `desired_endpoint_slices`.
#[derive(Debug)]
pub(crate) struct Gauges {
    endpoints: IntGauge,
    slices: IntGauge,
    desired_slices: IntGauge,
    services: Mutex<HashMap<ObjectKey, Counts>>,
}

impl Gauges {
    /// Makes the gauges of a controller, with the prefix of its metrics.
    pub(crate) fn new(prefix: &str) -> Self {
        let gauge = |name: &str, help: &str| {
            IntGauge::new(format!("{prefix}_{name}"), help).expect("a constant description must be valid")
        };
        Self {
            endpoints: gauge("endpoints_desired", "Number of endpoints desired"),
            slices: gauge("num_endpoint_slices", "Number of EndpointSlices"),
            desired_slices: gauge(
                "desired_endpoint_slices",
                "Number of EndpointSlices that would exist with perfect endpoint allocation",
            ),
            services: Mutex::default(),
        }
    }

    /// Serves the gauges from `registry`.
    pub(crate) fn register(&self, registry: &Registry) -> Result<(), Error> {
        for gauge in [&self.endpoints, &self.slices, &self.desired_slices] {
            registry.register(Box::new(gauge.clone()))?;
        }
        Ok(())
    }

    /// Replaces the numbers of a service.
    pub(crate) fn set(&self, service: &ObjectKey, counts: Counts) {
        let mut services = self.services.lock();
        let before = services.insert(service.clone(), counts).unwrap_or_default();
        self.change(before, counts);
    }

    /// Forgets a service.
    pub(crate) fn remove(&self, service: &ObjectKey) {
        let mut services = self.services.lock();
        if let Some(before) = services.remove(service) {
            self.change(before, Counts::default());
        }
    }

    fn change(&self, before: Counts, after: Counts) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (gauge, before, after) in [
            (&self.endpoints, before.endpoints, after.endpoints),
            (&self.slices, before.slices, after.slices),
            (&self.desired_slices, before.desired_slices, after.desired_slices),
        ] {
            gauge.add(number(after) - number(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_sum_up_services_and_forget_those_that_are_gone() {
        let gauges = Gauges::new("test");
        let counts = |endpoints, slices, desired_slices| Counts { endpoints, slices, desired_slices };
        let (web, db) = (ObjectKey::new("ns", "web"), ObjectKey::new("ns", "db"));
        let read = || (gauges.endpoints.get(), gauges.slices.get(), gauges.desired_slices.get());
        gauges.set(&web, counts(150, 2, 2));
        gauges.set(&db, counts(3, 1, 1));
        assert_eq!(read(), (153, 3, 3));
        gauges.set(&web, counts(10, 2, 1));
        assert_eq!(read(), (13, 3, 2));
        gauges.remove(&web);
        gauges.remove(&web);
        assert_eq!(read(), (3, 1, 1));
    }
}
