use std::collections::BTreeMap;

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::*;
use crate::container::ContainerState;
use crate::pleg::generic::testing::pod;
use crate::pleg::{Error, EventKind};

/// A runtime as the test arranges it.
#[derive(Default)]
struct Runtime {
    pods: Mutex<BTreeMap<String, ContainerState>>,
    /// Lists of all pods fail.
    broken: Mutex<bool>,
    /// Lists of one pod never end.
    hangs_on_one: Mutex<bool>,
    /// How often one pod was listed.
    lists_of_one: Mutex<usize>,
    /// Pods whose inspection never ends.
    hung: Mutex<HashSet<Uid>>,
    /// Where set, lists of all pods take what is there and answer only after a permit.
    slow: Mutex<Option<Arc<Semaphore>>>,
    inspections: Mutex<Vec<String>>,
    /// How long each inspection takes.
    inspection_takes: Mutex<Duration>,
}

impl Runtime {
    fn set(&self, uid: &str, state: ContainerState) {
        self.pods.lock().insert(uid.into(), state);
    }

    fn listed(&self) -> Vec<RuntimePod> {
        self.pods.lock().iter().map(|(uid, state)| pod(uid, &[(&format!("{uid}1"), *state)])).collect()
    }
}

#[async_trait]
impl PodLister for Runtime {
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        if *self.broken.lock() {
            return Err(Arc::new(std::io::Error::other("no runtime")));
        }
        let (pods, slow) = (self.listed(), self.slow.lock().clone());
        if let Some(slow) = slow {
            slow.acquire().await.unwrap().forget();
        }
        Ok(pods)
    }

    async fn pod(&self, uid: &Uid) -> Result<Option<RuntimePod>, RuntimeError> {
        *self.lists_of_one.lock() += 1;
        if *self.hangs_on_one.lock() {
            std::future::pending::<()>().await;
        }
        Ok(self.listed().into_iter().find(|pod| pod.uid == *uid))
    }

    async fn pod_status(&self, pod: &RuntimePod) -> Result<PodStatus, RuntimeError> {
        self.inspections.lock().push(pod.uid.to_string());
        if self.hung.lock().contains(&pod.uid) {
            std::future::pending::<()>().await;
        }
        let takes = *self.inspection_takes.lock();
        tokio::time::sleep(takes).await;
        Ok(PodStatus { name: pod.name.clone(), ..PodStatus::unknown_to_runtime(pod.uid.clone()) })
    }
}

/// A running generator; its end is observed.
struct Running {
    runtime: Arc<Runtime>,
    handle: PlegHandle,
    events: mpsc::Receiver<PodLifecycleEvent>,
    metrics: Metrics,
    stop: CancellationToken,
    task: JoinSet<()>,
}

fn start(config: Config, arrange: impl FnOnce(&Runtime)) -> Running {
    let runtime = Arc::new(Runtime::default());
    arrange(&runtime);
    let (metrics, stop, mut task) = (Metrics::new().unwrap(), CancellationToken::new(), JoinSet::new());
    let (pleg, handle, events) = Pleg::new(runtime.clone(), config, metrics.clone());
    task.spawn(pleg.run(stop.clone()));
    Running { runtime, handle, events, metrics, stop, task }
}

impl Running {
    async fn event(&mut self) -> (String, &'static str) {
        let event = self.events.recv().await.unwrap();
        (event.pod.to_string(), event.kind.as_str())
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.task.join_next().await.unwrap().unwrap();
    }
}

fn at_second(start: Instant, seconds: u64) -> bool {
    Instant::now() == start + Duration::from_secs(seconds)
}

const RUNNING: ContainerState = ContainerState::Running;
const EXITED: ContainerState = ContainerState::Exited;

