//! What is asked of the metrics APIs.

use steersman_api::ArcStr;
use steersman_informer::Interned;
use steersman_kinds::horizontal_pod_autoscaler::{MetricIdentifier, MetricSpec, TargetReference};

/// A question that autoscalers may share. Selectors are in the form of the API's queries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Query {
    /// What the containers of pods use.
    Usage {
        /// The pods' namespace.
        namespace: ArcStr,
        /// Selects the pods.
        pods: ArcStr,
    },
    /// A metric of pods.
    OfPods {
        /// The pods' namespace.
        namespace: ArcStr,
        /// Selects the pods.
        pods: ArcStr,
        /// The metric's name.
        metric: Interned,
        /// Selects the metric's series.
        series: ArcStr,
    },
    /// A metric of an object.
    OfObject {
        /// The object's namespace.
        namespace: ArcStr,
        /// The object.
        object: TargetReference,
        /// The metric's name.
        metric: Interned,
        /// Selects the metric's series.
        series: ArcStr,
    },
    /// An external metric.
    External {
        /// The autoscaler's namespace.
        namespace: ArcStr,
        /// The metric's name.
        metric: Interned,
        /// Selects the metric's series.
        series: ArcStr,
    },
}

impl Query {
    /// The query for a metric. `None` for an unknown kind of metric, and for an invalid selector.
    pub(super) fn of(metric: &MetricSpec, namespace: &ArcStr, pods: &ArcStr) -> Option<Self> {
        let (namespace, pods) = (namespace.clone(), pods.clone());
        Some(match &*metric.kind {
            "Resource" | "ContainerResource" => Self::Usage { namespace, pods },
            "Pods" => {
                let MetricIdentifier { name, .. } = &metric.pods.as_ref()?.metric;
                let series = series(&metric.pods.as_ref()?.metric)?;
                Self::OfPods { namespace, pods, metric: name.clone(), series }
            }
            "Object" => {
                let object = metric.object.as_ref()?;
                Self::OfObject {
                    namespace,
                    object: object.described_object.clone(),
                    metric: object.metric.name.clone(),
                    series: series(&object.metric)?,
                }
            }
            "External" => {
                let external = metric.external.as_ref()?;
                let series = series(&external.metric)?;
                Self::External { namespace, metric: external.metric.name.clone(), series }
            }
            _ => return None,
        })
    }
}

/// The selector of a metric's series as a query. Empty if there is none.
fn series(metric: &MetricIdentifier) -> Option<ArcStr> {
    match &metric.selector {
        None => Some(ArcStr::new()),
        Some(selector) => Some(selector.to_selector().ok()?.to_string().into()),
    }
}
