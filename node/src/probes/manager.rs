//! The probes of all pods.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::metrics::{Found, Labels};
use super::prober::{Prober, Target, seconds};
use super::readiness::{self, Known, Then};
use super::updates::{self, UpdateSender};
use super::worker::{Change, Course, Next, Subject};
use super::{Metrics, ProbeKind, ProbeUpdate, ProbeUpdates, Results};
use crate::container::ContainerId;
use crate::events::Events;
use crate::kuberuntime::actions::ProbeResult;
use crate::restart_policy::is_restartable_init_container;
use crate::runtime::RuntimeService;
use crate::status_manager::StatusManager;
use crate::status_manager::statuses::Role;

/// Containers that started so long before this agent were there before it.
const BEFORE_AGENT: SignedDuration = SignedDuration::from_secs(10);

/// Where the statuses of pods are found: their addresses, and what their containers are called and do.
pub trait PodStatuses: Send + Sync + 'static {
    /// The newest status of a pod.
    fn pod_status(&self, uid: &str) -> Option<PodStatus>;
}

impl PodStatuses for StatusManager {
    fn pod_status(&self, uid: &str) -> Option<PodStatus> {
        self.get(uid)
    }
}

/// Probes the containers of pods, each probe in a task of its own. A clone is the same.
///
/// A pod's probes begin with [`add_pod`](Self::add_pod), and end when it is removed, when it has ended, or when a container
/// has and will not start again. Changed probes of a pod that is known are not seen, as upstream.
#[derive(Clone)]
pub struct ProbeManager {
    shared: Arc<Shared>,
}

struct Shared {
    workers: Mutex<HashMap<Key, Worker>>,
    statuses: Arc<dyn PodStatuses>,
    prober: Prober,
    liveness: Results,
    readiness: Results,
    startup: Results,
    updates: UpdateSender,
    metrics: Metrics,
    began: Instant,
    before_agent: Timestamp,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    pod: Uid,
    container: String,
    kind: ProbeKind,
}

/// A hold on a task; the task removes it at its end.
struct Worker {
    stop: CancellationToken,
    /// Probes without waiting for the period to end.
    at_once: Arc<Notify>,
}

impl ProbeManager {
    /// Without any pods; and where changed results are read.
    pub fn new(
        statuses: Arc<dyn PodStatuses>,
        runtime: Arc<dyn RuntimeService>,
        events: Events,
        metrics: Metrics,
    ) -> (Self, ProbeUpdates) {
        let (sender, updates) = updates::channel();
        let shared = Shared {
            workers: Mutex::default(),
            statuses,
            prober: Prober::new(runtime, events),
            liveness: Results::default(),
            readiness: Results::default(),
            startup: Results::default(),
            updates: sender,
            metrics,
            began: Instant::now(),
            before_agent: Timestamp::now() - BEFORE_AGENT,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        (Self { shared: Arc::new(shared) }, updates)
    }

    /// What probes of that kind last found, by container.
    pub fn results(&self, kind: ProbeKind) -> &Results {
        self.shared.results(kind)
    }

    /// Begins the probes of a pod, of containers and sidecars. Those that run already go on. To be called within a runtime.
    pub fn add_pod(&self, pod: &Arc<Pod>) {
        for container in probed_containers(pod) {
            for kind in ProbeKind::ALL {
                if let Some(probe) = kind.of(container) {
                    let (pod, before_agent) = (Arc::clone(pod), self.shared.before_agent);
                    let (container, probe) = (container.clone(), probe.clone());
                    self.begin(Subject { kind, pod, container, probe, before_agent });
                }
            }
        }
    }

    fn begin(&self, subject: Subject) {
        let key = subject.key();
        let mut workers = self.shared.workers.lock();
        if workers.get(&key).is_some_and(|worker| !worker.stop.is_cancelled())
            || self.shared.tasks.is_closed()
        {
            return;
        }
        let (stop, at_once) = (self.shared.stop.child_token(), Arc::new(Notify::new()));
        let task = Task {
            shared: Arc::clone(&self.shared),
            labels: subject.labels(),
            course: Course::default(),
            stop: stop.clone(),
            at_once: Arc::clone(&at_once),
            subject,
        };
        workers.insert(key, Worker { stop, at_once });
        self.shared.tasks.spawn(task.run());
    }

    /// Ends the liveness and startup probes of a pod's containers: it is to end, and need not be killed for being slow.
    pub fn stop_liveness_and_startup(&self, pod: &Pod) {
        let names: HashSet<_> = pod.spec.iter().flat_map(|spec| &spec.containers).map(|c| &c.name).collect();
        let uid = uid_of(pod);
        self.stop(|key| key.pod == uid && key.kind != ProbeKind::Readiness && names.contains(&key.container));
    }

    /// Ends all probes of a pod, and forgets their results.
    pub fn remove_pod(&self, pod: &Pod) {
        let uid = uid_of(pod);
        self.stop(|key| key.pod == uid);
    }

    /// Ends the probes of all pods but these.
    pub fn clean_up(&self, known: &HashSet<Uid>) {
        self.stop(|key| !known.contains(&key.pod));
    }

    fn stop(&self, which: impl Fn(&Key) -> bool) {
        let workers = self.shared.workers.lock();
        workers.iter().filter(|(key, _)| which(key)).for_each(|(_, worker)| worker.stop.cancel());
    }

    /// Ends all probes, for good, and waits until they have ended.
    pub async fn shut_down(&self) {
        self.shared.tasks.close();
        self.shared.stop.cancel();
        self.shared.tasks.wait().await;
    }

    /// How many probes there are.
    pub fn probe_count(&self) -> usize {
        self.shared.workers.lock().len()
    }

    /// Sets `started` and `ready` in the statuses of a pod's containers, as probes found them: `started` is false until
    /// the startup probe succeeds, `ready` until the readiness probe does; without such probes what runs is both.
    pub fn update_pod_status(&self, pod: &Pod, status: &mut PodStatus) {
        for container in status.container_statuses.iter_mut().flatten() {
            self.update_container_status(pod, Role::Ordinary, container);
        }
        for container in status.init_container_statuses.iter_mut().flatten() {
            self.update_container_status(pod, Role::Init, container);
        }
    }

    /// Likewise of one container; for [`generate`](crate::status_manager::generate()). One that is not ready is probed at
    /// once.
    pub fn update_container_status(&self, pod: &Pod, role: Role, status: &mut ContainerStatus) {
        let key = |kind| Key { pod: uid_of(pod), container: status.name.clone(), kind };
        let id: Option<ContainerId> = status.container_id.as_deref().and_then(|id| id.parse().ok());
        let result = |results: &Results| id.as_ref().and_then(|id| results.get(id));
        let workers = self.shared.workers.lock();
        let readiness_worker = workers.get(&key(ProbeKind::Readiness));
        let known = Known {
            startup: result(&self.shared.startup),
            has_startup: workers.contains_key(&key(ProbeKind::Startup)),
            readiness: result(&self.shared.readiness),
            has_readiness: readiness_worker.is_some(),
            before_agent: self.shared.before_agent,
        };
        if readiness::update(pod, role, status, known) == Then::ProbeReadiness
            && let Some(worker) = readiness_worker
        {
            worker.at_once.notify_one();
        }
    }
}

impl Shared {
    fn results(&self, kind: ProbeKind) -> &Results {
        match kind {
            ProbeKind::Liveness => &self.liveness,
            ProbeKind::Readiness => &self.readiness,
            ProbeKind::Startup => &self.startup,
        }
    }
}

impl Subject {
    fn key(&self) -> Key {
        Key { pod: uid_of(&self.pod), container: self.container.name.clone(), kind: self.kind }
    }