#[tokio::test(start_paused = true)]
async fn it_lists_at_once_and_then_every_second() {
    let begin = Instant::now();
    let mut pleg = start(Config::default(), |runtime| runtime.set("a", RUNNING));
    assert_eq!(pleg.event().await, ("a".into(), "ContainerStarted"));
    assert!(at_second(begin, 0));
    pleg.runtime.set("a", EXITED);
    assert_eq!(pleg.event().await, ("a".into(), "ContainerDied"));
    assert!(at_second(begin, 1));
    pleg.runtime.pods.lock().clear();
    assert_eq!(pleg.event().await, ("a".into(), "ContainerRemoved"));
    assert!(at_second(begin, 2));
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_gets_what_the_next_list_shows() {
    let pleg = start(Config::default(), |runtime| runtime.set("a", RUNNING));
    let begin = Instant::now();
    let (a, nobody) = (Uid::from("a"), Uid::from("nobody"));
    let statuses = pleg.handle.statuses();
    let (a, nobody) =
        tokio::join!(statuses.get_newer_than(&a, begin), statuses.get_newer_than(&nobody, begin));
    assert_eq!((a.unwrap().name.as_str(), nobody.unwrap().name.as_str()), ("a", ""));
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_inspection_holds_up_nobody_else_and_is_tried_again_after_its_time() {
    let mut pleg = start(Config::default(), |runtime| {
        runtime.set("a", RUNNING);
        runtime.set("b", RUNNING);
        runtime.hung.lock().insert(Uid::from("a"));
    });
    let begin = Instant::now();
    assert_eq!(pleg.event().await, ("b".into(), "ContainerStarted"));
    for second in 1..100 {
        let state = if second % 2 == 1 { EXITED } else { RUNNING };
        pleg.runtime.set("b", state);
        pleg.event().await;
        assert!(at_second(begin, second));
        let asked = Instant::now() - Duration::from_millis(500);
        let status = pleg.handle.statuses().get_newer_than(&Uid::from("b"), asked).now_or_never();
        assert_eq!(status.unwrap().unwrap().name, "b");
        pleg.handle.healthy().unwrap();
    }
    let inspections =
        |pleg: &Running| pleg.runtime.inspections.lock().iter().filter(|uid| *uid == "a").count();
    assert_eq!(inspections(&pleg), 1, "it is not asked a second time while the first is unanswered");
    pleg.runtime.hung.lock().clear();
    assert_eq!(pleg.event().await, ("a".into(), "ContainerStarted"));
    assert!(Instant::now() >= begin + Duration::from_secs(120));
    assert!(Instant::now() <= begin + Duration::from_secs(121));
    assert_eq!(inspections(&pleg), 2);
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_ran_out_of_time_says_so_to_who_waits() {
    let pleg = start(Config::default(), |runtime| {
        runtime.set("a", RUNNING);
        runtime.hung.lock().insert(Uid::from("a"));
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (a, asked) = (Uid::from("a"), Instant::now() - Duration::from_secs(1));
    let error = pleg.handle.statuses().get_newer_than(&a, asked);
    assert_eq!(
        error.await.unwrap_err().to_string(),
        "inspect the pod: the runtime did not answer within 120s"
    );
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_listed_at_once_on_request() {
    let mut pleg = start(Config::default(), |runtime| runtime.set("a", RUNNING));
    pleg.event().await;
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_millis(10)).await;
    pleg.runtime.set("a", EXITED);
    pleg.handle.request_relist(Uid::from("a"));
    assert_eq!(pleg.event().await, ("a".into(), "ContainerDied"));
    pleg.runtime.pods.lock().clear();
    pleg.handle.request_relist(Uid::from("a"));
    assert_eq!(pleg.event().await, ("a".into(), "ContainerRemoved"));
    assert_eq!(Instant::now(), begin + Duration::from_millis(10));
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_so_many_pods_are_listed_at_a_time() {
    let pleg = start(Config::default(), |runtime| *runtime.hangs_on_one.lock() = true);
    for n in 0..3 * REQUEST_CAPACITY {
        pleg.handle.request_relist(Uid::from(n.to_string().as_str()));
        tokio::task::yield_now().await;
    }
    assert_eq!(*pleg.runtime.lists_of_one.lock(), REQUEST_CAPACITY);
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_happens_during_an_inspection_is_seen_right_after_it() {
    let takes = Duration::from_millis(300);
    let mut pleg = start(Config::default(), |runtime| {
        runtime.set("a", RUNNING);
        *runtime.inspection_takes.lock() = takes;
    });
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_millis(100)).await;
    pleg.runtime.set("a", EXITED);
    pleg.handle.request_relist(Uid::from("a"));
    assert_eq!(pleg.event().await, ("a".into(), "ContainerStarted"));
    assert_eq!(Instant::now(), begin + takes);
    assert_eq!(pleg.event().await, ("a".into(), "ContainerDied"));
    assert_eq!(Instant::now(), begin + takes * 2);
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_does_not_bring_back_what_a_request_found_gone() {
    let mut pleg = start(Config::default(), |runtime| runtime.set("a", RUNNING));
    pleg.event().await;
    let slow = Arc::new(Semaphore::new(0));
    *pleg.runtime.slow.lock() = Some(slow.clone());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // The list under way has the pod still.
    pleg.runtime.pods.lock().clear();
    pleg.handle.request_relist(Uid::from("a"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    slow.add_permits(100);
    assert_eq!(pleg.event().await, ("a".into(), "ContainerDied"));
    assert_eq!(pleg.event().await, ("a".into(), "ContainerRemoved"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(pleg.events.try_recv().is_err());
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_reinspected_and_synced_on_request() {
    let mut pleg = start(Config::default(), |runtime| runtime.set("a", RUNNING));
    pleg.event().await;
    pleg.handle.request_reinspect(Uid::from("a"));
    let event = pleg.events.recv().await.unwrap();
    assert_eq!(event, PodLifecycleEvent { pod: Uid::from("a"), kind: EventKind::PodSync });
    assert_eq!(*pleg.runtime.inspections.lock(), ["a", "a"]);
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_nobody_takes_are_dropped_and_counted() {
    let mut pleg = start(Config { event_capacity: 2, ..Config::default() }, |runtime| {
        for uid in ["a", "b", "c", "d", "e"] {
            runtime.set(uid, RUNNING);
        }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(pleg.metrics.discarded(), 3);
    assert!(pleg.events.try_recv().is_ok() && pleg.events.try_recv().is_ok());
    assert!(pleg.events.try_recv().is_err());
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn it_is_unwell_when_lists_fail_for_three_minutes_and_recovers() {
    let pleg = start(Config::default(), |runtime| *runtime.broken.lock() = true);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(pleg.handle.healthy(), Err(Unhealthy::NotYet));
    *pleg.runtime.broken.lock() = false;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(pleg.handle.healthy(), Ok(()));
    *pleg.runtime.broken.lock() = true;
    tokio::time::sleep(Duration::from_secs(179)).await;
    assert_eq!(pleg.handle.healthy(), Ok(()));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(matches!(pleg.handle.healthy(), Err(Unhealthy::LastSeen { .. })));
    pleg.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_when_it_stops_is_told() {
    let pleg = start(Config::default(), |runtime| *runtime.broken.lock() = true);
    let statuses = pleg.handle.statuses().clone();
    let a = Uid::from("a");
    let waiting = statuses.get_newer_than(&a, Instant::now());
    let (status, ()) = tokio::join!(waiting, pleg.end());
    assert!(matches!(status, Err(Error::Stopped)));
}
