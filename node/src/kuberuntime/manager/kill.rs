//! Stopping containers: hooks, turns and grace.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Lifecycle, LifecycleHandler, Pod, PodSpec};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use super::spec::{IMPLICIT, container_spec, reference};
use crate::container::ContainerId;
use crate::events::{EventType, Events};
use crate::kuberuntime::actions::KillReason;
use crate::kuberuntime::grace_period::{MINIMUM_SECONDS, termination_grace_period};
use crate::kuberuntime::labels::{AnnotatedInfo, LabelledInfo};
use crate::kuberuntime::termination_order::TerminationOrder;
use crate::lifecycle::HookRunner;
use crate::pod_text::pod_text;
use crate::runtime::RuntimeService;

/// Stops containers.
pub(super) struct Killer {
    pub(super) runtime: Arc<dyn RuntimeService>,
    pub(super) events: Events,
    pub(super) hooks: HookRunner,
    /// The hooks before the stop of containers that are being stopped.
    pub(super) stopping: Mutex<HashMap<ContainerId, Weak<StopHook>>>,
}

/// The hook before the stop of a container, shared by all who stop that at the same time: the first one that has time for it
/// runs it, and the others wait until it is done, or the container has ended. If that one gives up in between, the next one
/// runs it anew.
#[derive(Debug, Default)]
pub(super) struct StopHook {
    done: OnceCell<()>,
    ended: CancellationToken,
}

impl StopHook {
    async fn run(&self, hook: impl Future<Output = ()>) {
        tokio::select! {
            // First: nobody begins a hook in a container that has ended.
            biased;
            () = self.ended.cancelled() => {}
            _ = self.done.get_or_init(|| hook) => {}
        }
    }
}

/// A container to stop, and how.
pub(super) struct Kill<'a> {
    /// None for what is left over of any pod: what is needed then is read from the container's annotations.
    pub(super) pod: Option<&'a Pod>,
    pub(super) id: &'a ContainerId,
    pub(super) name: &'a str,
    /// For the event; empty for the usual words.
    pub(super) message: &'a str,
    pub(super) reason: KillReason,
    /// Seconds instead of those that pod and container ask for.
    pub(super) grace_override: Option<i64>,
    /// Whom it has to wait for.
    pub(super) turns: Option<&'a Turns>,
}

/// Who has ended of the containers that are stopped together, and who waits for whom.
pub(super) struct Turns {
    order: TerminationOrder,
    ended: watch::Sender<BTreeSet<String>>,
}

impl Turns {
    pub(super) fn new(order: TerminationOrder) -> Self {
        Self { order, ended: watch::Sender::default() }
    }

    /// Waits until the container may be stopped, or the grace is over.
    async fn wait(&self, name: &str, grace: i64) {
        let mut ended = self.ended.subscribe();
        let turn = ended.wait_for(|ended| self.order.may_stop(name, ended));
        // The sender lives as long as this, so only the turn or the time ends it.
        let _ = timeout(seconds(grace), turn).await;
    }

    fn ended(&self, name: &str) {
        self.ended.send_modify(|ended| {
            ended.insert(name.to_owned());
        });
    }
}

impl Killer {
    /// Stops a container: tells it, runs its hook before the stop, waits for its turn, and gives it the rest of its grace to
    /// end. Returns when it has ended.
    ///
    /// Errors, in words: its spec is not known, or the runtime failed; it may still run.
    pub(super) async fn kill(&self, kill: Kill<'_>) -> Result<(), String> {
        let Kill { id, name, .. } = kill;
        let (pod, container) = match kill.pod {
            Some(pod) => {
                let container = container_spec(pod, name).ok_or_else(|| {
                    format!(
                        "failed to get containerSpec {name:?} (id={:?}) in pod {:?} when killing container for reason {:?}",
                        id.to_string(),
                        pod_text(pod),
                        kill.message
                    )
                })?;
                (std::borrow::Cow::Borrowed(pod), container)
            }
            None => match self.restore(id).await {
                Ok((pod, container)) => (std::borrow::Cow::Owned(pod), container),
                Err(failure) if failure.is_not_found() => return Ok(()),
                Err(failure) => return Err(failure.to_string()),
            },
        };
        let asked = kill
            .grace_override
            .unwrap_or_else(|| termination_grace_period(&pod, Some(&container), kill.reason));
        let message = match kill.message {
            "" => format!("Stopping container {}", container.name),
            message => message.to_owned(),
        };
        self.event(&pod, &container.name, &id.id, EventType::Normal, "Killing", &message);

        let mut grace = asked;
        let began = Instant::now();
        let left = || asked - i64::try_from(began.elapsed().as_secs()).unwrap_or(i64::MAX);
        let shared = self.hook_of(id);
        let mut hook = pin!(async {
            let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
            if let Some(hook) = hook.filter(|_| asked > 0) {
                shared.run(self.pre_stop(&pod, &container, id, hook)).await;
            }
        });
        let hook_done = timeout(seconds(grace), &mut hook).await.is_ok();
        if !hook_done {
            info!(pod = pod_text(&pod), name, grace, "PreStop hook not completed in grace period");
        }
        grace = left();
        if let Some(turns) = kill.turns.filter(|_| grace > 0) {
            turns.wait(name, grace).await;
            grace = left();
        }
        let grace = grace.max(minimum(asked));
        debug!(pod = pod_text(&pod), name, %id, grace, "Killing container with a grace period");
        let stop = self.runtime.stop_container(&id.id, seconds(grace));
        let stopped = if hook_done {
            stop.await
        } else {
            // The hook goes on until its container ends.
            let mut stop = pin!(stop);
            tokio::select! {
                stopped = &mut stop => stopped,
                () = &mut hook => stop.await,
            }
        };
        match stopped {
            Err(failure) if !failure.is_not_found() => {
                error!(pod = pod_text(&pod), name, %id, grace, %failure, "a container could not be stopped");
                return Err(failure.to_string());
            }
            _ => debug!(pod = pod_text(&pod), name, %id, "Container exited normally"),
        }
        shared.ended.cancel();
        if let Some(turns) = kill.turns {
            turns.ended(name);
        }
        Ok(())
    }

