//! What becomes of an autoscaler from its first read to the write of its status.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::condition::ConditionStatus;
use steersman_api::{Meta, ObjectKey};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_informer::wire::FieldValue;
use steersman_kinds::horizontal_pod_autoscaler::{AutoscalerSpec, AutoscalerStatus};
use tokio::time::Instant;

use super::super::decision::{Moment, Settings};
use super::super::history::{Change, History, Recommendation};
use super::super::metrics_api::{ContainerUsage, PodUsage, Reading, Usages};
use super::super::observed::{Autoscaler, Fetched, NoTarget, Observed, Target};
use super::super::plan::{Outcome, Report, Step, action_of, plan};
use super::super::pods::Pod;
use super::super::status::Status;
use super::scenes::{START_UP, ago, now, pods};

const SETTINGS: Settings = Settings {
    tolerance: 0.1,
    window: Duration::from_secs(60 * 5),
    start_up: START_UP,
    own_tolerances: true,
    scale_to_zero: false,
    pod_level_resources: true,
};
const WITH_ZERO: Settings = Settings { scale_to_zero: true, ..SETTINGS };

fn autoscaler(spec: Value, status: Value) -> Autoscaler {
    let mut whole = json!({"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 10, "metrics": [cpu(50)]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    Autoscaler {
        meta: Meta { key: ObjectKey::new("default", "web"), ..Meta::default() },
        spec: AutoscalerSpec::from_json(whole).unwrap(),
        status: Status::of(&AutoscalerStatus::from_json(status).unwrap()),
    }
}

fn cpu(percent: i32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn queue(value: &str) -> Value {
    json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": value}}})
}

const AS_IS: fn(Pod) -> Pod = |pod| pod;

fn target(wanted: i32, count: usize) -> Target {
    Target {
        wanted,
        current: wanted,
        selector: "app=web".into(),
        pods_selector: Some("app=web".parse()),
        pods: pods(&vec![AS_IS; count]),
        autoscalers: vec![ObjectKey::new("default", "web")],
    }
}

/// Each of this number of pods uses so many thousandths of a processor in each of its two containers.
fn usage(count: usize, cpu: i64) -> Result<Reading, String> {
    let container = |name: &str| ContainerUsage { name: name.into(), usage: vec![("cpu".into(), cpu)] };
    let one = |at| PodUsage {
        pod: format!("p{at}").into(),
        at: Some(now()),
        window: Duration::from_secs(15),
        containers: vec![container("main"), container("side")],
    };
    Ok(Reading::Usage(Usages((0..count).map(one).collect())))
}

/// A sync that ran to its end: what it asked for, and its last step.
struct Ran {
    metrics_read: usize,
    rescaled: Option<i32>,
    notices: Vec<(&'static str, String)>,
    report: Report,
    observed: Observed,
}

impl Ran {
    fn condition(&self, kind: &str) -> (ConditionStatus, &str) {
        let found = self.report.status.conditions.iter().find(|condition| condition.kind == kind);
        found
            .map(|condition| (condition.status, &*condition.reason))
            .unwrap_or((ConditionStatus::Unknown, "missing"))
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.notices.iter().map(|(reason, _)| *reason).collect()
    }
}

/// Plays the API server: answers each step until the sync reports.
fn run(
    autoscaler: Autoscaler,
    history: History,
    settings: Settings,
    target: Result<Target, NoTarget>,
    readings: &[Result<Reading, String>],
    set: Result<(), String>,
) -> Ran {
    let moment = Moment { wall: now(), instant: Instant::now() + Duration::from_secs(3600 * 10) };
    let mut observed = Observed::new(autoscaler, history);
    let (mut metrics_read, mut rescaled, mut notices) = (0, None, Vec::new());
    for _ in 0..10 {
        let Plan::Act(batch) = plan(&observed, settings, moment) else { panic!("nothing was reported") };
        for step in batch.steps {
            let outcome = match &step {
                Step::ReadTarget => Outcome::Target(Box::new(target.clone())),
                Step::ReadMetric(at) => {
                    metrics_read += 1;
                    let value = readings[*at].clone().map(Arc::new);
                    Outcome::Metric(Fetched { value, took: Duration::ZERO })
                }
                Step::Decide(decision) => {
                    notices.extend(decision.notices.iter().map(|one| (one.reason, one.message.clone())));
                    Outcome::Done
                }
                Step::Rescale(replicas) => {
                    rescaled = Some(*replicas);
                    Outcome::Rescaled(set.clone())
                }
                Step::Report(report) => {
                    let told = report.before.iter().chain(&report.after);
                    notices.extend(told.map(|one| (one.reason, one.message.clone())));
                    let report = Report::clone(report);
                    observed.absorb(step.clone(), StepResult::Done(Outcome::Done));
                    assert_eq!(plan(&observed, settings, moment), Plan::done());
                    return Ran { metrics_read, rescaled, notices, report, observed };
                }
            };
            observed.absorb(step, StepResult::Done(outcome));
        }
    }
    panic!("the sync never ends");
}

fn simple(spec: Value, target: Target, readings: &[Result<Reading, String>]) -> Ran {
    run(autoscaler(spec, json!({})), History::default(), SETTINGS, Ok(target), readings, Ok(()))
}

const TRUE: ConditionStatus = ConditionStatus::True;
const FALSE: ConditionStatus = ConditionStatus::False;

#[test]
fn replicas_are_added_and_told_of() {
    let ran = simple(json!({}), target(3, 3), &[usage(3, 800)]);
    assert_eq!(ran.rescaled, Some(5));
    let text = "New size: 5; reason: cpu resource utilization (percentage of request) above target";
    assert_eq!(ran.notices, [("SuccessfulRescale", text.to_owned())]);
    let status = &ran.report.status;
    assert_eq!((status.current_replicas, status.desired_replicas), (3, 5));
    assert_eq!(status.last_scale_time, Some(ago(0)));
    assert_eq!(ran.condition("AbleToScale"), (TRUE, "SucceededRescale"));
    assert_eq!(ran.condition("ScalingActive"), (TRUE, "ValidMetricFound"));
    assert_eq!(ran.condition("ScalingLimited"), (FALSE, "DesiredWithinRange"));
    assert_eq!((action_of(&ran.observed), &ran.report.error), ("scale_up", &None));
    let current = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 80, "averageValue": "1600m"}}}]);
    assert_eq!(serde_json::to_value(&status.current_metrics).unwrap(), current);
}

