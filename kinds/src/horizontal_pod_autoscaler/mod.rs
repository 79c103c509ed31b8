//! The cached fields of HorizontalPodAutoscalers, in groups.

use steersman_api::{ArcStr, Quantity, Time};
use steersman_informer::{Interned, kind, projection};

mod metric;
mod serialize;

pub use metric::{
    ContainerResourceMetric, ContainerResourceMetricStatus, ExternalMetric, ExternalMetricStatus,
    MetricIdentifier, MetricSpec, MetricStatus, MetricTarget, MetricValue, ObjectMetric, ObjectMetricStatus,
    PodsMetric, PodsMetricStatus, ResourceMetric, ResourceMetricStatus,
};

use super::condition::WorkloadCondition;

projection! {
    /// An autoscaler's spec.
    pub struct AutoscalerSpec {
        /// The object whose replicas the autoscaler sets.
        pub target: TargetReference = 1 "scaleTargetRef",
        /// The least number of replicas. `None` stands for 1.
        pub min_replicas: Option<i32> = 2 "minReplicas",
        /// The greatest number of replicas.
        pub max_replicas: i32 = 3 "maxReplicas",
        /// The metrics that the number of replicas is computed from. The API server sets one if there is none.
        pub metrics: Vec<MetricSpec> = 4 "metrics",
        /// How fast the number of replicas may change. The API server fills its rules if it is there.
        pub behavior: Option<Behavior> = 5 "behavior",
    }

    /// Names an object in the autoscaler's namespace.
    #[derive(Eq, Hash)]
    pub struct TargetReference {
        /// The object's kind.
        pub kind: Interned = 1 "kind",
        /// The object's name.
        pub name: ArcStr = 2 "name",
        /// The group and the version of the kind.
        pub api_version: Interned = 3 "apiVersion",
    }

    /// How fast the number of replicas may change.
    pub struct Behavior {
        /// The rules of growth.
        pub scale_up: Option<ScalingRules> = 1 "scaleUp",
        /// The rules of shrinking.
        pub scale_down: Option<ScalingRules> = 2 "scaleDown",
    }

    /// How fast the number of replicas may change in one direction.
    pub struct ScalingRules {
        /// `Max`, `Min` or `Disabled`: which of the policies counts.
        pub select_policy: Interned = 1 "selectPolicy",
        /// The policies.
        pub policies: Vec<ScalingPolicy> = 2 "policies",
        /// How far back recommendations count, in seconds.
        pub stabilization_window_seconds: Option<i32> = 3 "stabilizationWindowSeconds",
        /// The change of the ratio of usage to target that has no effect.
        pub tolerance: Option<Quantity> = 4 "tolerance",
    }

    /// A bound of the change within a period.
    #[derive(Eq)]
    pub struct ScalingPolicy {
        /// `Pods` or `Percent`.
        pub kind: Interned = 1 "type",
        /// The greatest change, as a number of pods or a percentage.
        pub value: i32 = 2 "value",
        /// The length of the period in seconds.
        pub period_seconds: i32 = 3 "periodSeconds",
    }

    /// An autoscaler's status.
    pub struct AutoscalerStatus {
        /// Not set by any version since 1.8; a write of the status unsets it.
        pub observed_generation: Option<i64> = 1 "observedGeneration",
        /// When the autoscaler last changed the number of replicas.
        pub last_scale_time: Option<Time> = 2 "lastScaleTime",
        /// The number of replicas before the last sync.
        pub current_replicas: i32 = 3 "currentReplicas",
        /// The number of replicas after the last sync.
        pub desired_replicas: i32 = 4 "desiredReplicas",
        /// The values of the metrics at the last sync.
        pub current_metrics: Vec<MetricStatus> = 5 "currentMetrics",
        /// The conditions, at most one of each type. Their protobuf field numbers are those of ReplicaSets.
        pub conditions: Vec<WorkloadCondition> = 6 "conditions",
    }
}

kind! {
    /// A HorizontalPodAutoscaler.
    pub struct HorizontalPodAutoscaler("autoscaling", "v2", "horizontalpodautoscalers") {
        spec: AutoscalerSpec = 2 "spec",
        status: AutoscalerStatus = 3 "status",
    }
}
