//! The ratio of what pods use to what they should use.

use std::collections::HashMap;

use steersman_api::ArcStr;

/// What to aim at for each pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Goal {
    /// This percentage of what the pod requests, in thousandths, by the pods' names.
    Utilization {
        /// The percentage.
        percent: i32,
        /// The requests in thousandths, by the names of pods.
        requests: HashMap<ArcStr, i64>,
    },
    /// This value in thousandths.
    Average(i64),
}

/// What pods use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    /// The usage as a multiple of the goal.
    pub ratio: f64,
    /// The average of the values, in thousandths.
    pub average: i64,
    /// The usage as a percentage of the requests, if that is the goal.
    pub percent: Option<i32>,
}

/// The values of a metric in thousandths, by the names of pods.
pub(super) type Values = HashMap<ArcStr, i64>;

impl Goal {
    /// Compares values with the goal. Integers overflow, and are rounded, as in Go.
    ///
    /// # Errors
    /// The pods that have values request nothing.
    ///
    /// # Panics
    /// If there are no values.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream does the same")]
    pub(super) fn compare(&self, values: &Values) -> Result<Usage, String> {
        match self {
            Self::Average(target) => {
                let total = values.values().fold(0_i64, |sum, value| sum.wrapping_add(*value));
                let average = total / count(values.len());
                Ok(Usage { ratio: average as f64 / *target as f64, average, percent: None })
            }
            Self::Utilization { percent, requests } => {
                let (mut total, mut requested, mut entries) = (0_i64, 0_i64, 0_usize);
                for (pod, value) in values {
                    let Some(request) = requests.get(pod) else { continue };
                    total = total.wrapping_add(*value);
                    requested = requested.wrapping_add(*request);
                    entries += 1;
                }
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let used = total.wrapping_mul(100).wrapping_div(requested) as i32;
                let ratio = f64::from(used) / f64::from(*percent);
                Ok(Usage { ratio, average: total / count(entries), percent: Some(used) })
            }
        }
    }

    /// The value of a pod without metrics while the others use too little: what it may use at most.
    pub(super) fn full(&self, pod: &ArcStr) -> i64 {
        match self {
            Self::Average(target) => *target,
            Self::Utilization { percent, requests } => {
                let request = requests.get(pod).copied().unwrap_or(0);
                request.wrapping_mul(i64::from((*percent).max(100))) / 100
            }
        }
    }
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).expect("pods must be fewer than 2^63")
}