#[test]
fn replicas_stay_while_usage_is_close_to_the_goal() {
    let ran = simple(json!({}), target(3, 3), &[usage(3, 520)]);
    assert_eq!((ran.rescaled, ran.report.desired), (None, Some(3)));
    assert_eq!(ran.condition("AbleToScale"), (TRUE, "ReadyForNewScale"));
    assert_eq!(ran.report.status.last_scale_time, None);
    let exact = json!({"behavior": {"scaleUp": {"tolerance": "10m"}}});
    assert_eq!(simple(exact.clone(), target(3, 3), &[usage(3, 520)]).rescaled, Some(4));
    let off = Settings { own_tolerances: false, ..SETTINGS };
    let ran = run(
        autoscaler(exact, json!({})),
        History::default(),
        off,
        Ok(target(3, 3)),
        &[usage(3, 520)],
        Ok(()),
    );
    assert_eq!(ran.rescaled, None);
}

#[test]
fn the_first_recommendation_keeps_replicas_for_a_window() {
    let ran = simple(json!({}), target(3, 3), &[usage(3, 100)]);
    assert_eq!(ran.rescaled, None);
    assert_eq!(ran.condition("AbleToScale"), (TRUE, "ScaleDownStabilized"));
}

#[test]
fn bounds_hold_without_a_look_at_metrics() {
    for (spec, wanted, replicas, reason) in [
        (json!({"maxReplicas": 2}), 3, 2, "Current number of replicas above Spec.MaxReplicas"),
        (json!({"minReplicas": 4}), 3, 4, "Current number of replicas below Spec.MinReplicas"),
    ] {
        let ran = simple(spec, target(wanted, 3), &[usage(3, 500)]);
        assert_eq!((ran.rescaled, ran.metrics_read), (Some(replicas), 0));
        assert_eq!(ran.notices[0].1, format!("New size: {replicas}; reason: {reason}"));
    }
}

#[test]
fn a_target_that_someone_set_to_zero_is_left_alone() {
    for settings in [SETTINGS, WITH_ZERO] {
        let ran = run(
            autoscaler(json!({}), json!({})),
            History::default(),
            settings,
            Ok(target(0, 0)),
            &[],
            Ok(()),
        );
        assert_eq!((ran.rescaled, ran.metrics_read), (None, 0));
        assert_eq!(ran.condition("ScalingActive"), (FALSE, "ScalingDisabled"));
    }
}

