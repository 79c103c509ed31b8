//! What sources, the PLEG and probes say.

use serde_json::json;

use super::*;
use crate::kuberuntime::actions::ProbeResult;
use crate::probes::ProbeKind;

#[tokio::test(start_paused = true)]
async fn new_pods_are_admitted_the_oldest_first_and_beside_those_that_are_active() {
    let rig = Rig::new();
    let created = |uid: &str, second: i64| {
        let mut pod = pod(uid);
        let at = Timestamp::from_second(second).unwrap();
        pod.metadata.creation_timestamp = Some(Time(at));
        pod
    };
    let ended = in_phase(pod("ended"), "Succeeded");
    rig.tell(PodOperation::Add, &[created("young", 20), created("old", 10), ended]).await;
    let done = rig.done().await;
    assert_eq!(done[..2], ["admit old beside []", "admit young beside [old]"]);
    assert!(done.contains(&"clean-up ended".to_owned()), "what has ended is not judged: {done:?}");
    rig.tell(PodOperation::Add, &[pod("late")]).await;
    assert_eq!(rig.done().await, ["admit late beside [old young]", "sync late"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_refused_fails_and_is_not_run() {
    let rig = Rig::new();
    let refusal = Rejection::new("OutOfexample.com/gpu", "no gpu");
    rig.world.refuse.lock().insert("a".into(), refusal);
    rig.tell(PodOperation::Add, &[pod("a"), pod("b")]).await;
    assert_eq!(rig.done().await, ["admit a beside []", "admit b beside []", "sync b"]);
    let status = rig.status.get("a").unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.reason.as_deref(), Some("OutOfexample.com/gpu"));
    assert_eq!(status.message.as_deref(), Some("Pod was rejected: no gpu"));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    let said = rig.events.all().remove(0);
    assert_eq!((said.reason, said.message.as_str()), ("OutOfexample.com/gpu", "no gpu"));
    assert_eq!(rig.metrics.rejections("OutOfExtendedResources"), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mirror_only_wakes_its_static_pod() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[mirror("m", "s")]).await;
    assert_eq!(rig.done().await, [""; 0], "there is no static pod yet");
    rig.tell(PodOperation::Add, &[static_pod("s")]).await;
    assert_eq!(rig.done().await, ["admit s beside []", "sync s mirrored by m"]);
    for op in [PodOperation::Update, PodOperation::Delete, PodOperation::Add] {
        rig.tell(op, &[mirror("m", "s")]).await;
        assert_eq!(rig.done().await, ["sync s mirrored by m"], "{op:?}");
    }
    rig.tell(PodOperation::Remove, &[mirror("m", "s")]).await;
    assert_eq!(rig.done().await, ["sync s"], "so that it is made anew");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_ends_and_one_that_is_gone_is_killed() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a"), pod("b")]).await;
    rig.done().await;
    rig.tell(PodOperation::Delete, &[deleted(pod("a"))]).await;
    assert_eq!(rig.done().await, ["terminate a", "clean-up a"]);
    rig.tell(PodOperation::Remove, &[pod("b")]).await;
    assert_eq!(rig.done().await, ["terminate b", "clean-up b"]);
    assert_eq!(rig.pods.pods().len(), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_status_wakes_a_pod_only_if_its_readiness_gates_say_otherwise() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    rig.tell(PodOperation::Reconcile, &[in_phase(pod("a"), "Running")]).await;
    assert_eq!(rig.done().await, [""; 0]);
    let gated: Pod = serde_json::from_value(json!({
        "metadata": { "uid": "a", "name": "a", "namespace": "ns" },
        "spec": { "containers": [], "readinessGates": [{ "conditionType": "gate" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    }))
    .unwrap();
    rig.tell(PodOperation::Reconcile, &[gated]).await;
    assert_eq!(rig.done().await, ["sync a"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_pleg_notices_wakes_the_pod_unless_something_was_only_removed() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    for kind in
        [EventKind::ContainerStarted("c".into()), EventKind::ContainerDied("c".into()), EventKind::PodSync]
    {
        rig.pleg_says("a", kind.clone()).await;
        assert_eq!(rig.done().await, ["sync a"], "{kind:?}");
    }
    rig.pleg_says("a", EventKind::ContainerRemoved("c".into())).await;
    rig.pleg_says("unknown", EventKind::ContainerDied("c".into())).await;
    assert_eq!(rig.done().await, [""; 0]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_probes_find_is_told_and_wakes_the_pod() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    let status: ApiStatus = serde_json::from_value(json!({
        "phase": "Running",
        "containerStatuses": [{
            "name": "c", "containerID": "containerd://c", "image": "", "imageID": "", "restartCount": 0,
            "ready": false, "started": false, "state": { "running": {} },
        }],
    }))
    .unwrap();
    rig.status.set(&pod("a"), status);
    for (kind, result, woken) in [
        (ProbeKind::Liveness, ProbeResult::Success, false),
        (ProbeKind::Liveness, ProbeResult::Failure, true),
        (ProbeKind::Readiness, ProbeResult::Success, true),
        (ProbeKind::Startup, ProbeResult::Success, true),
    ] {
        let container = ContainerId::new("containerd", "c");
        rig.probes.send(ProbeUpdate { pod: "a".into(), container, kind, result }).await.unwrap();
        assert_eq!(rig.done().await.len(), usize::from(woken), "{kind:?} {result:?}");
    }
    let container = rig.status.get("a").unwrap().container_statuses.unwrap().remove(0);
    assert_eq!((container.ready, container.started), (true, Some(true)));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_is_synced_each_second_until_it_ends() {
    let rig = Rig::new();
    let mut limited = pod("a");
    limited.spec.as_mut().unwrap().active_deadline_seconds = Some(1);
    let start_time = Some(Time(Timestamp::UNIX_EPOCH));
    limited.status = Some(ApiStatus { start_time, ..with_phase("Running") });
    rig.tell(PodOperation::Add, &[limited.clone(), pod("b")]).await;
    rig.done().await;
    assert_eq!(rig.done_after(3).await, ["sync a"; 3]);
    rig.tell(PodOperation::Update, &[in_phase(limited, "Failed")]).await;
    assert_eq!(rig.done_after(3).await, ["terminate a", "clean-up a"]);
    rig.stop().await;
}
