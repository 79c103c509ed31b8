//! The controller's next steps about an autoscaler.

use steersman_api::condition::ConditionStatus;
use steersman_client::events::EventType;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::behavior::Speed;
use super::decision::{Decision, Ending, Moment, Settings, action, decide, needs_metrics};
use super::history::History;
use super::observed::{Fetched, NoTarget, Notice, Observed, Target};
use super::status::{ABLE_TO_SCALE, SCALED_TO_ZERO, Status, Verdict};

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Read the scale of the target, and look up its pods.
    ReadTarget,
    /// Read the metric at this place of the spec.
    ReadMetric(usize),
    /// Remember a decision, and record its events.
    Decide(Box<Decision>),
    /// Set the target's number of replicas.
    Rescale(i32),
    /// Record events, and write the status.
    Report(Box<Report>),
}

/// The end of a sync.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// The status to write.
    pub status: Status,
    /// The events to record before that.
    pub before: Option<Notice>,
    /// The event to record after that.
    pub after: Option<Notice>,
    /// What to remember, if that has changed.
    pub history: Option<History>,
    /// The number of replicas, if the sync has come to one.
    pub desired: Option<i32>,
    /// Why the sync fails, if it does.
    pub error: Option<String>,
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The step was done.
    Done,
    /// The target, or why it can't be read.
    Target(Box<Result<Target, NoTarget>>),
    /// The metric, or why it can't be read.
    Metric(Fetched),
    /// Whether the number of replicas was set.
    Rescaled(Result<(), String>),
}

/// Number of metrics that a sync reads at a time.
const READS_AT_ONCE: usize = 4;

/// Decides on the next steps, in this order: the target is read, then its metrics, if these decide; the number of replicas is
/// set; the status is written.
pub(super) fn plan(observed: &Observed, settings: Settings, now: Moment) -> Plan<Step> {
    if observed.reported {
        return Plan::done();
    }
    let target = match &observed.target {
        None => return Plan::step(Step::ReadTarget),
        Some(Err(why)) => return Plan::step(Step::Report(Box::new(without_target(observed, why, now)))),
        Some(Ok(target)) => target,
    };
    let Some(decision) = &observed.decision else {
        let unread = observed.readings.iter().enumerate().filter(|(_, reading)| reading.is_none());
        let steps: Vec<Step> = unread.map(|(at, _)| Step::ReadMetric(at)).collect();
        if !steps.is_empty() && needs_metrics(observed, target, settings) {
            let pace = Pace::Together(READS_AT_ONCE);
            return Plan::Act(Batch { steps, pace, on_failure: OnFailure::Stop });
        }
        return Plan::step(Step::Decide(Box::new(decide(observed, target, settings, now))));
    };
    match (&decision.ending, &observed.rescaled) {
        (Ending::Rescale { replicas, .. }, None) => Plan::step(Step::Rescale(*replicas)),
        _ => Plan::step(Step::Report(Box::new(report(observed, target, decision, settings, now)))),
    }
}

fn without_target(observed: &Observed, target: &NoTarget, now: Moment) -> Report {
    let NoTarget { why, doing, .. } = target;
    let mut status = observed.autoscaler.status.clone();
    let message = format!("the HPA controller was unable to get the target's current scale: {why}");
    let verdict = Verdict::new(ConditionStatus::False, ("FailedGetScale", &message));
    status.set(ABLE_TO_SCALE, verdict, now.wall.into());
    Report {
        status,
        before: Some(Notice::warning("FailedGetScale", why.clone())),
        after: None,
        history: None,
        desired: None,
        error: Some(format!("{doing}: {why}")),
    }
}

fn report(
    observed: &Observed,
    target: &Target,
    decision: &Decision,
    settings: Settings,
    now: Moment,
) -> Report {
    let autoscaler = &observed.autoscaler;
    let reference = autoscaler.reference();
    let current = target.wanted;
    let mut status = Status {
        observed_generation: None,
        current_replicas: current,
        current_metrics: decision.metrics.clone(),
        ..decision.status.clone()
    };
    let (mut before, mut after, mut history, mut desired) = (None, None, None, None);
    let mut error = decision.error.clone();
    match &decision.ending {
        Ending::Keep => {
            status.desired_replicas = current;
            desired = Some(current);
        }
        Ending::Failed(why) => {
            after = Some(Notice::warning("FailedComputeMetricsReplicas", why.clone()));
            error = Some(format!(
                "failed to compute desired number of replicas based on listed metrics for {reference}: {why}"
            ));
        }
        Ending::Rescale { replicas, reason } => match &observed.rescaled {
            Some(Err(why)) => {
                let text = format!("New size: {replicas}; reason: {reason}; error: {why}");
                before = Some(Notice::warning("FailedRescale", text));
                let message = format!("the HPA controller was unable to update the target scale: {why}");
                let verdict = Verdict::new(ConditionStatus::False, ("FailedUpdateScale", &message));
                status.set(ABLE_TO_SCALE, verdict, now.wall.into());
                error = Some(format!("failed to rescale {reference}: {why}"));
            }
            _ => {
                before = Some(Notice {
                    kind: EventType::Normal,
                    reason: "SuccessfulRescale",
                    message: format!("New size: {replicas}; reason: {reason}"),
                });
                rescaled(&mut status, observed, current, *replicas, settings, now);
                history = changed(observed, decision, current, *replicas, settings, now);
                desired = Some(*replicas);
            }
        },
    }
    Report { status, before, after, history, desired, error }
}

/// Writes down that the number of replicas was set.
fn rescaled(
    status: &mut Status,
    observed: &Observed,
    current: i32,
    replicas: i32,
    settings: Settings,
    now: Moment,
) {
    let time = now.wall.into();
    let message = format!("the HPA controller was able to update the target scale to {replicas}");
    status.set(ABLE_TO_SCALE, Verdict::new(ConditionStatus::True, ("SucceededRescale", &message)), time);
    let autoscaler = &observed.autoscaler;
    if !settings.scale_to_zero {
        status.unset(SCALED_TO_ZERO);
    } else if current > 0 && replicas == 0 && autoscaler.min() == 0 && autoscaler.has_metrics_without_pods() {
        let to_zero = ("ScaledToZero", "the HPA controller scaled the workload to zero");
        status.set(SCALED_TO_ZERO, Verdict::new(ConditionStatus::True, to_zero), time);
    } else {
        let not = ("NotScaledToZero", "the HPA controller did not scale the workload to zero");
        status.set(SCALED_TO_ZERO, Verdict::new(ConditionStatus::False, not), time);
    }
    status.desired_replicas = replicas;
    status.last_scale_time = Some(time);
}

/// The history with the change, if the autoscaler's behavior asks for it.
fn changed(
    observed: &Observed,
    decision: &Decision,
    current: i32,
    replicas: i32,
    settings: Settings,
    now: Moment,
) -> Option<History> {
    let speed = Speed::of(observed.autoscaler.spec.behavior.as_ref()?, settings.window);
    let rules = if replicas > current { &speed.up } else { &speed.down };
    let mut history = decision.history.clone();
    history.record(current, replicas, now.instant, rules.longest_period());
    Some(history)
}

/// What the sync did, for the controller's own metrics: `scale_up`, `scale_down` or `none`.
pub(super) fn action_of(observed: &Observed) -> &'static str {
    match (&observed.target, &observed.decision, &observed.rescaled) {
        (Some(Ok(target)), Some(Decision { ending: Ending::Rescale { replicas, .. }, .. }), Some(Ok(()))) => {
            action(target.wanted, *replicas)
        }
        _ => "none",
    }
}
