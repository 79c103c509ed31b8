//! The stream of container events, and the end of everything.

use futures::StreamExt;
use tokio::time::timeout;
use v1::ContainerEventType::{
    ContainerCreatedEvent as Created, ContainerDeletedEvent as Deleted, ContainerStartedEvent as Started,
    ContainerStoppedEvent as Stopped,
};

use super::*;
use crate::runtime::Code;

#[tokio::test(start_paused = true)]
async fn a_pods_life_is_told_as_it_happens() {
    let runtime = runtime();
    let mut events = runtime.get_container_events().await.unwrap();
    let (sandbox, id) = created(&runtime, &[("exit-after", "5s")]).await;
    runtime.start_container(&id).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..5 {
        let event = events.next().await.unwrap().unwrap();
        let at = (event.created_at - BEGINNING) / 1_000_000_000;
        told.push((event.container_id.clone(), event.container_event_type(), at));
        assert_eq!(event.pod_sandbox_status.unwrap().id, sandbox);
    }
    // Nobody called meanwhile: the end was told by the clock alone.
    let (pod, main) = (|| sandbox.clone(), || id.clone());
    let expected = [(pod(), Created, 0), (pod(), Started, 0), (main(), Created, 0), (main(), Started, 0)];
    assert_eq!(told[..4], expected);
    assert_eq!(told[4], (main(), Stopped, 5));

    runtime.remove_pod_sandbox(&sandbox).await.unwrap();
    let mut rest = Vec::new();
    for _ in 0..3 {
        let event = events.next().await.unwrap().unwrap();
        rest.push((event.container_id.clone(), event.container_event_type()));
    }
    assert_eq!(rest, [(pod(), Stopped), (main(), Deleted), (pod(), Deleted)]);
}

#[tokio::test(start_paused = true)]
async fn an_event_shows_the_pod_as_it_then_was() {
    let runtime = runtime();
    let mut events = runtime.get_container_events().await.unwrap();
    let id = started(&runtime, &[("exit-after", "1s"), ("exit-code", "3")]).await;
    let stopped = loop {
        let event = events.next().await.unwrap().unwrap();
        if event.container_event_type() == Stopped {
            break event;
        }
    };
    let shown = &stopped.containers_statuses[0];
    assert_eq!((&shown.id, shown.exit_code, shown.finished_at), (&id, 3, stopped.created_at));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_told_that_it_missed_events() {
    let runtime = runtime();
    let mut events = runtime.get_container_events().await.unwrap();
    // Opened, but not yet read.
    let waiting = timeout(seconds(1), events.next()).await;
    assert!(waiting.is_err());
    for name in 0..600 {
        runtime.run_pod_sandbox(&pod(&name.to_string(), &[]), "").await.unwrap();
    }
    assert_eq!(events.next().await.unwrap().unwrap_err().code(), Code::ResourceExhausted);
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_outlives_the_last_handle() {
    let metrics = tokio::runtime::Handle::current().metrics();
    let runtime = runtime();
    let agent = runtime.clone();
    let mut events = runtime.get_container_events().await.unwrap();
    let id = started(&runtime, &[("log", "x"), ("log-interval", "1s"), ("exit-after", "1h")]).await;
    assert_eq!(metrics.num_alive_tasks(), 1);

    drop(runtime);
    assert_eq!(status(&agent, &id).await.state(), v1::ContainerState::ContainerRunning);
    drop(agent);
    while let Some(event) = events.next().await {
        event.unwrap();
    }
    tokio::task::yield_now().await;
    assert_eq!(metrics.num_alive_tasks(), 0);
}