#[test]
fn an_autoscaler_that_removed_all_replicas_adds_them_again() {
    let spec = |min: i32| json!({"minReplicas": min, "metrics": [queue("10")]});
    let zero = json!({"conditions": [{"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero"}]});
    let sync = |min, status: &Value, wanted, value, settings| {
        let autoscaler = autoscaler(spec(min), status.clone());
        let reading = Ok(Reading::Values(vec![value]));
        run(
            autoscaler,
            History::default(),
            settings,
            Ok(target(wanted, usize::try_from(wanted).unwrap())),
            &[reading],
            Ok(()),
        )
    };
    assert_eq!(sync(0, &zero, 0, 25_000, WITH_ZERO).rescaled, Some(3));
    assert_eq!(sync(0, &zero, 0, 25_000, SETTINGS).rescaled, None);
    assert_eq!(sync(0, &json!({}), 0, 25_000, WITH_ZERO).rescaled, None);
    assert_eq!(sync(2, &zero, 0, 1, WITH_ZERO).rescaled, Some(2));
    let quick = Settings { window: Duration::ZERO, ..WITH_ZERO };
    let autoscaler = autoscaler(spec(0), json!({}));
    let behavior = History::default();
    let ran = run(autoscaler, behavior, quick, Ok(target(1, 1)), &[Ok(Reading::Values(vec![0]))], Ok(()));
    // The first recommendation, of this very moment, still counts.
    assert_eq!(ran.rescaled, None);
}

#[test]
fn a_condition_tells_whether_the_autoscaler_removed_all_replicas() {
    let spec = |min: i32| json!({"minReplicas": min, "metrics": [queue("10")]});
    let quick = Settings { window: Duration::ZERO, ..WITH_ZERO };
    let long_ago = Instant::now();
    let history =
        History { recommendations: vec![Recommendation { replicas: 1, at: long_ago }], ..History::default() };
    let zero = json!({"conditions": [{"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero"}]});
    let sync = |min, status: &Value, wanted: i32, value, settings| {
        let target = target(wanted, usize::try_from(wanted).unwrap());
        let reading = Ok(Reading::Values(vec![value]));
        run(autoscaler(spec(min), status.clone()), history.clone(), settings, Ok(target), &[reading], Ok(()))
    };
    for (name, min, status, wanted, value, settings, rescaled, condition) in [
        ("removes all", 0, json!({}), 1, 0, quick, Some(0), (TRUE, "ScaledToZero")),
        ("removes some", 0, json!({}), 3, 3_000, quick, Some(1), (FALSE, "NotScaledToZero")),
        ("adds the first", 0, zero.clone(), 0, 15_000, quick, Some(2), (FALSE, "NotScaledToZero")),
        ("does nothing", 0, zero.clone(), 0, 0, quick, None, (TRUE, "ScaledToZero")),
        (
            "changes replicas while the gate is off",
            1,
            zero,
            3,
            3_000,
            Settings { scale_to_zero: false, ..quick },
            Some(1),
            (ConditionStatus::Unknown, "missing"),
        ),
    ] {
        let ran = sync(min, &status, wanted, value, settings);
        assert_eq!((ran.rescaled, ran.condition("ScaledToZero")), (rescaled, condition), "{name}");
    }
}

#[test]
fn metrics_that_fail_keep_replicas_from_being_removed_only() {
    let spec = json!({"metrics": [queue("10"), cpu(50)]});
    let why = "unable to fetch metrics from external metrics API: down";
    let failed = || Err(why.to_owned());
    let more = simple(spec.clone(), target(3, 3), &[failed(), usage(3, 800)]);
    assert_eq!(more.rescaled, Some(5));
    assert_eq!(more.reasons(), ["FailedGetExternalMetric", "SuccessfulRescale"]);
    let error = format!(
        "invalid metrics (1 invalid out of 2), first error is: failed to get queue external metric value: failed to get external metric queue: unable to get external metric default/queue/nil: {why}"
    );
    assert_eq!(more.report.error.as_deref(), Some(&*error));
    let less = simple(spec.clone(), target(3, 3), &[failed(), usage(3, 100)]);
    assert_eq!((less.rescaled, less.condition("ScalingActive")), (None, (FALSE, "FailedGetExternalMetric")));
    assert_eq!(less.reasons(), ["FailedGetExternalMetric", "FailedComputeMetricsReplicas"]);
    let none = simple(spec, target(3, 3), &[failed(), failed()]);
    assert_eq!(none.condition("ScalingActive"), (FALSE, "FailedGetExternalMetric"));
    assert_eq!((none.report.status.current_replicas, none.report.status.desired_replicas), (3, 0));
    let kinds: Vec<&str> = none.report.status.current_metrics.iter().map(|metric| &*metric.kind).collect();
    assert_eq!(kinds, ["", ""]);
}

