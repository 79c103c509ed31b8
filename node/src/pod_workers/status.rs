//! What one pod is in, and what leads on. Pure.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::grace;
use super::known::{KnownConfig, Lifecycle};
use super::update::{Kill, StatusChange, Target, Termination, Update, UpdateKind};
use crate::container::RuntimePod;
use crate::pod_config::is_static_pod;

/// One pod, from its first update until it is forgotten (`podSyncStatus` upstream).
///
/// It holds the newest update that its worker has not begun with (*pending*), and what the worker last began with
/// (*active*), which is begun with again where the pod goes over to its next state and nothing newer is pending. A pod that
/// was not allowed to start yet has no active update.
#[derive(Debug)]
pub struct PodSyncStatus {
    full_name: String,
    state: State,
    /// Whether its worker was ever allowed to begin with it.
    started: bool,
    /// Whether the runtime told of it before a source did: then it is terminated properly even if it never started.
    observed_runtime: bool,
    /// It is deleted on the API server, or in no source any more.
    deleted: bool,
    evicted: bool,
    /// It was wanted again while it was terminating.
    restart_requested: bool,
    pending: Option<Pending>,
    active: Option<Active>,
    /// Seconds that it has for its end; once it was told to terminate.
    grace: Option<i64>,
    /// Of the last kill that had one.
    status_change: Option<StatusChange>,
    /// Told when nothing of it runs any more; empty from then on.
    waiting: Vec<oneshot::Sender<()>>,
}

/// A pod goes through these in order, and never back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Left when it is to be deleted or killed, has a terminal phase, or its containers ended for good.
    Syncing,
    /// It is to terminate, but its worker may still be syncing it. Left when the worker sees that.
    TerminationRequested,
    /// Its worker starts nothing any more. Left when nothing of it runs.
    Terminating,
    /// Left when what it had on the node is gone.
    Terminated,
    /// Left for nothing: the pod is forgotten once it is in no source, or wanted again.
    Finished,
}

#[derive(Debug)]
struct Pending {
    kind: UpdateKind,
    target: Target,
    grace: Option<i64>,
    since: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Active {
    target: Target,
    grace: Option<i64>,
}

/// What an update leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    Ignored,
    /// The worker should begin with it once it has time.
    Wake,
    /// Likewise, and a sync under way must be broken off.
    Interrupt,
}

/// What a worker is to do.
#[derive(Debug)]
pub struct Job {
    /// The sync, and of what.
    pub work: Work,
    /// The kind of the update that led to it.
    pub kind: UpdateKind,
    /// When that was made.
    pub since: Option<Instant>,
    /// Whether the pod starts with it.
    pub first: bool,
}

/// One sync.
pub enum Work {
    /// [`super::PodSyncer::sync_pod`].
    Sync {
        /// The pod.
        pod: Arc<Pod>,
        /// Its mirror.
        mirror: Option<Arc<Pod>>,
    },
    /// [`super::PodSyncer::sync_terminating_pod`].
    Terminate(Arc<Pod>, Termination),
    /// [`super::PodSyncer::sync_terminating_runtime_pod`].
    TerminateRuntime(RuntimePod),
    /// [`super::PodSyncer::sync_terminated_pod`].
    CleanUp(Arc<Pod>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync { .. } => "Sync",
            Self::Terminate(..) => "Terminate",
            Self::TerminateRuntime(_) => "TerminateRuntime",
            Self::CleanUp(_) => "CleanUp",
        })
    }
}

/// What becomes of a pod that no source has any more, or that is wanted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It can be forgotten.
    Forget,
    /// Not yet.
    Keep,
    /// Not yet, and its worker should go on with its end.
    Wake,
}

impl PodSyncStatus {
    /// A pod that is seen for the first time.
    pub fn new(full_name: String) -> Self {
        Self {
            full_name,
            state: State::Syncing,
            started: false,
            observed_runtime: false,
            deleted: false,
            evicted: false,
            restart_requested: false,
            pending: None,
            active: None,
            grace: None,
            status_change: None,
            waiting: Vec::new(),
        }
    }

