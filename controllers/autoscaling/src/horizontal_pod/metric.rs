//! What one metric of an autoscaler calls for, with upstream's words for what goes wrong.

use steersman_api::{ArcStr, Quantity};
use steersman_informer::Interned;
use steersman_kinds::horizontal_pod_autoscaler::{
    ContainerResourceMetric, ContainerResourceMetricStatus, ExternalMetric, ExternalMetricStatus,
    MetricIdentifier, MetricSpec, MetricStatus, MetricTarget, MetricValue, ObjectMetric, ObjectMetricStatus,
    PodsMetric, PodsMetricStatus, ResourceMetric, ResourceMetricStatus,
};

use super::calculator::{Proposal, Scene, sum, sum_for_each};
use super::metrics_api::Reading;
use super::pods::Samples;
use super::requests::requests;
use super::usage::Goal;

/// What a metric calls for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// The number of replicas.
    pub replicas: i32,
    /// The metric's name for people.
    pub name: String,
    /// The value for the autoscaler's status.
    pub status: MetricStatus,
}

/// Why it is not known what a metric calls for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The reason of the event and of the condition.
    pub reason: &'static str,
    /// The message of the event.
    pub message: String,
    /// What the error of the whole sync says.
    pub error: String,
    /// Whether the spec is at fault.
    pub is_spec: bool,
}

/// What the computation of a metric depends on beside the metric.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    /// The autoscaler's namespace.
    pub namespace: &'a str,
    /// The pods, and the number of replicas.
    pub scene: Scene<'a>,
    /// Whether requests of whole pods count.
    pub counts_pod_level: bool,
}

/// The value of a metric as it was read, or why it was not.
type Read<'a> = Result<&'a Reading, &'a str>;

/// Computes what a metric calls for.
///
/// # Errors
/// The metric could not be read, or says too little.
pub(super) fn evaluate(
    metric: &MetricSpec,
    setting: Setting<'_>,
    reading: Read<'_>,
) -> Result<Answer, Failure> {
    match (&*metric.kind, metric) {
        ("Object", MetricSpec { object: Some(object), .. }) => of_object(object, setting, reading),
        ("Pods", MetricSpec { pods: Some(pods), .. }) => of_pods(pods, setting, reading),
        ("Resource", MetricSpec { resource: Some(resource), .. }) => of_resource(resource, setting, reading),
        ("ContainerResource", MetricSpec { container_resource: Some(resource), .. }) => {
            of_container(resource, setting, reading)
        }
        ("External", MetricSpec { external: Some(external), .. }) => of_external(external, setting, reading),
        (kind, _) => {
            let message = format!("unknown metric source type {kind:?}");
            let error = message.clone();
            Err(Failure { reason: "InvalidMetricSourceType", message, error, is_spec: true })
        }
    }
}

fn failure(reason: &'static str, message: String, error: impl FnOnce(&str) -> String) -> Failure {
    let error = error(&message);
    Failure { reason, message, error, is_spec: false }
}

fn thousandths(target: &Quantity) -> i64 {
    target.milli_value()
}

fn value(usage: i64) -> MetricValue {
    MetricValue { value: Some(Quantity::from_milli(usage)), ..MetricValue::default() }
}

fn average(usage: i64) -> MetricValue {
    MetricValue { average_value: Some(Quantity::from_milli(usage)), ..MetricValue::default() }
}

/// Whether the metric's selector is valid.
fn check(metric: &MetricIdentifier) -> Result<(), String> {
    let compiled = metric.selector.as_ref().map(|selector| selector.to_selector());
    compiled.transpose().map(drop).map_err(|error| error.to_string())
}

