//! How sandboxes come and go.

use tokio::time::advance;

use super::*;
use crate::runtime::Code;

async fn address(runtime: &SimulatedRuntime, id: &str) -> String {
    runtime.pod_sandbox_status(id).await.unwrap().status.unwrap().network.unwrap().ip
}

#[tokio::test(start_paused = true)]
async fn addresses_come_from_the_range_unless_annotated() {
    let range = "10.9.8.0/24".parse().unwrap();
    let runtime = SimulatedRuntime::new(SimulatedConfig { pod_cidr: range, ..config() });
    for (name, annotations, expected) in [
        ("a", &[][..], "10.9.8.2"),
        ("b", &[("sandbox-ip", "none")], ""),
        ("c", &[("sandbox-ip", "192.0.2.7")], "192.0.2.7"),
        ("d", &[], "10.9.8.3"),
    ] {
        let id = runtime.run_pod_sandbox(&pod(name, annotations), "").await.unwrap();
        assert_eq!(address(&runtime, &id).await, expected, "{name}");
    }
    let network = Some(v1::NetworkConfig { pod_cidr: "10.1.0.0/16".into() });
    runtime.update_runtime_config(&v1::RuntimeConfig { network_config: network }).await.unwrap();
    let id = runtime.run_pod_sandbox(&pod("e", &[]), "").await.unwrap();
    assert_eq!(address(&runtime, &id).await, "10.1.0.2");
}

#[tokio::test(start_paused = true)]
async fn a_full_range_fails_the_sandbox_until_one_is_stopped() {
    let range = "10.9.8.0/30".parse().unwrap();
    let runtime = SimulatedRuntime::new(SimulatedConfig { pod_cidr: range, ..config() });
    let first = runtime.run_pod_sandbox(&pod("a", &[]), "").await.unwrap();
    let error = runtime.run_pod_sandbox(&pod("b", &[]), "").await.unwrap_err();
    assert!(error.message().contains("no IP addresses available"), "{error}");
    runtime.stop_pod_sandbox(&first).await.unwrap();
    runtime.run_pod_sandbox(&pod("b", &[]), "").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_takes_its_delay_and_may_fail() {
    let runtime = runtime();
    let began = Instant::now();
    runtime.run_pod_sandbox(&pod("a", &[("sandbox-delay", "5s")]), "").await.unwrap();
    assert_eq!(began.elapsed(), seconds(5));
    let error = runtime.run_pod_sandbox(&pod("b", &[("sandbox-error", "no network")]), "").await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Unknown, "no network"));
    assert_eq!(runtime.list_pod_sandbox(&Default::default()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_may_die_by_itself_and_its_containers_live_on() {
    let runtime = runtime();
    let (sandbox, id) = created(&runtime, &[("sandbox-exit-after", "5s")]).await;
    runtime.start_container(&id).await.unwrap();
    advance(seconds(5)).await;
    let found = runtime.pod_sandbox_status(&sandbox).await.unwrap();
    assert_eq!(found.status.unwrap().state(), v1::PodSandboxState::SandboxNotready);
    assert_eq!(found.containers_statuses[0].state(), v1::ContainerState::ContainerRunning);
}

#[tokio::test(start_paused = true)]
async fn conditions_are_as_set() {
    let runtime = runtime();
    runtime.set_condition(v1::RuntimeCondition {
        r#type: "NetworkReady".into(),
        status: false,
        reason: "NetworkPluginNotReady".into(),
        message: String::new(),
    });
    let conditions = runtime.status().await.unwrap().status.unwrap().conditions;
    let shown: Vec<_> = conditions.iter().map(|condition| (&*condition.r#type, condition.status)).collect();
    assert_eq!(shown, [("RuntimeReady", true), ("NetworkReady", false)]);
}

#[tokio::test(start_paused = true)]
async fn streaming_is_not_there() {
    let runtime = runtime();
    let errors = [
        runtime.exec(&Default::default()).await.err(),
        runtime.attach(&Default::default()).await.err(),
        runtime.port_forward(&Default::default()).await.err(),
        runtime.checkpoint_container(&Default::default()).await.err(),
    ];
    assert!(
        errors.iter().all(|error| error.as_ref().is_some_and(|error| error.is_unimplemented())),
        "{errors:?}"
    );
}
