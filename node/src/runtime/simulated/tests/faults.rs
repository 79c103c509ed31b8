//! Faults are met by the calls they are for.

use futures::StreamExt;

use super::*;
use crate::runtime::{Code, Error};

fn fails() -> Fault {
    Fault::Fails { code: Code::Unavailable, message: "away".into() }
}

#[tokio::test(start_paused = true)]
async fn the_next_calls_fail_and_then_no_more() {
    let runtime = runtime();
    runtime.inject(Operation::Version, 2, fails());
    for _ in 0..2 {
        assert_eq!(runtime.version("0.1.0").await.unwrap_err(), Error::status(Code::Unavailable, "away"));
    }
    runtime.version("0.1.0").await.unwrap();
    assert_eq!(runtime.metrics().errors(Operation::Version), 2);
    assert_eq!(runtime.metrics().operations(Operation::Version), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_does_nothing_and_a_lost_answer_is_work_done() {
    let runtime = runtime();
    let lost = Fault::LosesAnswer { code: Code::DeadlineExceeded, message: "lost".into() };
    for (name, fault, made) in [("a", fails(), 0), ("b", lost, 1)] {
        runtime.inject(Operation::RunPodSandbox, 1, fault);
        runtime.run_pod_sandbox(&pod(name, &[]), "").await.unwrap_err();
        assert_eq!(runtime.list_pod_sandbox(&Default::default()).await.unwrap().len(), made, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_call_ends_with_its_deadline_and_holds_up_no_other() {
    let runtime = runtime();
    runtime.inject(Operation::Status, 1, Fault::Hangs);
    let began = Instant::now();
    let other = async {
        runtime.status().await.unwrap();
        began.elapsed()
    };
    let (hung, other) = tokio::join!(runtime.status(), other);
    assert!(hung.unwrap_err().is_deadline_exceeded());
    assert_eq!((began.elapsed(), other), (seconds(120), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn clearing_the_faults_ends_hung_calls() {
    let runtime = runtime();
    runtime.inject(Operation::PullImage, u32::MAX, Fault::Hangs);
    let clear = async {
        tokio::time::sleep(seconds(600)).await;
        runtime.clear_faults();
    };
    let spec = image("web");
    let (pull, ()) = tokio::join!(runtime.pull_image(&spec, None, None), clear);
    assert_eq!(pull.unwrap_err().code(), Code::Unavailable);
    runtime.pull_image(&image("web"), None, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_begins_later() {
    let runtime = runtime();
    runtime.inject(Operation::ListContainers, 1, Fault::Slow(seconds(7)));
    let began = Instant::now();
    runtime.list_containers(&Default::default()).await.unwrap();
    assert_eq!(began.elapsed(), seconds(7));
    runtime.list_containers(&Default::default()).await.unwrap();
    assert_eq!(began.elapsed(), seconds(7));
}

#[tokio::test(start_paused = true)]
async fn a_fault_may_be_for_one_pod_or_container_alone() {
    let runtime = runtime();
    runtime.inject_for("uid-b", Operation::CreateContainer, u32::MAX, fails());
    for (name, works) in [("a", true), ("b", false)] {
        let pod = pod(name, &[]);
        let sandbox = runtime.run_pod_sandbox(&pod, "").await.unwrap();
        let made = runtime.create_container(&sandbox, &container("main", 0), &pod).await;
        assert_eq!(made.is_ok(), works, "{name}");
    }
    let pod = pod("c", &[]);
    let sandbox = runtime.run_pod_sandbox(&pod, "").await.unwrap();
    runtime.inject_for("second", Operation::StartContainer, 1, fails());
    for (name, works) in [("first", true), ("second", false)] {
        let id = runtime.create_container(&sandbox, &container(name, 0), &pod).await.unwrap();
        assert_eq!(runtime.start_container(&id).await.is_ok(), works, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_may_fail_as_in_a_runtime_without_them() {
    let runtime = runtime();
    let fault = Fault::Fails { code: Code::Unimplemented, message: "no events".into() };
    runtime.inject(Operation::GetContainerEvents, 1, fault);
    let mut events = runtime.get_container_events().await.unwrap();
    assert!(events.next().await.unwrap().unwrap_err().is_unimplemented());
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn calls_are_remembered_with_what_they_were_about() {
    let runtime = runtime();
    let id = started(&runtime, &[]).await;
    let calls = runtime.calls();
    let operations: Vec<_> = calls.iter().map(|call| call.operation).collect();
    assert_eq!(operations, [Operation::RunPodSandbox, Operation::CreateContainer, Operation::StartContainer]);
    for target in [&id, "main", "uid-a", "a"] {
        assert!(calls[2].targets.iter().any(|known| known == target), "{target} in {:?}", calls[2].targets);
    }
}
