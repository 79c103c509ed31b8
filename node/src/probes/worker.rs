//! What a probe's task does next. Pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus, Probe};

use super::ProbeKind;
use super::prober::seconds;
use crate::container::ContainerId;
use crate::kuberuntime::actions::ProbeResult;
use crate::restart_policy::{
    container_should_restart, is_restartable_init_container, should_all_containers_restart,
};

/// Whose probe a task is for.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) kind: ProbeKind,
    pub(super) pod: Arc<Pod>,
    pub(super) container: Container,
    pub(super) probe: Probe,
    /// Containers that started before were there before this agent: what was found of them holds until it is probed
    /// again.
    pub(super) before_agent: Timestamp,
}

/// Where a probe has got to with its container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// The container that was last seen.
    container: Option<ContainerId>,
    /// What the last probe of it found.
    last: Option<ProbeResult>,
    /// How often in a row.
    run: i32,
    /// Nothing more is to be found until there is another container.
    on_hold: bool,
}

/// What becomes of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Set(ContainerId, ProbeResult),
    Forget(ContainerId),
}

/// What a task does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Look again in a period.
    Wait,
    /// Nothing any more.
    End,
    /// Probe this container.
    Probe(ContainerId),
}

impl Subject {
    /// What holds of a container that was not probed yet.
    fn initial(&self) -> ProbeResult {
        match self.kind {
            ProbeKind::Readiness => ProbeResult::Failure,
            ProbeKind::Liveness => ProbeResult::Success,
            ProbeKind::Startup => ProbeResult::Unknown,
        }
    }

    fn is_sidecar(&self) -> bool {
        let init = self.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let is_init = init.into_iter().any(|container| container.name == self.container.name);
        is_init && is_restartable_init_container(&self.container)
    }

    /// The container's status, once it has an id.
    fn status_in<'a>(&self, status: &'a PodStatus) -> Option<(&'a ContainerStatus, ContainerId)> {
        let find = |list: &'a Option<Vec<ContainerStatus>>| {
            let found = list.iter().flatten().find(|status| status.name == self.container.name)?;
            Some((found, found.container_id.as_deref()?.parse().ok()?))
        };
        find(&status.container_statuses).or_else(|| find(&status.init_container_statuses))
    }
}

/// Since when a container runs; `None` while it does not, or where that is not told.
pub(super) fn running_since(status: &ContainerStatus) -> Option<Timestamp> {
    Some(status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0)
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

impl Course {
    /// What follows from the pod's status: changes of results, to be made in order, and what to do then.
    pub(super) fn observe(
        &mut self,
        subject: &Subject,
        status: Option<&PodStatus>,
        now: Timestamp,
    ) -> (Vec<Change>, Next) {
        // Not created yet, or deleted.
        let Some(status) = status else { return (Vec::new(), Next::Wait) };
        if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
            return (Vec::new(), Next::End);
        }
        let Some((container, id)) = subject.status_in(status) else { return (Vec::new(), Next::Wait) };
        let mut changes = Vec::new();
        if self.container.as_ref() != Some(&id) {
            self.turn_to(subject, container, &id, &mut changes);
        }
        if self.on_hold {
            return (changes, Next::Wait);
        }
        if !is_running(container) {
            changes.push(Change::Set(id, ProbeResult::Failure));
            let next = if may_run_again(subject, container, status) { Next::Wait } else { Next::End };
            return (changes, next);
        }
        let deleted = subject.pod.metadata.deletion_timestamp.is_some();
        if deleted && subject.kind != ProbeKind::Readiness {
            // It shall end in its own time.
            changes.push(Change::Set(id, ProbeResult::Success));
            return (changes, Next::End);
        }
        let since = running_since(container).map_or(SignedDuration::MAX, |since| now.duration_since(since));
        if since.as_secs() < i64::from(subject.probe.initial_delay_seconds.unwrap_or_default()) {
            return (changes, Next::Wait);
        }
        // Only the startup probe runs before the start, and only others after it.
        let started = container.started == Some(true);
        if started == (subject.kind == ProbeKind::Startup) {
            return (changes, Next::Wait);
        }
        (changes, Next::Probe(id))
    }

    /// There is another container.
    fn turn_to(
        &mut self,
        subject: &Subject,
        status: &ContainerStatus,
        id: &ContainerId,
        changes: &mut Vec<Change>,
    ) {
        // Thresholds count what one container answers in a row.
        let old = std::mem::replace(self, Self { container: Some(id.clone()), ..Self::default() });
        changes.extend(old.container.map(Change::Forget));
        let was_there = running_since(status).is_some_and(|since| since < subject.before_agent);
        let set = |result| Change::Set(id.clone(), result);
        if subject.kind == ProbeKind::Startup && subject.is_sidecar() && status.started == Some(true) {
            // The containers that wait for the sidecar need to know.
            changes.push(set(ProbeResult::Success));
        }
        if !was_there {
            changes.push(set(subject.initial()));
        }
    }

    /// What is now known of the container, if a probe found the same often enough.
    pub(super) fn conclude(&mut self, subject: &Subject, result: ProbeResult) -> Option<ProbeResult> {
        self.run = if self.last == Some(result) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(result);
        let threshold = match result {
            ProbeResult::Success => seconds(subject.probe.success_threshold, 1),
            ProbeResult::Failure => seconds(subject.probe.failure_threshold, 3),
            ProbeResult::Unknown => 1,
        };
        if i64::from(self.run) < i64::try_from(threshold).unwrap_or(i64::MAX) {
            return None;
        }
        // What fails is to be killed and left alone until then; what has started is not asked again.
        let failed = subject.kind == ProbeKind::Liveness && result == ProbeResult::Failure;
        if failed || subject.kind == ProbeKind::Startup {
            self.on_hold = true;
            self.run = 0;
        }
        Some(result)
    }

    /// The container that was last seen.
    pub(super) fn container(&self) -> Option<&ContainerId> {
        self.container.as_ref()
    }
}

/// Whether a container that does not run may do so again.
fn may_run_again(subject: &Subject, container: &ContainerStatus, status: &PodStatus) -> bool {
    let terminated = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    let (Some(terminated), Some(spec)) = (terminated, &subject.pod.spec) else { return true };
    container_should_restart(&subject.container, spec, terminated.exit_code)
        || should_all_containers_restart(&subject.pod, None, Some(status))
}
