//! The cached fields of ReplicationControllers, in groups.

use steersman_api::meta::LabelMap;
use steersman_informer::wire::Opaque;
use steersman_informer::{kind, projection};

use super::condition::WorkloadCondition;
use super::pod_template::LabelledTemplate;

projection! {
    /// A ReplicationController's spec without its pod template.
    pub struct ReplicationControllerSpec {
        /// The wanted number of pods. The API server sets it to 1 if it is absent.
        pub replicas: Option<i32> = 1 "replicas",
        /// How long a pod must be ready until it counts as available, in seconds.
        pub min_ready_seconds: i32 = 4 "minReadySeconds",
        /// The labels that the pods must have, with their values. The API server sets it to the template's labels if it
        /// is empty.
        pub selector: LabelMap = 2 "selector",
    }

    /// The template of the ReplicationController's pods.
    pub struct ReplicationControllerTemplate {
        /// The whole `PodTemplateSpec`, as the API server encoded it. Its type in the API is a pointer, but the API server
        /// requires it.
        pub template: Opaque = 3 "template",
    }

    /// The labels of the template of the ReplicationController's pods.
    pub struct TemplateLabels {
        /// The template.
        pub template: LabelledTemplate = 3 "template",
    }

    /// A ReplicationController's status.
    pub struct ReplicationControllerStatus {
        /// The number of active pods: neither finished nor being deleted.
        pub replicas: i32 = 1 "replicas",
        /// The number of active pods that have all labels of the template.
        pub fully_labeled_replicas: i32 = 2 "fullyLabeledReplicas",
        /// The number of active pods that are ready.
        pub ready_replicas: i32 = 4 "readyReplicas",
        /// The number of active pods that have been ready for `min_ready_seconds`.
        pub available_replicas: i32 = 5 "availableReplicas",
        /// The generation of the ReplicationController that the status describes.
        pub observed_generation: i64 = 3 "observedGeneration",
        /// The conditions, at most one of each type.
        pub conditions: Vec<WorkloadCondition> = 6 "conditions",
    }
}

kind! {
    /// A ReplicationController.
    pub struct ReplicationController("", "v1", "replicationcontrollers") {
        spec: ReplicationControllerSpec = 2 "spec",
        template: ReplicationControllerTemplate = 2 "spec",
        template_labels: TemplateLabels = 2 "spec",
        status: ReplicationControllerStatus = 3 "status",
    }
}
