//! What the metrics and the limits make of an autoscaler.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_api::ArcStr;
use steersman_api::condition::ConditionStatus;
use steersman_kinds::horizontal_pod_autoscaler::MetricStatus;
use tokio::time::Instant;

use super::behavior::Speed;
use super::calculator::Scene;
use super::history::{Change, History, Recommendation};
use super::limits::{Limited, Range, with_behavior, without_behavior};
use super::metric::{Setting, evaluate, kind};
use super::observed::{Autoscaler, Fetched, Notice, Observed, Target};
use super::pods::StartUp;
use super::status::{ABLE_TO_SCALE, SCALED_TO_ZERO, SCALING_ACTIVE, SCALING_LIMITED, Status, Verdict};
use super::tolerance::Tolerances;

/// The flags and gates that decisions depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// How far usage may be off its target without effect.
    pub tolerance: f64,
    /// How far back recommendations keep replicas from being removed.
    pub window: Duration,
    /// How new pods count.
    pub start_up: StartUp,
    /// Whether a behavior may set tolerances: the gate `HPAConfigurableTolerance`.
    pub own_tolerances: bool,
    /// Whether all replicas may be removed: the gate `HPAScaleToZero`.
    pub scale_to_zero: bool,
    /// Whether requests of whole pods count: the gate `PodLevelResources`.
    pub pod_level_resources: bool,
}

/// The current time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// By the wall clock, as pods and metrics are stamped.
    pub wall: Timestamp,
    /// By the monotonic clock, for windows and periods.
    pub instant: Instant,
}

/// What the metrics and the limits make of an autoscaler.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// The status with new conditions, and without new numbers.
    pub status: Status,
    /// The values of the metrics.
    pub metrics: Vec<MetricStatus>,
    /// The events to record.
    pub notices: Vec<Notice>,
    /// What to remember.
    pub history: History,
    /// The computations of metrics that were made.
    pub computations: Vec<Computation>,
    /// What to do.
    pub ending: Ending,
    /// Why some of the metrics failed, if others sufficed.
    pub error: Option<String>,
}

/// What to do about the number of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing: the metrics do not tell, for this reason.
    Failed(String),
    /// Nothing.
    Keep,
    /// Set it.
    Rescale {
        /// The number of replicas.
        replicas: i32,
        /// Why, for people.
        reason: String,
    },
}

/// A computation of a metric, for the controller's own metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Computation {
    /// The kind of metric.
    pub kind: ArcStr,
    /// `scale_up`, `scale_down` or `none`.
    pub action: &'static str,
    /// `spec`, `internal` or `none`.
    pub error: &'static str,
    /// How long it took to read the metric.
    pub took: Duration,
}

/// What becomes of an autoscaler before its metrics are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// The metrics decide.
    Metrics,
    /// Someone has set the number of replicas to zero.
    Disabled,
    /// The number of replicas is out of bounds. It becomes this one, for this reason.
    Bound(i32, &'static str),
}

impl Course {
    /// What becomes of an autoscaler whose target has this wanted number of replicas.
    pub(super) fn of(autoscaler: &Autoscaler, wanted: i32, settings: Settings) -> Self {
        let (min, max) = (autoscaler.min(), autoscaler.spec.max_replicas);
        if wanted == 0 {
            let own = settings.scale_to_zero && autoscaler.status.holds(SCALED_TO_ZERO);
            let grows = own && (min != 0 || autoscaler.has_metrics_without_pods());
            return if grows { Self::Metrics } else { Self::Disabled };
        }
        if wanted > max {
            return Self::Bound(max, "Current number of replicas above Spec.MaxReplicas");
        }
        if wanted < min {
            return Self::Bound(min, "Current number of replicas below Spec.MinReplicas");
        }
        Self::Metrics
    }
}

/// Why the metrics of a target can't be read.
struct BadSelector {
    event: &'static str,
    condition: &'static str,
    error: String,
    message: String,
}

