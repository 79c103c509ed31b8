//! The cached fields of ServiceCIDRs, in groups.

use ipnet::IpNet;
use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{kind, projection};

use super::condition::MetaCondition;

projection! {
    /// The ranges from which services get their addresses.
    pub struct ServiceCidrSpec {
        /// The ranges: at most one of each IP family.
        pub cidrs: Ranges = 1 "cidrs",
    }

    /// Whether services get addresses from the ranges.
    pub struct ServiceCidrStatus {
        /// The conditions, at most one of each type.
        pub conditions: Vec<MetaCondition> = 1 "conditions",
    }
}

/// Ranges of IP addresses. Leaves out what is no range; the API server stores nothing of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(pub Vec<IpNet>);

impl Ranges {
    fn add(&mut self, text: &str) {
        self.0.extend(text.parse::<IpNet>());
    }
}

impl FieldValue for Ranges {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.add(field.text()?);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut ranges = Self::default();
        Vec::<ArcStr>::from_json(deserializer)?.iter().for_each(|text| ranges.add(text));
        Ok(ranges)
    }
}

kind! {
    /// Ranges from which services get their addresses.
    pub struct ServiceCIDR("networking.k8s.io", "v1", "servicecidrs") {
        spec: ServiceCidrSpec = 2 "spec",
        status: ServiceCidrStatus = 3 "status",
    }
}
