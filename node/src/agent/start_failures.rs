//! Why containers could not be started the last time: what their waiting states say.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use steersman_api::Uid;

use crate::kuberuntime::sync_result::{PodSyncResult, SyncAction};
use crate::status_manager::statuses::StartFailure;

/// The last failure to start of each container (`ReasonCache` upstream). A restart of the agent forgets them: the next
/// sync finds them again.
#[derive(Debug, Default)]
pub(super) struct StartFailures {
    pods: Mutex<HashMap<Uid, BTreeMap<String, StartFailure>>>,
}

impl StartFailures {
    /// Takes in what came of a sync: a container that was started has no failure any more.
    pub(super) fn update(&self, pod: &Uid, result: &PodSyncResult) {
        let mut pods = self.pods.lock();
        let starts = result.steps.iter().filter(|step| step.action == SyncAction::StartContainer);
        for step in starts {
            match &step.error {
                Some(error) => {
                    let failure =
                        StartFailure { reason: error.reason.clone(), message: error.message.clone() };
                    pods.entry(pod.clone()).or_default().insert(step.target.clone(), failure);
                }
                None => {
                    if let Some(of_pod) = pods.get_mut(pod) {
                        of_pod.remove(&step.target);
                    }
                }
            }
        }
        if pods.get(pod).is_some_and(BTreeMap::is_empty) {
            pods.remove(pod);
        }
    }

    /// Those of a pod, by container.
    pub(super) fn of(&self, pod: &Uid) -> BTreeMap<String, StartFailure> {
        self.pods.lock().get(pod).cloned().unwrap_or_default()
    }

    /// Forgets a pod.
    pub(super) fn remove(&self, pod: &Uid) {
        self.pods.lock().remove(pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuberuntime::sync_result::SyncError;

    #[test]
    fn a_failure_stays_until_its_container_is_started() {
        let (failures, pod) = (StartFailures::default(), Uid::from("u-1"));
        let error =
            SyncError { reason: "ErrImagePull".into(), message: "no such image".into(), retry_in: None };
        let mut failed = PodSyncResult::default();
        failed.failed(SyncAction::StartContainer, "app", error.clone());
        failed.failed(SyncAction::KillContainer, "other", error);
        failures.update(&pod, &failed);
        failures.update(&pod, &PodSyncResult::default());
        let known = failures.of(&pod);
        assert_eq!(known.keys().collect::<Vec<_>>(), ["app"]);
        assert_eq!(known["app"].reason, "ErrImagePull");

        let mut started = PodSyncResult::default();
        started.push(SyncAction::StartContainer, "app", Ok(()));
        failures.update(&pod, &started);
        assert!(failures.of(&pod).is_empty());
        assert!(failures.pods.lock().is_empty(), "a pod without failures must not be kept");
    }

    #[test]
    fn a_pod_that_is_forgotten_has_no_failures() {
        let (failures, pod) = (StartFailures::default(), Uid::from("u-1"));
        let mut failed = PodSyncResult::default();
        let error = SyncError { reason: "X".into(), message: String::new(), retry_in: None };
        failed.failed(SyncAction::StartContainer, "app", error);
        failures.update(&pod, &failed);
        failures.remove(&pod);
        assert!(failures.of(&pod).is_empty());
    }
}