/// Whether the pods of a target can be told from those of other autoscalers.
fn bad_selector(target: &Target) -> Option<BadSelector> {
    match &target.pods_selector {
        None => Some(BadSelector {
            event: "SelectorRequired",
            condition: "InvalidSelector",
            error: "selector is required".to_owned(),
            message: "the HPA target's scale is missing a selector".to_owned(),
        }),
        Some(Err(why)) => {
            let error =
                format!("couldn't convert selector into a corresponding internal selector object: {why}");
            let message = error.clone();
            Some(BadSelector { event: "InvalidSelector", condition: "InvalidSelector", error, message })
        }
        Some(Ok(_)) if target.autoscalers.len() > 1 => {
            let keys: Vec<String> = target.autoscalers.iter().map(ToString::to_string).collect();
            let error = format!(
                "pods by selector {} are controlled by multiple HPAs: [{}]",
                target.selector,
                keys.join(" ")
            );
            let message = error.clone();
            Some(BadSelector { event: "AmbiguousSelector", condition: "AmbiguousSelector", error, message })
        }
        Some(Ok(_)) => None,
    }
}

/// Whether the metrics must be read.
pub(super) fn needs_metrics(observed: &Observed, target: &Target, settings: Settings) -> bool {
    Course::of(&observed.autoscaler, target.wanted, settings) == Course::Metrics
        && bad_selector(target).is_none()
}

/// What the metrics call for.
struct Called {
    replicas: i32,
    name: String,
    error: Option<String>,
}

/// Decides on the number of replicas, once the target and the metrics have been read.
pub(super) fn decide(observed: &Observed, target: &Target, settings: Settings, now: Moment) -> Decision {
    let mut decision = Decision {
        status: observed.autoscaler.status.clone(),
        metrics: Vec::new(),
        notices: Vec::new(),
        history: history(observed, target, now),
        computations: Vec::new(),
        ending: Ending::Keep,
        error: None,
    };
    let able = ("SucceededGetScale", "the HPA controller was able to get the target's current scale");
    let time = now.wall.into();
    decision.status.set(ABLE_TO_SCALE, Verdict::new(ConditionStatus::True, able), time);
    match Course::of(&observed.autoscaler, target.wanted, settings) {
        Course::Disabled => {
            let disabled =
                ("ScalingDisabled", "scaling is disabled since the replica count of the target is zero");
            decision.status.set(SCALING_ACTIVE, Verdict::new(ConditionStatus::False, disabled), time);
            if !settings.scale_to_zero {
                decision.status.unset(SCALED_TO_ZERO);
            }
        }
        Course::Bound(replicas, reason) => {
            decision.ending = Ending::Rescale { replicas, reason: reason.to_owned() };
        }
        Course::Metrics => match call(&mut decision, observed, target, settings, now) {
            Ok(called) => limit(&mut decision, observed, target, settings, called, now),
            Err(why) => decision.ending = Ending::Failed(why),
        },
    }
    decision
}

/// What the autoscaler remembers. If this process has not synced it before, what the status tells of the syncs of others.
fn history(observed: &Observed, target: &Target, now: Moment) -> History {
    let mut history = observed.history.clone();
    if !history.recommendations.is_empty() {
        return history;
    }
    let status = &observed.autoscaler.status;
    let since = status.last_scale_time.map(|last| now.wall.duration_since(last.into()));
    let since = since.and_then(|since| Duration::try_from(since.max(SignedDuration::ZERO)).ok());
    if let Some(at) = since.and_then(|since| now.instant.checked_sub(since)) {
        history.recommendations.push(Recommendation { replicas: status.desired_replicas, at });
        let (was, is) = (status.current_replicas, status.desired_replicas);
        // The status shows both numbers only until the next sync.
        if was != is && observed.autoscaler.spec.behavior.is_some() {
            let change = Change { count: is.saturating_sub(was).saturating_abs(), at };
            let changes = if is > was { &mut history.growths } else { &mut history.shrinkings };
            changes.push(change);
        }
    }
    history.recommendations.push(Recommendation { replicas: target.wanted, at: now.instant });
    history
}

