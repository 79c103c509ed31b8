//! A pod, asked for on the spot.

use std::time::Duration;

use steersman_api::Uid;
use tokio::time::timeout;

use crate::container::PodStatus;
use crate::pleg::{PodLister, RuntimeError};
use crate::pod_workers::SyncFailure;

/// The pod as the runtime has it at this moment, and not as of the last list.
///
/// # Errors
/// The runtime's, and that there was no answer, of it or of the disk, within `limit`; to be tried again.
pub(super) async fn inspect_now(
    runtime: &dyn PodLister,
    uid: &Uid,
    limit: Duration,
) -> Result<PodStatus, SyncFailure> {
    let inspect = async {
        match runtime.pod(uid).await? {
            Some(pod) => runtime.pod_status(&pod).await,
            None => Ok(PodStatus::unknown_to_runtime(uid.clone())),
        }
    };
    let failed = |why: String| {
        SyncFailure::new(format!("unable to read pod status prior to final pod termination: {why}"))
    };
    match timeout(limit, inspect).await {
        Ok(answer) => answer.map_err(|error: RuntimeError| failed(error.to_string())),
        Err(_) => Err(failed(format!("no answer within {limit:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use async_trait::async_trait;

    use super::*;
    use crate::container::RuntimePod;

    const LIMIT: Duration = Duration::from_secs(120);

    /// Has every pod, and hangs when it is asked for more.
    struct Stuck;

    #[async_trait]
    impl PodLister for Stuck {
        async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
            pending().await
        }
        async fn pod(&self, uid: &Uid) -> Result<Option<RuntimePod>, RuntimeError> {
            let (name, namespace) = Default::default();
            let (containers, sandboxes) = Default::default();
            Ok(Some(RuntimePod { uid: uid.clone(), name, namespace, containers, sandboxes }))
        }
        async fn pod_status(&self, _: &RuntimePod) -> Result<PodStatus, RuntimeError> {
            pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_inspection_that_hangs_fails_in_time() {
        let asked = timeout(LIMIT * 2, inspect_now(&Stuck, &Uid::from("u"), LIMIT)).await;
        let failure = asked.expect("it must end").unwrap_err();
        assert!(failure.message.ends_with("termination: no answer within 120s"), "{failure}");
    }
}