#[test]
fn an_unknown_kind_of_metric_is_the_specs_fault() {
    let ran = simple(json!({"metrics": [{"type": "Odd"}]}), target(3, 3), &[usage(3, 1)]);
    assert_eq!(ran.condition("ScalingActive"), (FALSE, "InvalidMetricSourceType"));
    assert_eq!(ran.notices[0].1, "unknown metric source type \"Odd\"");
    let decision = ran.observed.decision.unwrap();
    assert_eq!((decision.computations[0].error, decision.computations[0].action), ("spec", "none"));
}

#[test]
fn pods_must_belong_to_one_autoscaler() {
    let other = ObjectKey::new("default", "other");
    let cases = [
        (
            Target { pods_selector: None, selector: "".into(), ..target(3, 3) },
            "SelectorRequired",
            "InvalidSelector",
        ),
        (Target { pods_selector: Some("=".parse()), ..target(3, 3) }, "InvalidSelector", "InvalidSelector"),
        (
            Target { autoscalers: vec![other, ObjectKey::new("default", "web")], ..target(3, 3) },
            "AmbiguousSelector",
            "AmbiguousSelector",
        ),
    ];
    for (target, event, condition) in cases {
        let ran = simple(json!({}), target, &[usage(3, 900)]);
        assert_eq!((ran.metrics_read, ran.rescaled), (0, None), "{event}");
        assert_eq!(ran.reasons(), [event, "FailedComputeMetricsReplicas"]);
        assert_eq!(ran.condition("ScalingActive"), (FALSE, condition));
    }
}

#[test]
fn a_target_that_cannot_be_read_or_set_is_told_of() {
    let gone = NoTarget { why: "gone".into(), doing: "reading".into(), is_spec: false };
    let before = json!({"currentReplicas": 3, "desiredReplicas": 3, "observedGeneration": 4});
    let ran =
        run(autoscaler(json!({}), before.clone()), History::default(), SETTINGS, Err(gone), &[], Ok(()));
    assert_eq!(ran.condition("AbleToScale"), (FALSE, "FailedGetScale"));
    assert_eq!(ran.notices, [("FailedGetScale", "gone".to_owned())]);
    assert_eq!((ran.report.status.desired_replicas, ran.report.status.observed_generation), (3, Some(4)));
    assert_eq!(ran.report.error.as_deref(), Some("reading: gone"));

    let refused = Err("refused".to_owned());
    let ran = run(
        autoscaler(json!({}), before),
        History::default(),
        SETTINGS,
        Ok(target(3, 3)),
        &[usage(3, 800)],
        refused,
    );
    assert_eq!(ran.condition("AbleToScale"), (FALSE, "FailedUpdateScale"));
    assert_eq!(ran.reasons(), ["FailedRescale"]);
    assert_eq!((ran.report.status.desired_replicas, ran.report.status.observed_generation), (3, None));
    assert_eq!((ran.report.status.last_scale_time, action_of(&ran.observed)), (None, "none"));
}

#[test]
fn a_new_leader_counts_the_last_change_as_far_as_the_status_tells() {
    let spec = json!({"maxReplicas": 100, "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}});
    let status = json!({"currentReplicas": 3, "desiredReplicas": 5, "lastScaleTime": ago(10)});
    let ran = run(
        autoscaler(spec.clone(), status.clone()),
        History::default(),
        SETTINGS,
        Ok(target(5, 5)),
        &[usage(5, 900)],
        Ok(()),
    );
    assert_eq!((ran.rescaled, ran.condition("ScalingLimited")), (None, (TRUE, "ScaleUpLimit")));
    // Without a behavior, the last number is a recommendation like others.
    let status = json!({"currentReplicas": 3, "desiredReplicas": 6, "lastScaleTime": ago(10)});
    let plain = json!({});
    let ran = run(
        autoscaler(plain, status),
        History::default(),
        SETTINGS,
        Ok(target(4, 4)),
        &[usage(4, 500)],
        Ok(()),
    );
    assert_eq!((ran.rescaled, ran.condition("AbleToScale")), (Some(6), (TRUE, "SucceededRescale")));
}

#[test]
fn changes_are_remembered_for_the_rates_of_a_behavior() {
    let quick = json!({"behavior": {}});
    let ran = simple(quick, target(3, 3), &[usage(3, 800)]);
    let history = ran.report.history.unwrap();
    assert!(matches!(history.growths[..], [Change { count: 2, .. }]), "{history:?}");
    assert!(history.shrinkings.is_empty());
    assert_eq!(simple(json!({}), target(3, 3), &[usage(3, 800)]).report.history, None);
}
