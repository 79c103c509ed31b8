//! The cached fields of Deployments, in groups.

use steersman_api::Time;
use steersman_api::condition::ConditionStatus;
use steersman_informer::intern::Repeated;
use steersman_informer::wire::{IntOrString, Opaque};
use steersman_informer::{Interned, kind, projection};

use super::annotation::Annotations;
use super::selector::SelectorSpec;

projection! {
    /// A Deployment's spec without its pod template.
    pub struct DeploymentSpec {
        /// The number of pods that the Deployment shall have. The API server sets it to 1 if it is absent.
        pub replicas: Option<i32> = 1 "replicas",
        /// Selects the Deployment's ReplicaSets and pods. The API server requires it.
        pub selector: Option<SelectorSpec> = 2 "selector",
        /// How new pods replace old ones.
        pub strategy: DeploymentStrategy = 4 "strategy",
        /// How long a pod must be ready until it counts as available, in seconds.
        pub min_ready_seconds: i32 = 5 "minReadySeconds",
        /// The number of old ReplicaSets that are kept, so that users can roll back to them.
        pub revision_history_limit: Option<i32> = 6 "revisionHistoryLimit",
        /// Whether the rollout is paused.
        pub paused: bool = 7 "paused",
        /// How long a rollout may make no progress until it counts as failed, in seconds.
        pub progress_deadline_seconds: Option<i32> = 9 "progressDeadlineSeconds",
    }

    /// How new pods replace old ones.
    pub struct DeploymentStrategy {
        /// `RollingUpdate` or `Recreate`.
        pub kind: Interned = 1 "type",
        /// The bounds of a rolling update. The API server sets them.
        pub rolling_update: RollingUpdate = 2 "rollingUpdate",
    }

    /// The bounds of a rolling update, as numbers of pods or percentages of `replicas`.
    pub struct RollingUpdate {
        /// How many pods may be unavailable.
        pub max_unavailable: IntOrString = 1 "maxUnavailable",
        /// How many pods there may be beyond `replicas`.
        pub max_surge: IntOrString = 2 "maxSurge",
    }

    /// The template of the Deployment's pods.
    pub struct DeploymentTemplate {
        /// The whole `PodTemplateSpec`, as the API server encoded it.
        pub template: Opaque = 3 "template",
    }

    /// A Deployment's annotations.
    pub struct DeploymentAnnotations {
        /// The annotations, by key, without `kubectl.kubernetes.io/last-applied-configuration`.
        pub annotations: Annotations = 12 "annotations",
    }

    /// A Deployment's status.
    pub struct DeploymentStatus {
        /// The generation of the Deployment that the status describes.
        pub observed_generation: i64 = 1 "observedGeneration",
        /// The number of active pods.
        pub replicas: i32 = 2 "replicas",
        /// The number of active pods that were made from the current template.
        pub updated_replicas: i32 = 3 "updatedReplicas",
        /// The number of active pods that have been ready for `min_ready_seconds`.
        pub available_replicas: i32 = 4 "availableReplicas",
        /// The number of wanted pods that are not available.
        pub unavailable_replicas: i32 = 5 "unavailableReplicas",
        /// The conditions, at most one of each type.
        pub conditions: Vec<DeploymentCondition> = 6 "conditions",
        /// The number of active pods that are ready.
        pub ready_replicas: i32 = 7 "readyReplicas",
        /// The number of times that the name of a new ReplicaSet was taken. It changes the hash in the next name.
        pub collision_count: Option<i32> = 8 "collisionCount",
        /// The number of pods that are being deleted and have not finished. `None` if it is not known.
        pub terminating_replicas: Option<i32> = 9 "terminatingReplicas",
    }

    /// A condition of a Deployment.
    pub struct DeploymentCondition {
        /// The condition's type, such as `Progressing`.
        pub kind: Interned = 1 "type",
        /// Whether the condition holds.
        pub status: ConditionStatus = 2 "status",
        /// When the condition was last updated.
        pub last_update_time: Option<Time> = 6 "lastUpdateTime",
        /// When `status` last changed.
        pub last_transition_time: Option<Time> = 7 "lastTransitionTime",
        /// Why the condition was last updated, in one word for programs.
        pub reason: Interned = 4 "reason",
        /// Why the condition was last updated, for people.
        pub message: Repeated = 5 "message",
    }
}

kind! {
    /// A Deployment.
    pub struct Deployment("apps", "v1", "deployments") {
        annotations: DeploymentAnnotations = 1 "metadata",
        spec: DeploymentSpec = 2 "spec",
        template: DeploymentTemplate = 2 "spec",
        status: DeploymentStatus = 3 "status",
    }
}