fn of_object(object: &ObjectMetric, setting: Setting<'_>, reading: Read<'_>) -> Result<Answer, Failure> {
    const REASON: &str = "FailedGetObjectMetric";
    let ObjectMetric { described_object: described, target, metric } = object;
    let outer = |why: &str| format!("failed to get object metric value: {why}");
    check(metric).map_err(|why| failure(REASON, why, outer))?;
    let usage = || match reading {
        Ok(Reading::Value(value)) => Ok(*value),
        Ok(_) => Err("the metric has no single value".to_owned()),
        Err(why) => Err(format!(
            "unable to get metric {}: {why} on {} {}/{}",
            metric.name, described.kind, setting.namespace, described.name
        )),
    };
    let status = |current| MetricStatus {
        kind: "Object".into(),
        object: Some(Box::new(ObjectMetricStatus {
            metric: metric.clone(),
            current,
            described_object: described.clone(),
        })),
        ..MetricStatus::default()
    };
    match (&*target.kind, target) {
        ("Value", MetricTarget { value: Some(wanted), .. }) => {
            let proposal = usage().and_then(|usage| setting.scene.by_value(usage, thousandths(wanted)));
            let proposal = proposal.map_err(|why| failure(REASON, why, outer))?;
            let name = format!("{} metric {}", described.kind, metric.name);
            Ok(Answer { replicas: proposal.replicas, name, status: status(value(proposal.usage)) })
        }
        ("AverageValue", MetricTarget { average_value: Some(wanted), .. }) => {
            let usage = usage().map_err(|why| {
                failure(REASON, why, |why| {
                    outer(&format!("failed to get {} object metric: {why}", metric.name))
                })
            })?;
            let proposal = setting.scene.by_value_per_pod(usage, thousandths(wanted));
            let name = format!("external metric {}", metric.go_text());
            Ok(Answer { replicas: proposal.replicas, name, status: status(average(proposal.usage)) })
        }
        _ => {
            let why =
                "invalid object metric source: neither a value target nor an average value target was set";
            Err(failure(REASON, why.to_owned(), outer))
        }
    }
}

fn of_pods(pods: &PodsMetric, setting: Setting<'_>, reading: Read<'_>) -> Result<Answer, Failure> {
    let PodsMetric { metric, target } = pods;
    let compute = || {
        check(metric)?;
        let samples = match reading {
            Ok(Reading::Samples(samples)) => samples,
            Ok(_) => return Err("the metric has no values of pods".to_owned()),
            Err(why) => return Err(format!("unable to get metric {}: {why}", metric.name)),
        };
        let goal = Goal::Average(target.average_value.as_ref().map_or(0, thousandths));
        setting.scene.by_pods(samples, "", || Ok(goal))
    };
    let proposal = compute().map_err(|why| {
        failure("FailedGetPodsMetric", why, |why| format!("failed to get pods metric value: {why}"))
    })?;
    let status = PodsMetricStatus { metric: metric.clone(), current: average(proposal.usage) };
    Ok(Answer {
        replicas: proposal.replicas,
        name: format!("pods metric {}", metric.name),
        status: MetricStatus { kind: "Pods".into(), pods: Some(Box::new(status)), ..MetricStatus::default() },
    })
}

fn of_resource(
    resource: &ResourceMetric,
    setting: Setting<'_>,
    reading: Read<'_>,
) -> Result<Answer, Failure> {
    let ResourceMetric { name, target } = resource;
    let used = of_usage(name, "", target, setting, reading).map_err(|why| {
        failure("FailedGetResourceMetric", why, |why| {
            format!("failed to get {name} resource metric value: {why}")
        })
    })?;
    let status = ResourceMetricStatus { name: name.clone(), current: used.current };
    Ok(Answer {
        replicas: used.replicas,
        name: match target.average_value {
            Some(_) => format!("{name} resource"),
            None => format!("{name} resource utilization (percentage of request)"),
        },
        status: MetricStatus {
            kind: "Resource".into(),
            resource: Some(Box::new(status)),
            ..MetricStatus::default()
        },
    })
}

fn of_container(
    resource: &ContainerResourceMetric,
    setting: Setting<'_>,
    reading: Read<'_>,
) -> Result<Answer, Failure> {
    let ContainerResourceMetric { name, target, container } = resource;
    let used = of_usage(name, container, target, setting, reading).map_err(|why| {
        failure("FailedGetContainerResourceMetric", why, |why| {
            format!("failed to get {container} container metric value: {why}")
        })
    })?;
    let status = ContainerResourceMetricStatus {
        name: name.clone(),
        current: used.current,
        container: container.clone(),
    };
    Ok(Answer {
        replicas: used.replicas,
        name: match target.average_value {
            Some(_) => format!("{name} resource"),
            None => format!("{name} container resource utilization (percentage of request)"),
        },
        status: MetricStatus {
            kind: "ContainerResource".into(),
            container_resource: Some(Box::new(status)),
            ..MetricStatus::default()
        },
    })
}

