//! The metrics of the node and of the API server, among those of the controllers.

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

/// All that parts of the process have registered. The node and the controllers both have `storage_operation_duration_seconds`, and
/// one registry takes a family once: a registry in another one brings its series into families of the same name.
///
/// A registry takes one of these, which has no names of its own to tell it from another.
pub(super) struct OfParts(pub(super) Vec<Registry>);

impl Collector for OfParts {
    fn desc(&self) -> Vec<&Desc> {
        Vec::new()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.iter().flat_map(Registry::gather).collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{IntCounterVec, Opts, TextEncoder};

    use super::*;

    #[test]
    fn a_family_that_several_have_holds_the_series_of_all() {
        let registry = |part: &str| {
            let registry = Registry::new();
            let family = IntCounterVec::new(Opts::new("operations", "Operations"), &["part"]).unwrap();
            registry.register(Box::new(family.clone())).unwrap();
            family.with_label_values(&[part]).inc();
            registry
        };
        let all = registry("controllers");
        all.register(Box::new(OfParts(vec![registry("node"), registry("server")]))).unwrap();
        assert_eq!(
            TextEncoder::new().encode_to_string(&all.gather()).unwrap(),
            "# HELP operations Operations\n# TYPE operations counter\n\
             operations{part=\"controllers\"} 1\noperations{part=\"node\"} 1\noperations{part=\"server\"} 1\n"
        );
    }
}
