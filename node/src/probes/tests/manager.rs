use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{id, pod, running, status_with};
use crate::cri::v1;
use crate::events::testing::{Kept, Said};
use crate::kuberuntime::actions::ProbeResult::{Failure, Success, Unknown};
use crate::probes::{Metrics, PodStatuses, ProbeKind, ProbeManager, ProbeUpdate, ProbeUpdates};
use crate::runtime::simulated::{Fault, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{Code, Operation, RuntimeService};

/// Longer than anything here takes, were time not paused.
const PATIENCE: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Statuses(Mutex<Option<PodStatus>>);

impl PodStatuses for Statuses {
    fn pod_status(&self, uid: &str) -> Option<PodStatus> {
        self.0.lock().clone().filter(|_| uid == "u")
    }
}

/// A manager over a simulated runtime with one container that runs.
struct Scene {
    runtime: SimulatedRuntime,
    container: String,
    statuses: Arc<Statuses>,
    events: Arc<Kept>,
    registry: Registry,
    probes: ProbeManager,
    updates: ProbeUpdates,
}

impl Scene {
    /// The container's commands end as `exec_code` says.
    async fn new(exec_code: &str) -> Self {
        let config = SimulatedConfig { images: vec!["i".into()], ..SimulatedConfig::default() };
        let runtime = SimulatedRuntime::new(config);
        let annotation = |key: &str, value: &str| (format!("simulated.steersman.io/{key}"), value.to_owned());
        let sandbox_config = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: "p".into(),
                uid: "u".into(),
                namespace: "n".into(),
                attempt: 0,
            }),
            annotations: [annotation("exec-code", exec_code), annotation("exec-stdout", "words")].into(),
            ..Default::default()
        };
        let sandbox = runtime.run_pod_sandbox(&sandbox_config, "").await.unwrap();
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: "c".into(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: "i".into(), ..Default::default() }),
            ..Default::default()
        };
        let container = runtime.create_container(&sandbox, &config, &sandbox_config).await.unwrap();
        runtime.start_container(&container).await.unwrap();
        let (statuses, events) = (Arc::new(Statuses::default()), Arc::new(Kept::default()));
        let (metrics, registry) = (Metrics::new().unwrap(), Registry::new());
        metrics.register(&registry).unwrap();
        let (probes, updates) = ProbeManager::new(
            Arc::clone(&statuses) as Arc<dyn PodStatuses>,
            Arc::new(runtime.clone()),
            Arc::clone(&events) as _,
            metrics,
        );
        let scene = Self { runtime, container, statuses, events, registry, probes, updates };
        scene.show(true);
        scene
    }

    /// Has the pod's status show the container, running since just now.
    fn show(&self, started: bool) {
        let since = jiff::Timestamp::now().as_second();
        *self.statuses.0.lock() = Some(status_with(running(&self.container, since, started)));
    }

    async fn next(&mut self) -> ProbeUpdate {
        timeout(PATIENCE, self.updates.recv()).await.expect("a result must change")
    }

    /// Waits until the condition holds.
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "it never comes to hold");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn execs(&self) -> usize {
        self.runtime.calls().iter().filter(|call| call.operation == Operation::ExecSync).count()
    }

    fn told(&self) -> String {
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }
}

fn probing(kind: &str) -> Arc<Pod> {
    let exec = json!({ "exec": { "command": ["check", "$(A)"] }, "periodSeconds": 1, "failureThreshold": 2 });
    pod(json!({ format!("{kind}Probe"): exec, "env": [{ "name": "A", "value": "b" }] }))
}

