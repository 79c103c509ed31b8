//! Hooks after the start of containers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use tokio::sync::oneshot;
use tracing::error;

use super::Kuberuntime;
use super::kill::Kill;
use super::records::uid;
use crate::container::ContainerId;
use crate::events::EventType;
use crate::kuberuntime::actions::{KillReason, PostStart};
use crate::kuberuntime::sync_result::SyncError;
use crate::pod_text::pod_text;

impl Kuberuntime {
    /// Runs a hook to its end; where it fails, the container is stopped, unless that was done with its pod meanwhile.
    ///
    /// If this is dropped the hook goes on: nobody could tell later how far it had come. Until it is done, syncs see it
    /// [running](PostStart::Running).
    pub(super) async fn post_start(
        &self,
        pod: &Pod,
        container: &Container,
        id: ContainerId,
        hook: &LifecycleHandler,
    ) -> Result<(), SyncError> {
        let (killer, records) = (Arc::clone(&self.killer), Arc::clone(&self.records));
        let (pod, container, hook, uid) = (pod.clone(), container.clone(), hook.clone(), uid(pod));
        let (done, ended) = oneshot::channel();
        records.begin_post_start(&uid, &id);
        let run = async move {
            let ran = killer.hooks.run(&id, &pod, &container, &hook).await;
            let left = ran.is_err().then_some(PostStart::Failed);
            // It is of no account in a container that is stopped anyway.
            let matters = records.end_post_start(&uid, &id, left);
            if let Some(failure) = ran.as_ref().err().filter(|_| matters) {
                let (pod_text, name) = (pod_text(&pod), container.name.as_str());
                error!(pod = pod_text, name, %id, %failure, "Failed to execute PostStartHook");
                // Its message may hold what is secret.
                let text = "PostStartHook failed";
                killer.event(&pod, name, &id.id, EventType::Warning, "FailedPostStartHook", text);
                let reason = KillReason::FailedPostStartHook;
                let kill = Kill {
                    pod: Some(&pod),
                    id: &id,
                    name,
                    message: reason.as_str(),
                    reason,
                    grace_override: None,
                    turns: None,
                };
                match killer.kill(kill).await {
                    // Until then, and where it does not end, it has failed for the next sync.
                    Ok(()) => _ = records.end_post_start(&uid, &id, None),
                    Err(error) => error!(pod = pod_text, name, %id, error, "Failed to kill container"),
                }
            }
            // Nobody may wait for it any more.
            let _ = done.send(ran);
        };
        {
            let mut hooks = self.hooks.lock();
            while let Some(ended) = hooks.try_join_next() {
                if let Err(error) = ended {
                    error!(%error, "a hook's task failed");
                }
            }
            hooks.spawn(run);
        }
        match ended.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(SyncError::new("PostStartHookError", failure.0)),
            Err(_) => Err(SyncError::new("PostStartHookError", "the hook's task failed")),
        }
    }
}
