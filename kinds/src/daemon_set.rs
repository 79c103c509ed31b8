//! The cached fields of DaemonSets, in groups.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, IntOrString, Opaque, WireError};
use steersman_informer::{Interned, kind, projection};

use super::annotation;
use super::scheduling::ScheduledTemplate;
use super::selector::SelectorSpec;

projection! {
    /// A DaemonSet's spec without its pod template.
    pub struct DaemonSetSpec {
        /// Selects the DaemonSet's pods. The API server requires it.
        pub selector: Option<SelectorSpec> = 1 "selector",
        /// How pods of an older template are replaced.
        pub update_strategy: UpdateStrategy = 3 "updateStrategy",
        /// How long a pod must be ready until it counts as available, in seconds.
        pub min_ready_seconds: i32 = 4 "minReadySeconds",
        /// The number of revisions to keep that no pod has. The API server sets it to 10 if it is absent.
        pub revision_history_limit: Option<i32> = 6 "revisionHistoryLimit",
    }

    /// How pods of an older template are replaced.
    pub struct UpdateStrategy {
        /// `RollingUpdate` or `OnDelete`.
        pub kind: Interned = 1 "type",
        /// The settings of `RollingUpdate`.
        pub rolling_update: Option<RollingUpdate> = 2 "rollingUpdate",
    }

    /// The settings of a rolling update: numbers, or percentages of the nodes that must have a pod.
    pub struct RollingUpdate {
        /// How many pods may be unavailable because of the update. The API server sets it to 1 if it is absent.
        pub max_unavailable: Option<IntOrString> = 1 "maxUnavailable",
        /// How many nodes may have a new pod beside their available old one. The API server sets it to 0 if it is absent.
        pub max_surge: Option<IntOrString> = 2 "maxSurge",
    }

    /// The template of the DaemonSet's pods.
    pub struct DaemonSetTemplate {
        /// The whole `PodTemplateSpec`, as the API server encoded it.
        pub template: Opaque = 2 "template",
    }

    /// The part of the template that says on which nodes the DaemonSet's pods run.
    pub struct TemplateRules {
        /// The template.
        pub template: ScheduledTemplate = 2 "template",
    }

    /// The number of the template, which the API server of older versions counted.
    pub struct Generation {
        /// The annotation's value.
        pub template: TemplateGeneration = 12 "annotations",
    }

    /// A DaemonSet's status.
    pub struct DaemonSetStatus {
        /// The number of nodes that must have a pod and have one.
        pub current_number_scheduled: i32 = 1 "currentNumberScheduled",
        /// The number of nodes that have a pod and must not have one.
        pub number_misscheduled: i32 = 2 "numberMisscheduled",
        /// The number of nodes that must have a pod.
        pub desired_number_scheduled: i32 = 3 "desiredNumberScheduled",
        /// The number of nodes that must have a pod and whose pod is ready.
        pub number_ready: i32 = 4 "numberReady",
        /// The generation of the DaemonSet that the status describes.
        pub observed_generation: i64 = 5 "observedGeneration",
        /// The number of nodes that must have a pod and whose pod has the current template.
        pub updated_number_scheduled: i32 = 6 "updatedNumberScheduled",
        /// The number of nodes that must have a pod and whose pod has been ready for `min_ready_seconds`.
        pub number_available: i32 = 7 "numberAvailable",
        /// The number of nodes that must have a pod and have no available one.
        pub number_unavailable: i32 = 8 "numberUnavailable",
        /// How often the name of a new revision was taken by a revision with another template.
        pub collision_count: Option<i32> = 9 "collisionCount",
    }
}

/// The annotation with the number of a DaemonSet's template. Pods have it in the label `pod-template-generation`.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The value of the annotation [`TEMPLATE_GENERATION`]. `None` if the annotation is absent, or its value is not a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemplateGeneration(pub Option<i64>);

impl TemplateGeneration {
    fn parse(value: &str) -> Self {
        Self(value.parse().ok())
    }
}

impl FieldValue for TemplateGeneration {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, TEMPLATE_GENERATION)? {
            *self = Self::parse(value);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, TEMPLATE_GENERATION, Self::parse)
    }
}

kind! {
    /// A DaemonSet.
    pub struct DaemonSet("apps", "v1", "daemonsets") {
        spec: DaemonSetSpec = 2 "spec",
        template: DaemonSetTemplate = 2 "spec",
        rules: TemplateRules = 2 "spec",
        generation: Generation = 1 "metadata",
        status: DaemonSetStatus = 3 "status",
    }
}