#[tokio::test(start_paused = true)]
async fn a_container_becomes_ready_when_its_probe_succeeds() {
    let mut scene = Scene::new("0").await;
    let pod = probing("readiness");
    scene.probes.add_pod(&pod);
    let mut status = scene.statuses.pod_status("u").unwrap();
    scene.probes.update_pod_status(&pod, &mut status);
    assert!(!status.container_statuses.as_ref().unwrap()[0].ready);
    // It may be ready before anybody reads that it was not.
    let mut update = scene.next().await;
    if update.result == Failure {
        update = scene.next().await;
    }
    let container = id(&scene.container);
    assert_eq!((update.kind, update.result, &*update.pod.to_string()), (ProbeKind::Readiness, Success, "u"));
    scene.probes.update_pod_status(&pod, &mut status);
    assert_eq!(update.container, container);
    assert!(status.container_statuses.as_ref().unwrap()[0].ready);
    assert_eq!(scene.events.all(), []);
    assert!(scene.told().contains("result=\"successful\"} "), "{}", scene.told());
    assert!(scene.told().contains("prober_probe_duration_seconds_count"), "{}", scene.told());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_its_liveness_is_told_of_and_left_alone() {
    let mut scene = Scene::new("1").await;
    scene.probes.add_pod(&probing("liveness"));
    let mut results = vec![scene.next().await.result];
    while results.last() != Some(&Failure) {
        results.push(scene.next().await.result);
    }
    let said = |message: &str| Said {
        name: "p".into(),
        field_path: "spec.containers{c}".into(),
        kind: crate::events::EventType::Warning,
        reason: "Unhealthy",
        message: message.into(),
    };
    assert_eq!(
        scene.events.all(),
        [said("Liveness probe failed: words"), said("Liveness probe failed: words")]
    );
    assert_eq!(scene.execs(), 2);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(scene.execs(), 2);
    assert_eq!(scene.probes.results(ProbeKind::Liveness).get(&id(&scene.container)), Some(Failure));
}

#[tokio::test(start_paused = true)]
async fn the_startup_probe_goes_before_the_others() {
    let mut scene = Scene::new("0").await;
    scene.show(false);
    let exec = json!({ "exec": { "command": ["check"] }, "periodSeconds": 1 });
    let pod = pod(json!({ "startupProbe": exec, "livenessProbe": exec }));
    scene.probes.add_pod(&pod);
    assert_eq!(scene.probes.probe_count(), 2);
    let startup = loop {
        let update = scene.next().await;
        if update.kind == ProbeKind::Startup && update.result != Unknown {
            break update;
        }
    };
    assert_eq!(startup.result, Success);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(scene.execs(), 1);
    // What follows is the sync loop's: it says so in the status.
    scene.show(true);
    scene.until(|scene| scene.execs() > 2).await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_probed_is_tried_thrice_and_says_nothing_of_the_container() {
    let scene = Scene::new("0").await;
    let fault = Fault::Fails { code: Code::Unavailable, message: "no".into() };
    scene.runtime.inject(Operation::ExecSync, 3, fault);
    scene.probes.add_pod(&probing("liveness"));
    scene.until(|scene| scene.execs() > 3).await;
    let messages: Vec<_> = scene.events.all().into_iter().map(|said| said.message).collect();
    assert_eq!(
        messages,
        ["Liveness probe errored and resulted in unknown state: rpc error: code = Unavailable desc = no"]
    );
    assert!(!scene.told().contains("failed"), "{}", scene.told());
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_fails() {
    let scene = Scene::new("0").await;
    let fault = Fault::Fails { code: Code::DeadlineExceeded, message: "late".into() };
    scene.runtime.inject(Operation::ExecSync, 1, fault);
    scene.probes.add_pod(&probing("liveness"));
    scene.until(|scene| !scene.events.all().is_empty()).await;
    assert_eq!(
        scene.events.all()[0].message,
        "Liveness probe failed: command timed out: \"check b\" timed out after 1s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_holds_up_nobody_and_ends_with_its_pod() {
    let mut scene = Scene::new("0").await;
    scene.runtime.inject(Operation::ExecSync, 1, Fault::Hangs);
    let exec = json!({ "exec": { "command": ["check"] }, "periodSeconds": 1 });
    let pod = pod(json!({ "readinessProbe": exec, "livenessProbe": exec }));
    scene.probes.add_pod(&pod);
    scene.until(|scene| scene.execs() > 3).await;
    scene.probes.remove_pod(&pod);
    scene.until(|scene| scene.probes.probe_count() == 0).await;
    assert!(scene.probes.results(ProbeKind::Readiness).all().is_empty());
    assert_eq!(scene.told(), "");
    while scene.updates.try_recv().is_some() {}
    timeout(PATIENCE, scene.probes.shut_down()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn probes_end_with_what_is_known_of_pods() {
    let scene = Scene::new("0").await;
    let exec = json!({ "exec": { "command": ["check"] } });
    let pod = pod(json!({ "readinessProbe": exec, "livenessProbe": exec, "startupProbe": exec }));
    scene.probes.add_pod(&pod);
    scene.probes.add_pod(&pod);
    assert_eq!(scene.probes.probe_count(), 3);
    scene.probes.stop_liveness_and_startup(&pod);
    scene.until(|scene| scene.probes.probe_count() == 1).await;
    scene.probes.clean_up(&HashSet::from(["u".into()]));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(scene.probes.probe_count(), 1);
    scene.probes.clean_up(&HashSet::new());
    scene.until(|scene| scene.probes.probe_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_back_is_probed_again() {
    let scene = Scene::new("0").await;
    let pod = probing("liveness");
    scene.probes.add_pod(&pod);
    scene.probes.remove_pod(&pod);
    scene.probes.add_pod(&pod);
    scene.until(|scene| scene.execs() > 2).await;
    assert_eq!(scene.probes.probe_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn probes_of_an_agent_that_has_just_begun_are_spread_over_their_period() {
    let mut scene = Scene::new("0").await;
    let exec = json!({ "exec": { "command": ["check"] }, "periodSeconds": 1000 });
    let began = Instant::now();
    scene.probes.add_pod(&pod(json!({ "readinessProbe": exec })));
    scene.next().await;
    // One in many thousands of times it would be earlier.
    assert!(began.elapsed() > Duration::ZERO && began.elapsed() <= Duration::from_secs(1000));
}
