//! The loop with scripted parts.

mod deletions;
mod housekeeping;
mod labels;
mod pods;
mod preemption;
mod resizes;
mod rounds;

use futures::stream::{self, StreamExt};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus as ApiStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::Uid;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::admission::preemption::Preemption;
use crate::admission::{Admission, Rejection};
use crate::allocation::{self, Resizes, Store};
use crate::container::{ContainerId, ContainerState, ContainerStatus, PodStatus, RuntimePod};
use crate::cri::v1;
use crate::events::testing::Kept;
use crate::pleg::cache::Status;
use crate::pleg::{EventKind, PodLifecycleEvent, StatusCache};
use crate::pod_config::annotations::{CONFIG_MIRROR, CONFIG_SOURCE};
use crate::pod_config::{PodConfig, PodOperation, PodUpdate, Source};
use crate::pod_manager::PodManager;
use crate::pod_workers::{
    self, PodStatuses, PodSyncer, PodWorkers, States, SyncFailure, Synced, Termination, Update, uid_of,
};
use crate::probes::ProbeUpdate;
use crate::startup_latency::StartupLatency;
use crate::status_manager::{self, StatusManager};

pub(super) fn pod(uid: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.name = Some(uid.to_owned());
    pod.metadata.namespace = Some("ns".to_owned());
    pod.spec = Some(PodSpec::default());
    pod
}

/// The pod with a container that asks for so much processor time.
pub(super) fn asking(mut pod: Pod, cpu: &str) -> Pod {
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
    pod.spec.get_or_insert_default().containers = vec![serde_json::from_value(container).unwrap()];
    pod
}

/// The pod's uid, and the processor time that it asks for, if any.
fn sized(pod: &Pod) -> String {
    let asked = crate::resources::pod_requests(pod).get("cpu").map(|cpu| format!("={cpu}"));
    format!("{}{}", uid_of(pod), asked.unwrap_or_default())
}

pub(super) fn annotated(mut pod: Pod, name: &str, value: &str) -> Pod {
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(name.to_owned(), value.to_owned());
    pod
}

pub(super) fn static_pod(uid: &str) -> Pod {
    annotated(pod(uid), CONFIG_SOURCE, "file")
}

/// Of the static pod of that uid.
pub(super) fn mirror(uid: &str, of: &str) -> Pod {
    let mut mirror = annotated(pod(of), CONFIG_MIRROR, "hash");
    mirror.metadata.uid = Some(uid.to_owned());
    mirror
}

pub(super) fn in_phase(mut pod: Pod, phase: &str) -> Pod {
    pod.status.get_or_insert_default().phase = Some(phase.to_owned());
    pod
}

