//! How long a pod waits after a failed pull (`ImagePullBackOff`).

use std::collections::HashMap;
use std::time::Duration;

use steersman_api::Uid;
use tokio::time::Instant;

/// The first wait; each failure doubles it.
pub(super) const INITIAL: Duration = Duration::from_secs(10);
/// The longest wait.
pub(super) const MAX: Duration = Duration::from_secs(300);
/// After so long without a failure the waits begin anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The waits of all pods and images of a node, with the failure that each one follows.
#[derive(Debug, Default)]
pub(super) struct BackOff(HashMap<(Uid, String), Entry>);

#[derive(Debug)]
struct Entry {
    wait: Duration,
    failed: Instant,
    /// What the container's waiting state said of it.
    failure: String,
}

impl BackOff {
    /// Whether it is too early for a pod to pull that image; then, what went wrong last time.
    pub(super) fn check(&self, pod: &Uid, image: &str, now: Instant) -> Option<&str> {
        let entry = self.0.get(&(pod.clone(), image.to_owned()))?;
        (now - entry.failed < entry.wait).then_some(&entry.failure)
    }

    /// A pull failed. What is too long ago to count is forgotten.
    pub(super) fn failed(&mut self, pod: &Uid, image: &str, failure: String, now: Instant) {
        self.collect_garbage(now);
        let key = (pod.clone(), image.to_owned());
        let wait = self.0.get(&key).map_or(INITIAL, |entry| (entry.wait * 2).min(MAX));
        self.0.insert(key, Entry { wait, failed: now, failure });
    }

    /// Forgets waits that would begin anew anyway. (A success forgets none, as upstream: an image that comes and fails
    /// by turns waits ever longer.)
    pub(super) fn collect_garbage(&mut self, now: Instant) {
        self.0.retain(|_, entry| now - entry.failed <= FORGOTTEN_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_double_to_five_minutes_and_begin_anew_after_ten() {
        let (mut back_off, pod, mut now) = (BackOff::default(), Uid::from("u"), Instant::now());
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            back_off.failed(&pod, "app", "why".into(), now);
            let wait = Duration::from_secs(seconds);
            let just_before = now + wait - Duration::from_millis(1);
            assert_eq!(back_off.check(&pod, "app", just_before), Some("why"), "{seconds}");
            assert_eq!(back_off.check(&pod, "app", now + wait), None, "{seconds}");
            now += wait;
        }
        now += FORGOTTEN_AFTER;
        back_off.failed(&pod, "app", "why".into(), now);
        assert_eq!(back_off.check(&pod, "app", now + INITIAL), None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_pod_and_image_waits_for_itself_and_is_forgotten_in_the_end() {
        let (mut back_off, now) = (BackOff::default(), Instant::now());
        back_off.failed(&Uid::from("u"), "app", "why".into(), now);
        assert_eq!(back_off.check(&Uid::from("v"), "app", now), None);
        assert_eq!(back_off.check(&Uid::from("u"), "web", now), None);
        back_off.collect_garbage(now + FORGOTTEN_AFTER);
        assert_eq!(back_off.0.len(), 1);
        back_off.collect_garbage(now + FORGOTTEN_AFTER + Duration::from_nanos(1));
        assert_eq!(back_off.0.len(), 0);
    }
}