/// Computes what the metrics call for: the most that any of them does. Metrics that fail only keep replicas from being removed.
fn call(
    decision: &mut Decision,
    observed: &Observed,
    target: &Target,
    settings: Settings,
    now: Moment,
) -> Result<Called, String> {
    let time = now.wall.into();
    if let Some(BadSelector { event, condition, error, message }) = bad_selector(target) {
        decision.notices.push(Notice::warning(event, error.clone()));
        let verdict = Verdict::new(ConditionStatus::False, (condition, &message));
        decision.status.set(SCALING_ACTIVE, verdict, time);
        return Err(error);
    }
    let autoscaler = &observed.autoscaler;
    let behavior = autoscaler.spec.behavior.as_ref().filter(|_| settings.own_tolerances);
    let scene = Scene {
        pods: &target.pods,
        wanted: target.wanted,
        current: target.current,
        tolerances: Tolerances::of(behavior, settings.tolerance),
        start_up: settings.start_up,
        now: now.wall,
    };
    let namespace = &*autoscaler.meta.key.namespace;
    let setting = Setting { namespace, scene, counts_pod_level: settings.pod_level_resources };
    let (mut replicas, mut name, mut first_failure, mut failed) = (0, String::new(), None, 0);
    for (metric, fetched) in autoscaler.spec.metrics.iter().zip(&observed.readings) {
        let nothing = Err("the metric was not read");
        let reading =
            fetched.as_ref().map_or(nothing, |fetched| fetched.value.as_deref().map_err(String::as_str));
        let took = fetched.as_ref().map_or(Duration::ZERO, |fetched: &Fetched| fetched.took);
        let (action, error) = match evaluate(metric, setting, reading) {
            Ok(answer) => {
                let before = autoscaler.status.current_replicas;
                let action = action(before, answer.replicas);
                if replicas == 0 || answer.replicas > replicas {
                    (replicas, name) = (answer.replicas, answer.name);
                }
                decision.metrics.push(answer.status);
                (action, "none")
            }
            Err(failure) => {
                decision.notices.push(Notice::warning(failure.reason, failure.message.clone()));
                decision.metrics.push(MetricStatus::default());
                failed += 1;
                let error = if failure.is_spec { "spec" } else { "internal" };
                first_failure.get_or_insert(failure);
                ("none", error)
            }
        };
        decision.computations.push(Computation { kind: kind(metric), action, error, took });
    }
    let all = autoscaler.spec.metrics.len();
    let error = first_failure.as_ref().map(|first| {
        format!("invalid metrics ({failed} invalid out of {all}), first error is: {}", first.error)
    });
    if let Some(first) = first_failure.filter(|_| failed >= all || replicas < target.wanted) {
        let message = format!("the HPA was unable to compute the replica count: {}", first.message);
        let verdict = Verdict::new(ConditionStatus::False, (first.reason, &message));
        decision.status.set(SCALING_ACTIVE, verdict, time);
        return Err(error.unwrap_or_default());
    }
    let message = format!("the HPA was able to successfully calculate a replica count from {name}");
    let verdict = Verdict::new(ConditionStatus::True, ("ValidMetricFound", &message));
    decision.status.set(SCALING_ACTIVE, verdict, time);
    Ok(Called { replicas, name, error })
}

/// Limits what the metrics call for.
fn limit(
    decision: &mut Decision,
    observed: &Observed,
    target: &Target,
    settings: Settings,
    called: Called,
    now: Moment,
) {
    let autoscaler = &observed.autoscaler;
    let (current, min) = (target.wanted, autoscaler.min());
    let desired = called.replicas.max(0);
    let mut reason = match desired.cmp(&current) {
        std::cmp::Ordering::Greater => format!("{} above target", called.name),
        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
        std::cmp::Ordering::Equal => String::new(),
    };
    let range = Range { min, max: autoscaler.spec.max_replicas };
    let (history, at) = (&mut decision.history, now.instant);
    let Limited { mut replicas, able, limited } = match &autoscaler.spec.behavior {
        None => without_behavior(history, current, desired, range, settings.window, at),
        Some(behavior) => {
            let speed = Speed::of(behavior, settings.window);
            with_behavior(history, current, desired, range, &speed, at)
        }
    };
    decision.status.set(ABLE_TO_SCALE, able, now.wall.into());
    decision.status.set(SCALING_LIMITED, limited, now.wall.into());
    // Metrics decide about a target of zero replicas only if the autoscaler has removed them.
    if current == 0 && replicas < min {
        replicas = min;
        if reason.is_empty() {
            "Current number of replicas below Spec.MinReplicas".clone_into(&mut reason);
        }
    }
    decision.error = called.error;
    if replicas != current {
        decision.ending = Ending::Rescale { replicas, reason };
    }
}

/// What a change from `was` to `is` replicas is called in the controller's own metrics.
pub(super) fn action(was: i32, is: i32) -> &'static str {
    match is.cmp(&was) {
        std::cmp::Ordering::Greater => "scale_up",
        std::cmp::Ordering::Less => "scale_down",
        std::cmp::Ordering::Equal => "none",
    }
}
