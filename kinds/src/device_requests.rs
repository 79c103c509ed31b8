//! The requests of a claim of devices, or of its template, as far as controllers tell them apart.

use serde::Deserialize;
use serde::de::IgnoredAny;
use steersman_informer::projection;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

/// Facts about all requests of a claim. Declare it as the field `devices` of the claim's spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// Whether a request asks for administrative access, that is, for devices that may be in use. Alternatives of a request
    /// never do.
    pub admin_access: bool,
    /// Whether a request names alternatives.
    pub alternatives: bool,
}

projection! {
    /// The field `devices`.
    struct Devices {
        pub requests: Vec<Request> = 1 "requests",
    }

    /// A request.
    struct Request {
        pub exactly: Exactly = 2 "exactly",
        pub alternatives: IsFilled = 3 "firstAvailable",
    }

    /// A request without alternatives.
    struct Exactly {
        pub admin_access: bool = 5 "adminAccess",
    }
}

/// Whether a list has an item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct IsFilled(bool);

impl FieldValue for IsFilled {
    fn merge(&mut self, _: Field<'_>) -> Result<(), WireError> {
        self.0 = true;
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<IgnoredAny>::deserialize(deserializer).map(|items| Self(!items.is_empty()))
    }
}

impl RequestFacts {
    fn add(&mut self, devices: &Devices) {
        self.admin_access |= devices.requests.iter().any(|request| request.exactly.admin_access);
        self.alternatives |= devices.requests.iter().any(|request| request.alternatives.0);
    }
}

impl FieldValue for RequestFacts {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut devices = Devices::default();
        devices.merge(field)?;
        self.add(&devices);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut facts = Self::default();
        facts.add(&Devices::from_json(deserializer)?);
        Ok(facts)
    }
}
