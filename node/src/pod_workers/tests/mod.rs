//! Pods, and a scripted syncer.

mod ends;
mod machine;
mod static_pods;
mod table;
mod tasks;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus as ApiStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::time::Instant;

use super::*;
use crate::container::{PodStatus, RuntimePod};
use crate::events::testing::Kept;
use crate::interrupt::Interrupt;
use crate::pleg;
use crate::pleg::cache::Status;

pub(super) fn pod(uid: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.name = Some(uid.to_owned());
    pod.metadata.namespace = Some("ns".to_owned());
    pod.spec = Some(PodSpec { termination_grace_period_seconds: Some(30), ..PodSpec::default() });
    pod
}

/// All static pods have one name, unless told otherwise.
pub(super) fn static_pod(uid: &str) -> Pod {
    let mut pod = pod(uid);
    pod.metadata.name = Some("same".to_owned());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert("kubernetes.io/config.source".to_owned(), "file".to_owned());
    pod
}

pub(super) fn in_phase(mut pod: Pod, phase: &str) -> Pod {
    pod.status = Some(ApiStatus { phase: Some(phase.to_owned()), ..ApiStatus::default() });
    pod
}

pub(super) fn deleted(mut pod: Pod, grace: i64) -> Pod {
    pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}

pub(super) fn runtime_pod(uid: &str) -> RuntimePod {
    RuntimePod {
        uid: uid.into(),
        name: uid.to_owned(),
        namespace: "ns".to_owned(),
        containers: Vec::new(),
        sandboxes: Vec::new(),
    }
}

pub(super) fn create(pod: Pod) -> Update {
    Update::of(UpdateKind::Create, Arc::new(pod), None)
}

pub(super) fn update(pod: Pod) -> Update {
    Update::of(UpdateKind::Update, Arc::new(pod), None)
}

pub(super) fn kill(pod: Pod) -> Update {
    Update::kill(Arc::new(pod))
}

pub(super) fn kill_within(pod: Pod, grace: i64) -> Update {
    Update { kill: Some(Kill { grace: Some(grace), ..Kill::default() }), ..kill(pod) }
}

/// How a scripted call goes.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// At once.
    Well(Synced),
    /// After some time.
    After(Duration),
    /// Never.
    Hangs,
    /// Never, after a whole part of that time.
    HangsAfterWhole(Duration),
    /// With a failure.
    Fails(SyncFailure),
    Panics,
}

/// Writes down what it is told to do: `sync a`, `terminate a 30`, `terminate-runtime a`, `clean-up a`; and ` dropped` after
/// what was begun and not ended. Each call goes the first way that is left for its word and pod, or well.
#[derive(Default)]
pub(super) struct Script {
    said: Mutex<Vec<String>>,
    ways: Mutex<HashMap<String, Vec<Way>>>,
}

struct Begun<'a>(&'a Script, Option<String>);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.1.take() {
            self.0.say(format!("{call} dropped"));
        }
    }
}

impl Script {
    fn say(&self, what: String) {
        self.said.lock().push(what);
    }

    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().clone()
    }

    /// What was said since this was last asked.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.said.lock())
    }

    pub(super) fn next(&self, call: &str, way: Way) {
        self.ways.lock().entry(call.to_owned()).or_default().push(way);
    }

    async fn go(
        &self,
        word: &str,
        uid: &str,
        detail: &str,
        interrupt: &Interrupt,
    ) -> Result<Synced, SyncFailure> {
        let (call, key) = (format!("{word} {uid}{detail}"), format!("{word} {uid}"));
        self.say(call.clone());
        let mut begun = Begun(self, Some(call));
        let way = self.ways.lock().get_mut(&key).filter(|ways| !ways.is_empty()).map(|ways| ways.remove(0));
        let ended = match way {
            None => Ok(Synced::GoesOn),
            Some(Way::Well(synced)) => Ok(synced),
            Some(Way::After(time)) => {
                tokio::time::sleep(time).await;
                Ok(Synced::GoesOn)
            }
            Some(Way::Hangs) => std::future::pending().await,
            Some(Way::HangsAfterWhole(time)) => {
                interrupt.whole(tokio::time::sleep(time)).await;
                std::future::pending().await
            }
            Some(Way::Fails(failure)) => Err(failure),
            Some(Way::Panics) => {
                begun.1 = None;
                panic!("as scripted")
            }
        };
        begun.1 = None;
        ended
    }
}