    fn labels(&self) -> Labels {
        let metadata = &self.pod.metadata;
        Labels {
            kind: self.kind,
            container: self.container.name.clone(),
            pod: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            pod_uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

/// One probe, for as long as it lasts.
struct Task {
    shared: Arc<Shared>,
    subject: Subject,
    labels: Labels,
    course: Course,
    stop: CancellationToken,
    at_once: Arc<Notify>,
}

impl Task {
    async fn run(mut self) {
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.probe_on()).await;
        if let Some(container) = self.course.container() {
            self.shared.results(self.subject.kind).remove(container);
        }
        self.shared.metrics.forget(&self.labels);
        let mut workers = self.shared.workers.lock();
        let key = self.subject.key();
        // Another may have taken its place.
        if workers.get(&key).is_some_and(|worker| Arc::ptr_eq(&worker.at_once, &self.at_once)) {
            workers.remove(&key);
        }
    }

    async fn probe_on(&mut self) {
        let period = Duration::from_secs(seconds(self.subject.probe.period_seconds, 10));
        if period > self.shared.began.elapsed() {
            // All pods of the node are added at once when the agent starts: their probes should not be.
            tokio::time::sleep(period.mul_f64(rand::random::<f64>())).await;
        }
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            // A probe that panics is one that could not be carried out.
            match AssertUnwindSafe(self.probe_once()).catch_unwind().await {
                Ok(Next::End) => return,
                Ok(_) => {}
                Err(_) => {
                    let Labels { kind, pod, container, .. } = &self.labels;
                    tracing::error!(pod, container, kind = kind.as_str(), "Probe panicked");
                }
            }
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.at_once.notified() => ticks.reset(),
            }
        }
    }

    /// Looks at the container, and probes it if it is time.
    async fn probe_once(&mut self) -> Next {
        let began = Instant::now();
        let status = self.shared.statuses.pod_status(&self.labels.pod_uid);
        let (changes, next) = self.course.observe(&self.subject, status.as_ref(), Timestamp::now());
        for change in changes {
            self.change(change);
        }
        let (Next::Probe(id), Some(status)) = (&next, &status) else { return next };
        let target = Target {
            kind: self.subject.kind,
            pod: &self.subject.pod,
            container: &self.subject.container,
            probe: &self.subject.probe,
            id,
            status,
        };
        // What could not be carried out says nothing of the container.
        let Ok(result) = self.shared.prober.probe(&target).await else { return Next::Wait };
        let found = match result {
            ProbeResult::Success => Found::Successful,
            ProbeResult::Failure => Found::Failed,
            ProbeResult::Unknown => Found::Unknown,
        };
        self.shared.metrics.probed(&self.labels, found, began.elapsed());
        if let Some(result) = self.course.conclude(&self.subject, result) {
            self.change(Change::Set(id.clone(), result));
        }
        next
    }

    fn change(&self, change: Change) {
        let kind = self.subject.kind;
        let results = self.shared.results(kind);
        match change {
            Change::Forget(container) => results.remove(&container),
            Change::Set(container, result) => {
                if results.set(&container, result) {
                    let pod = uid_of(&self.subject.pod);
                    self.shared.updates.send(ProbeUpdate { pod, container, kind, result });
                }
            }
        }
    }
}

/// Containers that may have probes: ordinary ones and sidecars.
fn probed_containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        spec.containers.iter().chain(init.filter(|container| is_restartable_init_container(container)))
    })
}

fn uid_of(pod: &Pod) -> Uid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}
