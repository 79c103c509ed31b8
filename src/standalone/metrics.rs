//! The metrics of the node and of the API server, among those of the controllers.

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

/// All that a part of the process has registered. The node and the controllers both have `storage_operation_duration_seconds`, and one
/// registry takes a family once: a registry in another one brings its series into families of the same name.
pub(super) struct OfPart(pub(super) Registry);

impl Collector for OfPart {
    fn desc(&self) -> Vec<&Desc> {
        Vec::new()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.gather()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{IntCounterVec, Opts, TextEncoder};

    use super::*;

    #[test]
    fn a_family_that_both_have_holds_the_series_of_both() {
        let registry = |part: &str| {
            let registry = Registry::new();
            let family = IntCounterVec::new(Opts::new("operations", "Operations"), &["part"]).unwrap();
            registry.register(Box::new(family.clone())).unwrap();
            family.with_label_values(&[part]).inc();
            registry
        };
        let all = registry("controllers");
        all.register(Box::new(OfPart(registry("node")))).unwrap();
        assert_eq!(
            TextEncoder::new().encode_to_string(&all.gather()).unwrap(),
            "# HELP operations Operations\n# TYPE operations counter\n\
             operations{part=\"controllers\"} 1\noperations{part=\"node\"} 1\n"
        );
    }
}