    /// A pod that is seen for the first time and ended before: it has a terminal phase, and nothing of it runs. Only what it
    /// left is to be taken away.
    pub fn ended_before(full_name: String) -> Self {
        Self { state: State::Terminated, ..Self::new(full_name) }
    }

    /// `name_namespace`.
    pub fn full_name(&self) -> &str {
        &self.full_name
    }

    /// Whether it is to terminate, does so, or has.
    pub fn is_termination_requested(&self) -> bool {
        self.state >= State::TerminationRequested
    }

    /// Whether no container of it will be started any more.
    pub fn is_termination_started(&self) -> bool {
        self.state >= State::Terminating
    }

    /// Whether nothing of it runs any more.
    pub fn is_terminated(&self) -> bool {
        self.state >= State::Terminated
    }

    /// Whether nothing is left to do for it.
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Whether it was killed as evicted.
    pub fn is_evicted(&self) -> bool {
        self.evicted
    }

    /// Whether it is deleted on the API server or in no source any more.
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether its worker was ever allowed to begin with it.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Whether it was wanted again while it was terminating.
    pub fn is_restart_requested(&self) -> bool {
        self.restart_requested
    }

    /// Where it is in its life.
    pub fn lifecycle(&self) -> Lifecycle {
        match self.state {
            State::Syncing => Lifecycle::Sync,
            State::TerminationRequested | State::Terminating => Lifecycle::Terminating,
            State::Terminated | State::Finished => Lifecycle::Terminated,
        }
    }

    /// Where its spec comes from: what the worker began with, or else what it is to begin with.
    pub fn config(&self) -> KnownConfig {
        let active = self.active.as_ref().map(|active| &active.target);
        match active.or(self.pending.as_ref().map(|pending| &pending.target)).and_then(Target::pod) {
            None => KnownConfig::None,
            Some(pod) if is_static_pod(pod) => KnownConfig::Static,
            Some(_) => KnownConfig::Regular,
        }
    }

    /// The pod that waits to be begun with, if one does and the pod has not started.
    pub(super) fn wants_to_start(&self) -> Option<&Arc<Pod>> {
        if self.started {
            return None;
        }
        self.pending.as_ref().and_then(|pending| pending.target.pod())
    }

    /// Takes an update in. `first` says that it is the one for which this was made.
    pub fn update(&mut self, update: Update, first: bool) -> Reaction {
        let Update { kind, target, kill, since } = update;
        let runtime_only = matches!(target, Target::Runtime(_));
        if runtime_only && kind != UpdateKind::Kill {
            return Reaction::Ignored;
        }
        self.observed_runtime |= runtime_only;
        // What a source told says more than what the runtime tells.
        let target = match target {
            Target::Runtime(pod) => match self.known_pod() {
                Some(pod) => Target::Pod { pod, mirror: None },
                None => Target::Runtime(pod),
            },
            of_a_source => of_a_source,
        };
        if !first && self.is_termination_requested() && kind == UpdateKind::Create {
            self.restart_requested = true;
            return Reaction::Ignored;
        }
        // A kill's `done` is dropped with it, which tells that there is nothing to wait for.
        if self.is_finished() || (self.is_terminated() && runtime_only) {
            return Reaction::Ignored;
        }
        let kill = kill.unwrap_or_default();
        let became_terminating =
            !self.is_termination_requested() && self.terminates(kind, &target, runtime_only, &kill);
        if became_terminating {
            self.state = State::TerminationRequested;
        }
        let (grace, shortened) = match self.lifecycle() {
            Lifecycle::Terminating => self.take_kill(kill, &target),
            Lifecycle::Sync | Lifecycle::Terminated => (None, false),
        };
        let since = match (self.pending.as_ref().and_then(|pending| pending.since), since) {
            (Some(before), Some(now)) => Some(before.min(now)),
            (_, now) => now,
        };
        self.pending = Some(Pending { kind, target, grace, since });
        if became_terminating || shortened { Reaction::Interrupt } else { Reaction::Wake }
    }

    /// The newest state of the pod that a source gave.
    fn known_pod(&self) -> Option<Arc<Pod>> {
        let pending = self.pending.as_ref().and_then(|pending| pending.target.pod());
        pending.or_else(|| self.active.as_ref()?.target.pod()).cloned()
    }

