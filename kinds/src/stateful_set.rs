//! The cached fields of StatefulSets, in groups.

use serde::Deserialize;
use serde::de::Error;
use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, IntOrString, Opaque, WireError};
use steersman_informer::{Interned, kind, projection};

use super::annotation;
use super::selector::SelectorSpec;

projection! {
    /// A StatefulSet's spec without its templates.
    pub struct StatefulSetSpec {
        /// The number of pods that the set shall have. The API server sets it to 1 if it is absent.
        pub replicas: Option<i32> = 1 "replicas",
        /// Selects the set's pods. The API server requires it.
        pub selector: Option<SelectorSpec> = 2 "selector",
        /// The headless service in whose domain the pods' names are.
        pub service_name: ArcStr = 5 "serviceName",
        /// `OrderedReady` or `Parallel`.
        pub pod_management_policy: Interned = 6 "podManagementPolicy",
        /// How pods get a new template.
        pub update_strategy: UpdateStrategy = 7 "updateStrategy",
        /// How many revisions are kept besides those that pods have. The API server sets it to 10 if it is absent.
        pub revision_history_limit: Option<i32> = 8 "revisionHistoryLimit",
        /// How long a pod must be ready until it counts as available, in seconds.
        pub min_ready_seconds: i32 = 9 "minReadySeconds",
        /// What becomes of claims that no pod needs any more. If it is absent, they stay.
        pub claim_retention: Option<ClaimRetention> = 10 "persistentVolumeClaimRetentionPolicy",
        /// How the pods are numbered. If it is absent, from zero.
        pub ordinals: Option<Ordinals> = 11 "ordinals",
    }

    /// How pods get a new template.
    pub struct UpdateStrategy {
        /// `RollingUpdate` or `OnDelete`.
        pub kind: Interned = 1 "type",
        /// The parameters of `RollingUpdate`.
        pub rolling_update: Option<RollingUpdate> = 2 "rollingUpdate",
    }

    /// The parameters of a rolling update.
    pub struct RollingUpdate {
        /// The number of pods, from the first, that keep the current revision. The API server sets it to 0 if it is absent.
        pub partition: Option<i32> = 1 "partition",
        /// The number or percentage of pods that may be unavailable. Only with the gate `MaxUnavailableStatefulSet`.
        pub max_unavailable: Option<IntOrString> = 2 "maxUnavailable",
    }

    /// What becomes of claims that no pod needs any more.
    pub struct ClaimRetention {
        /// `Retain` or `Delete`: when the set is deleted.
        pub when_deleted: Interned = 1 "whenDeleted",
        /// `Retain` or `Delete`: when the set is scaled down.
        pub when_scaled: Interned = 2 "whenScaled",
    }

    /// How pods are numbered.
    pub struct Ordinals {
        /// The number of the first pod.
        pub start: i32 = 1 "start",
    }

    /// The templates of the set's pods and their claims.
    pub struct StatefulSetTemplates {
        /// The whole `PodTemplateSpec`, as the API server encoded it.
        pub template: Opaque = 3 "template",
        /// The templates of the claims that each pod has for itself.
        pub claims: Vec<ClaimTemplate> = 4 "volumeClaimTemplates",
    }

    /// What the set's annotations ask of Steersman.
    pub struct Repair {
        /// Whether pods of broken revisions are replaced.
        pub broken_pods: ReplacesBrokenPods = 12 "annotations",
    }

    /// A StatefulSet's status.
    pub struct StatefulSetStatus {
        /// The generation that the status describes.
        pub observed_generation: i64 = 1 "observedGeneration",
        /// The number of pods.
        pub replicas: i32 = 2 "replicas",
        /// The number of pods that are ready.
        pub ready_replicas: i32 = 3 "readyReplicas",
        /// The number of pods of the current revision.
        pub current_replicas: i32 = 4 "currentReplicas",
        /// The number of pods of the update revision.
        pub updated_replicas: i32 = 5 "updatedReplicas",
        /// The name of the revision that a rolling update comes from.
        pub current_revision: ArcStr = 6 "currentRevision",
        /// The name of the revision that a rolling update leads to.
        pub update_revision: ArcStr = 7 "updateRevision",
        /// How often the name of a new revision was taken.
        pub collision_count: Option<i32> = 9 "collisionCount",
        /// The number of pods that have been ready for `min_ready_seconds`.
        pub available_replicas: i32 = 11 "availableReplicas",
    }

    /// A part of a claim's template.
    struct ClaimHead {
        pub metadata: ClaimName = 1 "metadata",
    }

    /// A part of the metadata of a claim's template.
    struct ClaimName {
        pub name: ArcStr = 1 "name",
    }
}

/// A `PersistentVolumeClaim` from which each pod's own claim is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimTemplate {
    /// The template's name, which is also that of the pod's volume.
    pub name: ArcStr,
    /// The whole claim, as the API server encoded it.
    pub claim: Opaque,
}

impl FieldValue for ClaimTemplate {
    fn heap_bytes(&self) -> usize {
        self.name.heap_bytes() + self.claim.heap_bytes()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut head = ClaimHead::default();
        head.merge(field)?;
        self.name = head.metadata.name;
        self.claim.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Head {
            metadata: Name,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Name {
            name: String,
        }
        let claim = Opaque::from_json(deserializer)?;
        let Opaque::Json(text) = &claim else {
            return Err(D::Error::custom("a claim's template is no JSON"));
        };
        let head: Head = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { name: head.metadata.name.as_str().into(), claim })
    }
}

/// The annotation that asks for pods of broken revisions to be replaced.
pub const REPLACE_BROKEN_PODS: &str = "steersman.io/replace-broken-pods";

/// Whether the value of the annotation [`REPLACE_BROKEN_PODS`] is `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplacesBrokenPods(pub bool);

impl ReplacesBrokenPods {
    fn parse(value: &str) -> Self {
        Self(value == "true")
    }
}

impl FieldValue for ReplacesBrokenPods {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, REPLACE_BROKEN_PODS)? {
            *self = Self::parse(value);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, REPLACE_BROKEN_PODS, Self::parse)
    }
}

kind! {
    /// A StatefulSet.
    pub struct StatefulSet("apps", "v1", "statefulsets") {
        spec: StatefulSetSpec = 2 "spec",
        templates: StatefulSetTemplates = 2 "spec",
        repair: Repair = 1 "metadata",
        status: StatefulSetStatus = 3 "status",
    }
}
