//! The cached fields of ReplicaSets, in groups.

use steersman_informer::wire::Opaque;
use steersman_informer::{kind, projection};

use super::annotation::Annotations;
use super::condition::WorkloadCondition;
use super::pod_template::LabelledTemplate;
use super::selector::SelectorSpec;

projection! {
    /// A ReplicaSet's spec without its pod template.
    pub struct ReplicaSetSpec {
        /// The wanted number of pods. The API server sets it to 1 if it is absent.
        pub replicas: Option<i32> = 1 "replicas",
        /// How long a pod must be ready until it counts as available, in seconds.
        pub min_ready_seconds: i32 = 4 "minReadySeconds",
        /// Selects the ReplicaSet's pods. The API server requires it.
        pub selector: Option<SelectorSpec> = 2 "selector",
    }

    /// The template of the ReplicaSet's pods.
    pub struct ReplicaSetTemplate {
        /// The whole `PodTemplateSpec`, as the API server encoded it.
        pub template: Opaque = 3 "template",
    }

    /// The labels of the template of the ReplicaSet's pods.
    pub struct TemplateLabels {
        /// The template.
        pub template: LabelledTemplate = 3 "template",
    }

    /// A ReplicaSet's annotations.
    pub struct ReplicaSetAnnotations {
        /// The annotations, by key, without `kubectl.kubernetes.io/last-applied-configuration`.
        pub annotations: Annotations = 12 "annotations",
    }

    /// A ReplicaSet's status.
    pub struct ReplicaSetStatus {
        /// The number of active pods: neither finished nor being deleted.
        pub replicas: i32 = 1 "replicas",
        /// The number of active pods that have all labels of the template.
        pub fully_labeled_replicas: i32 = 2 "fullyLabeledReplicas",
        /// The number of active pods that are ready.
        pub ready_replicas: i32 = 4 "readyReplicas",
        /// The number of active pods that have been ready for `min_ready_seconds`.
        pub available_replicas: i32 = 5 "availableReplicas",
        /// The number of pods that are being deleted and have not finished. `None` if the controller that wrote
        /// the status does not count them, such as that of Kubernetes 1.34.
        pub terminating_replicas: Option<i32> = 7 "terminatingReplicas",
        /// The generation of the ReplicaSet that the status describes.
        pub observed_generation: i64 = 3 "observedGeneration",
        /// The conditions, at most one of each type.
        pub conditions: Vec<WorkloadCondition> = 6 "conditions",
    }
}

kind! {
    /// A ReplicaSet.
    pub struct ReplicaSet("apps", "v1", "replicasets") {
        annotations: ReplicaSetAnnotations = 1 "metadata",
        spec: ReplicaSetSpec = 2 "spec",
        template: ReplicaSetTemplate = 2 "spec",
        template_labels: TemplateLabels = 2 "spec",
        status: ReplicaSetStatus = 3 "status",
    }
}
