//! Which hints the endpoints of a service have.

use steersman_informer::View;
use steersman_kinds::service::{Hinting, Routing};

use super::traffic_distribution::TrafficDistribution;
use crate::membership::RoutedService;

/// Which hints the endpoints of a service have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Topology aware hints, for the annotation. It has precedence over the field.
    Topology,
    /// Those of the field `trafficDistribution`.
    Distribution(TrafficDistribution),
    /// None.
    None,
}

impl Mode {
    /// The hints that a service asks for.
    pub(super) fn of(service: &View<RoutedService>) -> Self {
        if service.get::<Hinting>().mode.is_auto() {
            return Self::Topology;
        }
        let distribution = service.get::<Routing>().traffic_distribution.as_deref();
        distribution.and_then(TrafficDistribution::of).map_or(Self::None, Self::Distribution)
    }
}