    /// The hook of a container that is being stopped, begun or not.
    fn hook_of(&self, id: &ContainerId) -> Arc<StopHook> {
        let mut stopping = self.stopping.lock();
        stopping.retain(|_, hook| hook.strong_count() > 0);
        if let Some(shared) = stopping.get(id).and_then(Weak::upgrade) {
            return shared;
        }
        let shared = Arc::<StopHook>::default();
        stopping.insert(id.clone(), Arc::downgrade(&shared));
        shared
    }

    /// Runs the hook before the stop.
    async fn pre_stop(&self, pod: &Pod, container: &Container, id: &ContainerId, hook: &LifecycleHandler) {
        if let Err(failure) = self.hooks.run(id, pod, container, hook).await {
            error!(pod = pod_text(pod), container = container.name, %failure, "PreStop hook failed");
            // Its message may hold what is secret.
            self.event(
                pod,
                &container.name,
                &id.id,
                EventType::Warning,
                "FailedPreStopHook",
                "PreStopHook failed",
            );
        }
    }

    /// What is needed to stop a container, from its labels and annotations.
    async fn restore(&self, id: &ContainerId) -> Result<(Pod, Container), crate::runtime::Error> {
        let answer = self.runtime.container_status(&id.id).await?;
        let status = answer.status.unwrap_or_default();
        let labelled = LabelledInfo::from_labels(&status.labels);
        let annotated = AnnotatedInfo::from_annotations(&status.annotations);
        let mut pod = Pod::default();
        pod.metadata.name = Some(labelled.pod_name);
        pod.metadata.namespace = Some(labelled.pod_namespace);
        pod.metadata.uid = Some(labelled.pod_uid.to_string());
        pod.metadata.deletion_grace_period_seconds = annotated.pod_deletion_grace_period;
        pod.spec = Some(PodSpec {
            termination_grace_period_seconds: annotated.pod_termination_grace_period,
            ..PodSpec::default()
        });
        let container = Container {
            name: labelled.container_name,
            ports: Some(annotated.ports),
            lifecycle: annotated
                .pre_stop_handler
                .map(|hook| Lifecycle { pre_stop: Some(hook), ..Lifecycle::default() }),
            ..Container::default()
        };
        Ok((pod, container))
    }

    /// Tells an event of a container, in which ids give way to the name: they would keep events from being counted as one.
    /// Of a container that the pod's spec does not name, nobody is told.
    pub(super) fn event(
        &self,
        pod: &Pod,
        container: &str,
        id: &str,
        kind: EventType,
        reason: &'static str,
        message: &str,
    ) {
        let involved = reference(pod, container);
        if involved.field_path.as_ref().is_some_and(|path| path.starts_with(IMPLICIT)) {
            return;
        }
        if id.is_empty() {
            self.events.event(&involved, kind, reason, message);
        } else {
            self.events.event(&involved, kind, reason, &message.replace(id, container));
        }
    }
}

/// The grace that is left to a container however long hooks and turns took. One that was given a second or so has no more
/// than that to begin with.
fn minimum(asked: i64) -> i64 {
    if asked > 0 { asked.min(MINIMUM_SECONDS) } else { MINIMUM_SECONDS }
}

fn seconds(grace: i64) -> Duration {
    Duration::from_secs(u64::try_from(grace).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_two_seconds_unless_it_was_to_have_one() {
        for (asked, least) in [(30, 2), (2, 2), (1, 1), (0, 2), (-5, 2)] {
            assert_eq!(minimum(asked), least, "{asked}");
        }
    }
}
