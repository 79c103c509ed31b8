//! How many replicas one metric calls for.
//!
//! The order of the operations on floats is upstream's, so that the results are the same to the digit. Where Go's conversion
//! of a float to an integer overflows, the result there depends on the processor; here it is the nearest integer.

use jiff::Timestamp;

use super::pods::{Groups, Pod, Samples, StartUp};
use super::tolerance::Tolerances;
use super::usage::{Goal, Usage, Values};

/// What a metric calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    /// The number of replicas.
    pub replicas: i32,
    /// The metric's value, or the average of the pods' values, in thousandths.
    pub usage: i64,
    /// What the pods use, as a percentage of what they request.
    pub percent: Option<i32>,
}

/// What the computation of a metric depends on beside the metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    /// The pods of the target.
    pub pods: &'a [Pod],
    /// The wanted number of replicas.
    pub wanted: i32,
    /// The current number of replicas.
    pub current: i32,
    /// How far usage may be off without effect.
    pub tolerances: Tolerances,
    /// How new pods count.
    pub start_up: StartUp,
    /// The current time.
    pub now: Timestamp,
}

/// The error if the selector selects no pods.
const NO_PODS: &str = "no pods returned by selector while calculating replica count";

impl Scene<'_> {
    /// What the values of pods call for. `resource` is the measured resource; empty for other metrics. `goal` is asked for only
    /// if there are values.
    ///
    /// # Errors
    /// The number of replicas can't be told, in upstream's words.
    pub(super) fn by_pods(
        &self,
        samples: &Samples,
        resource: &str,
        goal: impl FnOnce() -> Result<Goal, String>,
    ) -> Result<Proposal, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let groups = Groups::of(self.pods, samples, resource, self.start_up, self.now);
        let mut values: Values = samples.iter().map(|(name, sample)| (name.clone(), sample.value)).collect();
        for pod in groups.ignored.iter().chain(&groups.unready) {
            values.remove(&pod.name);
        }
        if values.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let goal = goal()?;
        let usage = goal.compare(&values)?;
        let replicas = self.replicas(&groups, &goal, usage, values)?;
        Ok(Proposal { replicas, usage: usage.average, percent: usage.percent })
    }

    fn replicas(
        &self,
        groups: &Groups<'_>,
        goal: &Goal,
        usage: Usage,
        mut values: Values,
    ) -> Result<i32, String> {
        let grows_with_unready = !groups.unready.is_empty() && usage.ratio > 1.0;
        if !grows_with_unready && groups.missing.is_empty() {
            return Ok(match self.tolerances.contain(usage.ratio) {
                true => self.wanted,
                false => rounded_up(usage.ratio * count(groups.ready)),
            });
        }
        // Pods without values damp the change: they use all when the others use too little, and nothing otherwise.
        for pod in &groups.missing {
            if usage.ratio < 1.0 {
                values.insert(pod.name.clone(), goal.full(&pod.name));
            } else if usage.ratio > 1.0 {
                values.insert(pod.name.clone(), 0);
            }
        }
        if grows_with_unready {
            values.extend(groups.unready.iter().map(|pod| (pod.name.clone(), 0)));
        }
        let ratio = goal.compare(&values)?.ratio;
        let turns = (usage.ratio < 1.0 && ratio > 1.0) || (usage.ratio > 1.0 && ratio < 1.0);
        if self.tolerances.contain(ratio) || turns {
            return Ok(self.wanted);
        }
        let replicas = rounded_up(ratio * count(values.len()));
        let turns = (ratio < 1.0 && replicas > self.wanted) || (ratio > 1.0 && replicas < self.wanted);
        Ok(if turns { self.wanted } else { replicas })
    }

    /// What the value of a metric of the whole target calls for, with a target for the whole. In thousandths.
    ///
    /// # Errors
    /// There are no pods.
    pub(super) fn by_value(&self, usage: i64, target: i64) -> Result<Proposal, String> {
        let ratio = float(usage) / float(target);
        let replicas = if self.wanted == 0 {
            rounded_up(ratio)
        } else if self.tolerances.contain(ratio) {
            self.wanted
        } else if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        } else {
            let ready = self.pods.iter().filter(|pod| pod.is_ready()).count();
            rounded_up(ratio * count(ready))
        };
        Ok(Proposal { replicas, usage, percent: None })
    }

    /// What the value of a metric of the whole target calls for, with a target for each pod. In thousandths.
    pub(super) fn by_value_per_pod(&self, usage: i64, target: i64) -> Proposal {
        let ratio = float(usage) / (float(target) * f64::from(self.current));
        let replicas = match self.tolerances.contain(ratio) {
            true => self.current,
            false => rounded_up(float(usage) / float(target)),
        };
        Proposal { replicas, usage: average(usage, self.current), percent: None }
    }

    /// As [`by_value_per_pod`](Self::by_value_per_pod), for an external metric: upstream does not divide a sum that has reached
    /// the greatest number.
    pub(super) fn by_sum_per_pod(&self, usage: i64, target: i64) -> Proposal {
        let proposal = self.by_value_per_pod(usage, target);
        if float(usage) >= float(i64::MAX) { Proposal { usage: i64::MAX, ..proposal } } else { proposal }
    }
}

/// The sum of an external metric's values for a target for the whole. A sum that reaches 2^63-1 stays there, whatever follows.
pub(super) fn sum(values: &[i64]) -> i64 {
    let add = |sum: i64, value: &i64| {
        if *value > 0 { sum.checked_add(*value) } else { Some(sum.wrapping_add(*value)) }
    };
    values.iter().try_fold(0, add).unwrap_or(i64::MAX)
}

/// The sum of an external metric's values for a target for each pod. Upstream takes a sum below zero for an overflow, and so
/// for 2^63-1, whatever follows.
pub(super) fn sum_for_each(values: &[i64]) -> i64 {
    let add = |sum: i64, value: &i64| Some(sum.wrapping_add(*value)).filter(|sum| *sum >= 0);
    values.iter().try_fold(0, add).unwrap_or(i64::MAX)
}

#[allow(clippy::cast_possible_truncation, reason = "the nearest integer is meant")]
fn average(usage: i64, replicas: i32) -> i64 {
    (float(usage) / f64::from(replicas)).ceil() as i64
}

#[allow(clippy::cast_possible_truncation, reason = "the nearest integer is meant")]
fn rounded_up(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

#[allow(clippy::cast_precision_loss, reason = "upstream rounds as well")]
fn float(number: i64) -> f64 {
    number as f64
}

#[allow(clippy::cast_precision_loss, reason = "pods are fewer than 2^53")]
fn count(pods: usize) -> f64 {
    pods as f64
}
