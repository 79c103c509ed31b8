//! The metrics of autoscalers: what specs ask for, and what statuses report.

use steersman_api::{ArcStr, Quantity};
use steersman_informer::{Interned, projection};

use super::TargetReference;
use crate::selector::SelectorSpec;

projection! {
    /// A metric of an autoscaler's spec. The source that `kind` names is set.
    pub struct MetricSpec {
        /// `Object`, `Pods`, `Resource`, `ContainerResource` or `External`.
        pub kind: Interned = 1 "type",
        /// A metric of an object.
        pub object: Option<Box<ObjectMetric>> = 2 "object",
        /// A metric of each pod.
        pub pods: Option<Box<PodsMetric>> = 3 "pods",
        /// What pods use of a resource.
        pub resource: Option<Box<ResourceMetric>> = 4 "resource",
        /// A metric that belongs to no object of the cluster.
        pub external: Option<Box<ExternalMetric>> = 5 "external",
        /// What one container of each pod uses of a resource.
        pub container_resource: Option<Box<ContainerResourceMetric>> = 7 "containerResource",
    }

    /// A metric of an object.
    pub struct ObjectMetric {
        /// The object, in the autoscaler's namespace.
        pub described_object: TargetReference = 1 "describedObject",
        /// The value to aim at.
        pub target: MetricTarget = 2 "target",
        /// The metric.
        pub metric: MetricIdentifier = 3 "metric",
    }

    /// A metric of each pod.
    pub struct PodsMetric {
        /// The metric.
        pub metric: MetricIdentifier = 1 "metric",
        /// The value to aim at.
        pub target: MetricTarget = 2 "target",
    }

    /// What pods use of a resource.
    pub struct ResourceMetric {
        /// The resource.
        pub name: Interned = 1 "name",
        /// The value to aim at.
        pub target: MetricTarget = 2 "target",
    }

    /// What one container of each pod uses of a resource.
    pub struct ContainerResourceMetric {
        /// The resource.
        pub name: Interned = 1 "name",
        /// The value to aim at.
        pub target: MetricTarget = 2 "target",
        /// The container.
        pub container: Interned = 3 "container",
    }

    /// A metric that belongs to no object of the cluster.
    pub struct ExternalMetric {
        /// The metric.
        pub metric: MetricIdentifier = 1 "metric",
        /// The value to aim at.
        pub target: MetricTarget = 2 "target",
    }

    /// Names a metric.
    pub struct MetricIdentifier {
        /// The metric's name.
        pub name: Interned = 1 "name",
        /// Selects the metric's series. `None` is no restriction.
        pub selector: Option<SelectorSpec> = 2 "selector",
    }

    /// The value of a metric to aim at.
    pub struct MetricTarget {
        /// `Utilization`, `Value` or `AverageValue`.
        pub kind: Interned = 1 "type",
        /// A value for all pods together.
        pub value: Option<Quantity> = 2 "value",
        /// A value for each pod.
        pub average_value: Option<Quantity> = 3 "averageValue",
        /// A percentage of what the pods request.
        pub average_utilization: Option<i32> = 4 "averageUtilization",
    }

    /// The value of a metric at the last sync. The source that `kind` names is set; all are empty if the value is unknown.
    pub struct MetricStatus {
        /// As [`MetricSpec::kind`].
        pub kind: Interned = 1 "type",
        /// The value of an object's metric.
        pub object: Option<Box<ObjectMetricStatus>> = 2 "object",
        /// The average of the pods' metric.
        pub pods: Option<Box<PodsMetricStatus>> = 3 "pods",
        /// What the pods use of a resource.
        pub resource: Option<Box<ResourceMetricStatus>> = 4 "resource",
        /// The value of an external metric.
        pub external: Option<Box<ExternalMetricStatus>> = 5 "external",
        /// What the containers use of a resource.
        pub container_resource: Option<Box<ContainerResourceMetricStatus>> = 7 "containerResource",
    }

    /// The value of an object's metric.
    pub struct ObjectMetricStatus {
        /// The metric.
        pub metric: MetricIdentifier = 1 "metric",
        /// The value.
        pub current: MetricValue = 2 "current",
        /// The object.
        pub described_object: TargetReference = 3 "describedObject",
    }

    /// The average of the pods' metric.
    pub struct PodsMetricStatus {
        /// The metric.
        pub metric: MetricIdentifier = 1 "metric",
        /// The value.
        pub current: MetricValue = 2 "current",
    }

    /// What the pods use of a resource.
    pub struct ResourceMetricStatus {
        /// The resource.
        pub name: Interned = 1 "name",
        /// The value.
        pub current: MetricValue = 2 "current",
    }

    /// What the containers use of a resource.
    pub struct ContainerResourceMetricStatus {
        /// The resource.
        pub name: Interned = 1 "name",
        /// The value.
        pub current: MetricValue = 2 "current",
        /// The container.
        pub container: Interned = 3 "container",
    }

    /// The value of an external metric.
    pub struct ExternalMetricStatus {
        /// The metric.
        pub metric: MetricIdentifier = 1 "metric",
        /// The value.
        pub current: MetricValue = 2 "current",
    }

    /// The value of a metric.
    pub struct MetricValue {
        /// A value for all pods together.
        pub value: Option<Quantity> = 1 "value",
        /// The average of the pods' values.
        pub average_value: Option<Quantity> = 2 "averageValue",
        /// The average of the pods' values, as a percentage of what they request.
        pub average_utilization: Option<i32> = 3 "averageUtilization",
    }
}

impl MetricIdentifier {
    /// The metric as Go prints it in `%s(%+v)` of its name and its selector.
    pub fn go_text(&self) -> ArcStr {
        let selector = self.selector.as_ref().map_or_else(|| "nil".to_owned(), SelectorSpec::go_text);
        format!("{}({selector})", self.name).into()
    }
}