pub(super) fn deleted(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
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

/// Writes down what is done, and admits and observes as it is told.
#[derive(Default)]
pub(super) struct World {
    said: Mutex<Vec<String>>,
    /// Pods that are refused, and why.
    refuse: Mutex<HashMap<Uid, Rejection>>,
    /// Of each pair the first finds room only once the second is gone.
    victims: Mutex<HashSet<(Uid, Uid)>>,
    on_node: Mutex<Option<Result<OnNode, String>>>,
    /// Looks at the node hang.
    asleep: Mutex<bool>,
    /// Syncs of these hang.
    stuck: Mutex<HashSet<Uid>>,
    kept: Mutex<HashSet<Uid>>,
    looks: Mutex<u32>,
    /// What is against these pods is gone once the Node was read.
    relabelled: Mutex<HashSet<Uid>>,
    /// Whether the pods that were there have been admitted.
    settled: Mutex<bool>,
}

impl World {
    fn say(&self, what: String) {
        self.said.lock().push(what);
    }
}

#[async_trait]
impl Agent for World {
    fn admit(&self, pod: &Arc<Pod>, others: &[Arc<Pod>]) -> Result<Admission, Rejection> {
        let mut beside: Vec<String> = others.iter().map(|other| sized(other)).collect();
        beside.sort();
        self.say(format!("admit {} beside [{}]", sized(pod), beside.join(" ")));
        if let Some(rejection) = self.refuse.lock().get(&uid_of(pod)) {
            return Err(rejection.clone());
        }
        let mut victims: Vec<_> = others.to_vec();
        victims.retain(|other| self.victims.lock().contains(&(uid_of(pod), uid_of(other))));
        victims.sort_by_key(|victim| uid_of(victim).to_string());
        if victims.is_empty() {
            return Ok(Admission::Now);
        }
        Ok(Admission::After(Preemption { victims, signal: "cpu".to_owned() }))
    }

    async fn read_node(&self) {
        self.say("read the node".to_owned());
        if *self.asleep.lock() {
            std::future::pending::<()>().await;
        }
        let relabelled = self.relabelled.lock();
        self.refuse.lock().retain(|pod, _| !relabelled.contains(pod));
    }

    fn settled(&self) {
        let before = std::mem::replace(&mut *self.settled.lock(), true);
        assert!(!before, "that is told once");
    }

    fn keep_only(&self, possibly_running: &HashSet<Uid>) {
        *self.kept.lock() = possibly_running.clone();
    }

    async fn observe(&self) -> Result<OnNode, String> {
        *self.looks.lock() += 1;
        if *self.asleep.lock() {
            std::future::pending::<()>().await;
        }
        let on_node = self.on_node.lock().clone();
        on_node.unwrap_or_else(|| Ok(OnNode::default()))
    }

    async fn clean_up(&self, work: CleanUp) {
        let list = |uids: &[Uid]| uids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let mirrors: Vec<Uid> = work.mirrors.iter().map(|mirror| uid_of(mirror)).collect();
        self.say(format!(
            "clean up cgroups [{}] folders [{}] mirrors [{}]",
            list(&work.cgroups),
            list(&work.folders),
            list(&mirrors)
        ));
    }
}

#[async_trait]
impl PodSyncer for World {
    async fn sync_pod(
        &self,
        pod: &Arc<Pod>,
        mirror: Option<&Arc<Pod>>,
        _: &PodStatus,
        _: &crate::interrupt::Interrupt,
    ) -> Result<Synced, SyncFailure> {
        let mirrored = mirror.map(|mirror| format!(" mirrored by {}", uid_of(mirror))).unwrap_or_default();
        self.say(format!("sync {}{mirrored}", sized(pod)));
        let stuck = self.stuck.lock().contains(&uid_of(pod));
        if stuck {
            std::future::pending::<()>().await;
        }
        Ok(Synced::GoesOn)
    }

    async fn sync_terminating_pod(
        &self,
        pod: &Arc<Pod>,
        _: &PodStatus,
        _: &Termination,
    ) -> Result<(), SyncFailure> {
        self.say(format!("terminate {}", uid_of(pod)));
        let stuck = self.stuck.lock().contains(&uid_of(pod));
        if stuck {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn sync_terminating_runtime_pod(&self, pod: &RuntimePod) -> Result<(), SyncFailure> {
        self.say(format!("terminate-runtime {}", pod.uid));
        Ok(())
    }

    async fn sync_terminated_pod(&self, pod: &Arc<Pod>, _: &PodStatus) -> Result<(), SyncFailure> {
        self.say(format!("clean-up {}", uid_of(pod)));
        Ok(())
    }
}

#[async_trait]
impl PodStatuses for World {
    async fn get_newer_than(&self, pod: &Uid, _: Instant) -> Status {
        Ok(Arc::new(PodStatus::unknown_to_runtime(pod.clone())))
    }

    fn request_relist(&self, _: &Uid) {}
}

#[async_trait]
impl ContainerRemover for World {
    async fn remove_container(&self, container: &ContainerId) -> Result<(), String> {
        self.say(format!("remove {}", container.id));
        Ok(())
    }
}

/// The loop, running, with all its ends in hand.
pub(super) struct Rig {
    pub(super) world: Arc<World>,
    pub(super) resizes: Resizes,
    pub(super) pods: PodManager,
    pub(super) workers: PodWorkers,
    pub(super) status: StatusManager,
    pub(super) runtime: RuntimeState,
    pub(super) events: Arc<Kept>,
    pub(super) metrics: Metrics,
    pub(super) health: LoopHealth,
    /// Says whether all sources were heard. What they say is for the test to pass on.
    pub(super) config: PodConfig,
    pub(super) from_config: mpsc::Receiver<PodUpdate>,
    pub(super) updates: mpsc::Sender<PodUpdate>,
    pub(super) pod_events: mpsc::Sender<PodLifecycleEvent>,
    pub(super) probes: mpsc::Sender<ProbeUpdate>,
    pub(super) statuses: StatusCache,
    pub(super) stop: CancellationToken,
    pub(super) tasks: JoinSet<()>,
}

impl Rig {
    /// Runs over a runtime that is well, without sources to wait for.
    pub(super) fn new() -> Self {
        let rig = Self::unwell();
        rig.say_ready();
        rig
    }

    /// Over a runtime that has not said yet that it is well.
    pub(super) fn unwell() -> Self {
        let (world, events) = (Arc::<World>::default(), Arc::<Kept>::default());
        let (pods, states, runtime) = (PodManager::new(), States::new(), RuntimeState::new());
        let status = StatusManager::new(
            Arc::new(pods.clone()),
            Arc::new(states.clone()),
            status_manager::Metrics::new(),
        );
        let workers = PodWorkers::new(
            states,
            world.clone(),
            world.clone(),
            events.clone(),
            pod_workers::Config::default(),
            pod_workers::Metrics::new(),
        );
        let (statuses, stop, metrics) = (StatusCache::new(), CancellationToken::new(), Metrics::new());
        let (deletor, deletions) = ContainerDeletor::new(statuses.reader(), world.clone(), 1);
        let (config, from_config) = PodConfig::new(None);
        let (updates, from_sources) = mpsc::channel(50);
        let (pod_events, from_pleg) = mpsc::channel(50);
        let (probes, mut from_probes) = mpsc::channel(50);
        let resizes = Resizes::new(Store::in_memory(), events.clone(), allocation::Metrics::new());
        let parts = Parts {
            pods: pods.clone(),
            workers: workers.clone(),
            status: status.clone(),
            agent: world.clone(),
            resizes: resizes.clone(),
            held: Held::default(),
            deletions,
            runtime: runtime.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            startup: StartupLatency::new(),
        };
        let inputs = Inputs {
            config: config.clone(),
            updates: from_sources,
            pod_events: from_pleg,
            probes: stream::poll_fn(move |cx| from_probes.poll_recv(cx)).boxed(),
        };
        let sync_loop = SyncLoop::new(parts, inputs);
        let (health, mut tasks) = (sync_loop.health(), JoinSet::new());
        tasks.spawn(sync_loop.run(stop.clone()));
        tasks.spawn(deletor.run(stop.clone()));
        Self {
            world,
            resizes,
            pods,
            workers,
            status,
            runtime,
            events,
            metrics,
            health,
            config,
            from_config,
            updates,
            pod_events,
            probes,
            statuses,
            stop,
            tasks,
        }
    }

    pub(super) fn say_ready(&self) {
        let ready = |name: &str| v1::RuntimeCondition {
            r#type: name.to_owned(),
            status: true,
            ..v1::RuntimeCondition::default()
        };
        let status = v1::RuntimeStatus { conditions: vec![ready("RuntimeReady"), ready("NetworkReady")] };
        self.runtime.observe(&status, Instant::now());
    }

    pub(super) async fn settle(&self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// What was done since this was last asked, once nothing moves any more; no time passes.
    pub(super) async fn done(&self) -> Vec<String> {
        self.settle().await;
        std::mem::take(&mut *self.world.said.lock())
    }

    /// Likewise after some time, in which the runtime stays well.
    pub(super) async fn done_after(&self, seconds: u64) -> Vec<String> {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.say_ready();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.done().await
    }

    pub(super) async fn tell(&self, op: PodOperation, pods: &[Pod]) {
        let pods = pods.iter().cloned().map(Arc::new).collect();
        let update = PodUpdate { pods, op, source: Source::Api };
        self.updates.send(update).await.expect("the loop must run");
    }

    pub(super) async fn pleg_says(&self, pod: &str, kind: EventKind) {
        let event = PodLifecycleEvent { pod: pod.into(), kind };
        self.pod_events.send(event).await.expect("the loop must run");
    }

    /// Stops all, and shows that nothing is left.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.workers.stop().await;
        assert!(self.workers.is_empty());
    }
}

pub(super) fn container(id: &str, name: &str, state: ContainerState, second: i64) -> ContainerStatus {
    ContainerStatus {
        id: ContainerId::new("containerd", id),
        name: name.to_owned(),
        sandbox_id: "s".to_owned(),
        state,
        created_at: Timestamp::from_second(second).expect("the second must be one"),
        started_at: None,
        finished_at: None,
        exit_code: 0,
        image: String::new(),
        image_id: String::new(),
        image_ref: String::new(),
        hash: 0,
        restart_count: 0,
        reason: String::new(),
        message: String::new(),
        resources: None,
        user: None,
        stop_signal: None,
    }
}

pub(super) fn with_phase(phase: &str) -> ApiStatus {
    ApiStatus { phase: Some(phase.to_owned()), ..ApiStatus::default() }
}
