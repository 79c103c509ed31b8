use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::container::{PodStatus, RuntimePod};
use crate::cri::v1;
use crate::pleg::{Config, Metrics, Pleg, PodLister, RuntimeError};
use crate::runtime::simulated::{Fault, PREFIX, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{Code, Operation};

/// A runtime of which nothing is listed; tells which pods were asked for by themselves, and when.
struct Asked(mpsc::UnboundedSender<(String, Instant)>);

#[async_trait]
impl PodLister for Asked {
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        Ok(Vec::new())
    }

    async fn pod(&self, uid: &Uid) -> Result<Option<RuntimePod>, RuntimeError> {
        let _ = self.0.send((uid.to_string(), Instant::now()));
        Ok(None)
    }

    async fn pod_status(&self, pod: &RuntimePod) -> Result<PodStatus, RuntimeError> {
        Ok(PodStatus::unknown_to_runtime(pod.uid.clone()))
    }
}

/// A generator that is hinted at by a simulated runtime.
struct Rig {
    runtime: SimulatedRuntime,
    asked: mpsc::UnboundedReceiver<(String, Instant)>,
    stop: CancellationToken,
    pleg: JoinSet<()>,
    hints: JoinSet<()>,
}

impl Rig {
    fn start(arrange: impl FnOnce(&SimulatedRuntime)) -> Self {
        let runtime = SimulatedRuntime::new(SimulatedConfig {
            images: vec!["app".to_owned()],
            ..SimulatedConfig::default()
        });
        arrange(&runtime);
        let (sender, asked) = mpsc::unbounded_channel();
        let (pleg, handle, _events) =
            Pleg::new(Arc::new(Asked(sender)), Config::default(), Metrics::new().unwrap());
        let stop = CancellationToken::new();
        let (mut of_pleg, mut hints) = (JoinSet::new(), JoinSet::new());
        of_pleg.spawn(pleg.run(stop.clone()));
        hints.spawn(follow(Arc::new(runtime.clone()), handle, stop.clone()));
        Self { runtime, asked, stop, pleg: of_pleg, hints }
    }

    /// A pod whose one container ends by itself after two and a half seconds.
    async fn run_pod(&self, name: &str) -> String {
        let pod = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                namespace: "default".to_owned(),
                attempt: 0,
            }),
            annotations: BTreeMap::from([(format!("{PREFIX}exit-after"), "2500ms".to_owned())]),
            ..Default::default()
        };
        let container = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: "main".to_owned(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: "app".to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let sandbox = self.runtime.run_pod_sandbox(&pod, "").await.unwrap();
        let id = self.runtime.create_container(&sandbox, &container, &pod).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        sandbox
    }

    /// Every time at which the pod was asked for within these seconds, since `begin`.
    async fn asked_within(&mut self, uid: &str, begin: Instant, seconds: u64) -> Vec<Duration> {
        tokio::time::sleep_until(begin + Duration::from_secs(seconds)).await;
        let mut times = Vec::new();
        while let Ok((pod, at)) = self.asked.try_recv() {
            assert_eq!(pod, uid);
            times.push(at - begin);
        }
        times.dedup();
        times
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.pleg.join_next().await.unwrap().unwrap();
        while let Some(ended) = self.hints.join_next().await {
            ended.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_listed_as_soon_as_its_containers_start_and_end() {
    let mut rig = Rig::start(|_| {});
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin = Instant::now();
    rig.run_pod("a").await;
    let times = rig.asked_within("uid-a", begin, 4).await;
    assert_eq!(times, [Duration::ZERO, Duration::from_millis(2500)]);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_opened_again() {
    let mut rig = Rig::start(|runtime| {
        let fault = Fault::Fails { code: Code::Unavailable, message: "restarting".to_owned() };
        runtime.inject(Operation::GetContainerEvents, 2, fault);
    });
    tokio::time::sleep(RETRY * 2 + Duration::from_millis(1)).await;
    let begin = Instant::now();
    rig.run_pod("a").await;
    assert_eq!(rig.asked_within("uid-a", begin, 1).await, [Duration::ZERO]);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_events_is_asked_once() {
    let mut rig = Rig::start(|runtime| {
        let fault = Fault::Fails { code: Code::Unimplemented, message: "no events".to_owned() };
        runtime.inject(Operation::GetContainerEvents, 1, fault);
    });
    rig.hints.join_next().await.unwrap().unwrap();
    let begin = Instant::now();
    rig.run_pod("a").await;
    assert!(rig.asked_within("uid-a", begin, 60).await.is_empty());
    rig.end().await;
}

#[test]
fn an_event_concerns_the_pod_that_it_names_unless_it_says_nothing_new() {
    let event = |kind: ContainerEventType, uid: Option<&str>| ContainerEventResponse {
        container_id: "c".to_owned(),
        container_event_type: kind.into(),
        pod_sandbox_status: uid.map(|uid| v1::PodSandboxStatus {
            metadata: Some(v1::PodSandboxMetadata { uid: uid.to_owned(), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    };
    for (event, expected) in [
        (event(ContainerEventType::ContainerStartedEvent, Some("u")), Some("u")),
        (event(ContainerEventType::ContainerStoppedEvent, Some("u")), Some("u")),
        (event(ContainerEventType::ContainerDeletedEvent, Some("u")), Some("u")),
        (event(ContainerEventType::ContainerCreatedEvent, Some("u")), None),
        (event(ContainerEventType::ContainerStoppedEvent, Some("")), None),
        (event(ContainerEventType::ContainerDeletedEvent, None), None),
    ] {
        assert_eq!(concerned(&event), expected.map(Uid::from), "{event:?}");
    }
}