    /// Whether an update makes a pod terminate that was not told to before.
    fn terminates(&mut self, kind: UpdateKind, target: &Target, runtime_only: bool, kill: &Kill) -> bool {
        let deleted = target.pod().is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
        if runtime_only || deleted {
            self.deleted = true;
            return true;
        }
        if target.pod().is_some_and(|pod| has_terminal_phase(pod)) {
            return true;
        }
        if kind == UpdateKind::Kill {
            self.evicted = kill.evict;
            return true;
        }
        false
    }

    /// Takes in how a terminating pod is to be killed; says its grace, and whether that became shorter.
    fn take_kill(&mut self, kill: Kill, target: &Target) -> (Option<i64>, bool) {
        self.waiting.extend(kill.done);
        if kill.status.is_some() {
            self.status_change = kill.status;
        }
        let grace = grace::effective(self.grace, target.pod().map(|pod| &**pod), kill.grace);
        let shortened = self.grace.replace(grace).is_some_and(|before| before != grace);
        (Some(grace), shortened)
    }

    /// What its worker is to do now, if anything is pending. The pod counts as started from here on.
    pub fn begin(&mut self) -> Option<Job> {
        let Pending { kind, target, grace, since } = self.pending.take()?;
        let first = !self.started && target.pod().is_some();
        self.started |= first;
        let before = self.active.take().and_then(|active| active.grace);
        self.active = Some(Active { target: target.clone(), grace: grace.or(before) });
        if self.state == State::TerminationRequested {
            self.state = State::Terminating;
        }
        let work = match (target, self.lifecycle()) {
            (Target::Runtime(pod), _) => Work::TerminateRuntime(pod),
            (Target::Pod { pod, mirror }, Lifecycle::Sync) => Work::Sync { pod, mirror },
            (Target::Pod { pod, .. }, Lifecycle::Terminating) => {
                let (grace, status) = (grace.or(self.grace), self.status_change.clone());
                Work::Terminate(pod, Termination { grace, status })
            }
            (Target::Pod { pod, .. }, Lifecycle::Terminated) => Work::CleanUp(pod),
        };
        Some(Job { work, kind, since, first })
    }

    /// It was to terminate before it could start: nothing is to be done for it. Says when that was told.
    pub(super) fn never_started(&mut self) -> Option<Instant> {
        self.state = State::Finished;
        self.tell_waiting();
        self.pending.take().and_then(|pending| pending.since)
    }

    /// Its containers ended for good: it is to be terminated.
    pub fn complete_sync(&mut self) {
        self.state = self.state.max(State::Terminating);
        self.replay();
    }

    /// Nothing of it runs any more.
    pub fn complete_terminating(&mut self) {
        self.state = self.state.max(State::Terminated);
        self.tell_waiting();
        self.replay();
    }

    /// What it had on the node is gone.
    pub fn complete_terminated(&mut self) {
        self.state = State::Finished;
        self.pending = None;
    }

    fn tell_waiting(&mut self) {
        self.status_change = None;
        for waiting in self.waiting.drain(..) {
            // Whoever waited may have given up.
            let _ = waiting.send(());
        }
    }

    /// Has the worker begin once more with what it last began with, unless something newer is pending. Says whether anything
    /// is.
    fn replay(&mut self) -> bool {
        if let (None, Some(Active { target, grace })) = (&self.pending, self.active.clone()) {
            self.pending = Some(Pending { kind: UpdateKind::Sync, target, grace, since: None });
        }
        self.pending.is_some()
    }

    /// No source has the pod any more (`orphan`), or it is wanted again.
    pub fn remove(&mut self, orphan: bool) -> Removal {
        if self.is_finished() {
            return Removal::Forget;
        }
        if !orphan {
            return Removal::Keep;
        }
        self.deleted = true;
        if !self.started && !self.observed_runtime {
            return Removal::Forget;
        }
        if !self.is_termination_requested() {
            self.state = State::TerminationRequested;
            let pod = self.known_pod();
            self.grace = Some(grace::effective(self.grace, pod.as_deref(), None));
        }
        if self.replay() { Removal::Wake } else { Removal::Keep }
    }
}

/// Whether a pod's phase, as its source has it, is one that it never leaves.
pub fn has_terminal_phase(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
