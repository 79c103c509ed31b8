//! The cached fields of ResourceClaimTemplates, in groups.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, Opaque, WireError};
use steersman_informer::{kind, projection};

use super::device_requests::RequestFacts;

/// The metadata and the spec of the claims to come, as the API server encoded them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimTemplate(pub Opaque);

impl FieldValue for ClaimTemplate {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Opaque::from_json(deserializer).map(Self)
    }
}

projection! {
    /// What the claims to come ask for.
    pub struct TemplateRequests {
        /// Their spec.
        pub spec: TemplateSpec = 2 "spec",
    }

    /// The spec of the claims to come.
    pub struct TemplateSpec {
        /// Facts about the requests.
        pub requests: RequestFacts = 1 "devices",
    }
}

kind! {
    /// A template of claims of devices.
    pub struct ResourceClaimTemplate("resource.k8s.io", "v1", "resourceclaimtemplates") {
        template: ClaimTemplate = 2 "spec",
        requests: TemplateRequests = 2 "spec",
    }
}