/// What the usage of a resource calls for.
struct Used {
    replicas: i32,
    current: MetricValue,
}

fn of_usage(
    resource: &Interned,
    container: &str,
    target: &MetricTarget,
    setting: Setting<'_>,
    reading: Read<'_>,
) -> Result<Used, String> {
    let samples = || -> Result<Samples, String> {
        match reading {
            Ok(Reading::Usage(pods)) => Ok(pods.samples(resource, container)),
            Ok(_) => Err("the metric is no usage of pods".to_owned()),
            Err(why) => Err(format!("unable to get metrics for resource {resource}: {why}")),
        }
    };
    let quantity = |proposal: &Proposal| match &**resource {
        "memory" => Quantity::from_milli_binary(proposal.usage),
        _ => Quantity::from_milli(proposal.usage),
    };
    if let Some(wanted) = &target.average_value {
        let goal = || Ok(Goal::Average(thousandths(wanted)));
        let proposal = samples().and_then(|samples| setting.scene.by_pods(&samples, resource, goal));
        let proposal = proposal.map_err(|why| format!("failed to get {resource} usage: {why}"))?;
        let current = MetricValue { average_value: Some(quantity(&proposal)), ..MetricValue::default() };
        return Ok(Used { replicas: proposal.replicas, current });
    }
    let Some(percent) = target.average_utilization else {
        return Err(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
                .to_owned(),
        );
    };
    let goal = || {
        let requests = requests(setting.scene.pods, container, resource, setting.counts_pod_level)?;
        Ok(Goal::Utilization { percent, requests })
    };
    let proposal = samples().and_then(|samples| setting.scene.by_pods(&samples, resource, goal));
    let proposal = proposal.map_err(|why| format!("failed to get {resource} utilization: {why}"))?;
    let current = MetricValue {
        average_utilization: proposal.percent,
        average_value: Some(quantity(&proposal)),
        value: None,
    };
    Ok(Used { replicas: proposal.replicas, current })
}

fn of_external(
    external: &ExternalMetric,
    setting: Setting<'_>,
    reading: Read<'_>,
) -> Result<Answer, Failure> {
    const REASON: &str = "FailedGetExternalMetric";
    let ExternalMetric { metric, target } = external;
    let outer = |why: &str| format!("failed to get {} external metric value: {why}", metric.name);
    let values = || {
        check(metric)?;
        match reading {
            Ok(Reading::Values(values)) => Ok(values),
            Ok(_) => Err("the metric is not external".to_owned()),
            Err(why) => {
                let selector = metric.selector.as_ref().map_or_else(|| "nil".to_owned(), |one| one.go_text());
                let (namespace, name) = (setting.namespace, &metric.name);
                Err(format!("unable to get external metric {namespace}/{name}/{selector}: {why}"))
            }
        }
    };
    let (replicas, current) = if let Some(wanted) = &target.average_value {
        let values = values().map_err(|why| {
            failure(REASON, why, |why| {
                outer(&format!("failed to get {} external metric: {why}", metric.name))
            })
        })?;
        let proposal = setting.scene.by_sum_per_pod(sum_for_each(values), thousandths(wanted));
        (proposal.replicas, average(proposal.usage))
    } else if let Some(wanted) = &target.value {
        let proposal = values().and_then(|values| setting.scene.by_value(sum(values), thousandths(wanted)));
        let proposal = proposal.map_err(|why| {
            failure(REASON, why, |why| {
                outer(&format!("failed to get external metric {}: {why}", metric.name))
            })
        })?;
        (proposal.replicas, value(proposal.usage))
    } else {
        let why =
            "invalid external metric source: neither a value target nor an average value target was set";
        return Err(failure(REASON, why.to_owned(), outer));
    };
    let status = ExternalMetricStatus { metric: metric.clone(), current };
    Ok(Answer {
        replicas,
        name: format!("external metric {}", metric.go_text()),
        status: MetricStatus {
            kind: "External".into(),
            external: Some(Box::new(status)),
            ..MetricStatus::default()
        },
    })
}

/// The name of a metric's kind for the controller's own metrics.
pub(super) fn kind(metric: &MetricSpec) -> ArcStr {
    metric.kind.as_arc().clone()
}