#[async_trait]
impl PodSyncer for Script {
    async fn sync_pod(
        &self,
        pod: &Arc<Pod>,
        mirror: Option<&Arc<Pod>>,
        _: &PodStatus,
        interrupt: &Interrupt,
    ) -> Result<Synced, SyncFailure> {
        let generation = pod.metadata.generation.map(|generation| format!(" v{generation}"));
        let mirror = mirror.map(|mirror| format!(" mirrored by {}", uid_of(mirror)));
        let detail = generation.unwrap_or_default() + &mirror.unwrap_or_default();
        self.go("sync", &uid_of(pod).to_string(), &detail, interrupt).await
    }

    async fn sync_terminating_pod(
        &self,
        pod: &Arc<Pod>,
        _: &PodStatus,
        termination: &Termination,
    ) -> Result<(), SyncFailure> {
        let mut status = ApiStatus::default();
        if let Some(change) = &termination.status {
            change.apply(&mut status);
        }
        let grace = termination.grace.map_or(" own".to_owned(), |grace| format!(" {grace}"));
        let reason = status.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        self.go("terminate", &uid_of(pod).to_string(), &(grace + &reason), &Interrupt::new()).await.map(drop)
    }

    async fn sync_terminating_runtime_pod(&self, pod: &RuntimePod) -> Result<(), SyncFailure> {
        self.go("terminate-runtime", &pod.uid.to_string(), "", &Interrupt::new()).await.map(drop)
    }

    async fn sync_terminated_pod(&self, pod: &Arc<Pod>, _: &PodStatus) -> Result<(), SyncFailure> {
        self.go("clean-up", &uid_of(pod).to_string(), "", &Interrupt::new()).await.map(drop)
    }
}

/// A runtime that has nothing of any pod but what it was given. It is asked again once a second, and at once where somebody
/// requests it.
pub(super) struct Runtime {
    pods: Mutex<HashMap<Uid, Status>>,
    requested: Mutex<Vec<Uid>>,
    /// Of these nothing newer comes.
    stuck: Mutex<Vec<Uid>>,
}

#[async_trait]
impl PodStatuses for Runtime {
    async fn get_newer_than(&self, pod: &Uid, _: Instant) -> Status {
        if self.stuck.lock().contains(pod) {
            std::future::pending::<()>().await;
        }
        let known = self.pods.lock().get(pod).cloned();
        known.unwrap_or_else(|| Ok(Arc::new(PodStatus::unknown_to_runtime(pod.clone()))))
    }

    fn request_relist(&self, pod: &Uid) {
        self.requested.lock().push(pod.clone());
    }
}

/// Workers with all that they need.
pub(super) struct Rig {
    pub(super) workers: PodWorkers,
    pub(super) script: Arc<Script>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) events: Arc<Kept>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let (script, events) = (Arc::<Script>::default(), Arc::<Kept>::default());
        let runtime = Arc::new(Runtime {
            pods: Mutex::default(),
            requested: Mutex::default(),
            stuck: Mutex::default(),
        });
        let workers = PodWorkers::new(
            States::new(),
            script.clone(),
            runtime.clone(),
            events.clone(),
            Config::default(),
            Metrics::new(),
        );
        Self { workers, script, runtime, events }
    }

    pub(super) fn states(&self) -> &States {
        self.workers.states()
    }

    /// Until nothing moves any more; no time passes.
    pub(super) async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    /// What was done once nothing moves any more, since it was last asked.
    pub(super) async fn done(&self) -> Vec<String> {
        self.settle().await;
        self.script.take()
    }

    /// As the sync loop does each second: due pods are sent to their workers.
    pub(super) fn tick(&self, pods: &[Pod]) -> Vec<String> {
        let due = self.workers.take_due();
        for pod in pods.iter().filter(|pod| due.contains(&uid_of(pod))) {
            self.workers.update(Update::of(UpdateKind::Sync, Arc::new(pod.clone()), None));
        }
        let mut due: Vec<String> = due.iter().map(ToString::to_string).collect();
        due.sort();
        due
    }
}

pub(super) fn failed_inspection() -> Status {
    Err(pleg::Error::Inspect(Arc::new(std::io::Error::other("it is asleep"))))
}
