//! The runtime's health, and who asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::node_status::watch_runtime;
use crate::runtime::simulated::{Fault, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{Code, Operation};

#[tokio::test(start_paused = true)]
async fn a_runtime_is_well_while_it_says_so_and_was_asked_lately() {
    let state = RuntimeState::new();
    let errors = || state.errors(Instant::now());
    assert_eq!(
        errors(),
        ["container runtime status check may not have completed yet", "network state unknown"]
    );
    state.set_status(&conditions(true, false), Instant::now());
    let network = "container runtime network not ready: NetworkReady=false reason:Why message:not yet";
    assert_eq!(errors(), [network]);
    assert_eq!(state.network_error().as_deref(), Some(network));
    assert!(state.runtime_errors(Instant::now()).is_empty());
    state.set_status(&conditions(true, true), Instant::now());
    assert!(errors().is_empty());

    tokio::time::advance(Duration::from_secs(29)).await;
    let not_ready = "container runtime not ready: RuntimeReady=false reason:Why message:not yet";
    state.set_status(&conditions(false, true), Instant::now());
    assert_eq!(errors(), [not_ready]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(errors(), ["container runtime is down", not_ready]);
    state.set_status(&v1::StatusResponse::default(), Instant::now());
    assert_eq!(state.network_error().as_deref(), Some("container runtime network not ready: <nil>"));

    let state = well();
    state.set_storage(Some("no disk".to_owned()));
    assert_eq!(state.errors(Instant::now()), ["no disk"]);
    state.set_storage(None);
    let healthy = Arc::new(AtomicBool::new(true));
    let checked = Arc::clone(&healthy);
    let check = move || if checked.load(Ordering::Relaxed) { Ok(()) } else { Err("it is late".to_owned()) };
    state.add_health_check("PLEG", Arc::new(check));
    assert!(state.errors(Instant::now()).is_empty());
    healthy.store(false, Ordering::Relaxed);
    assert_eq!(state.errors(Instant::now()), ["PLEG is not healthy: it is late"]);
}

#[tokio::test(start_paused = true)]
async fn handlers_are_told_by_name_and_only_of_a_runtime_that_is_well() {
    let state = RuntimeState::new();
    let named = |name: &str| v1::RuntimeHandler { name: name.to_owned(), features: None };
    let told =
        v1::StatusResponse { runtime_handlers: vec![named("b"), named("a")], ..conditions(true, true) };
    state.set_status(&told, Instant::now());
    assert_eq!(state.inventory().handlers, [named("a"), named("b")]);
    state.set_status(&conditions(false, true), Instant::now());
    assert_eq!(state.inventory().handlers.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_runtime_is_asked_soon_at_first_and_a_call_that_hangs_holds_up_no_other() {
    let runtime = SimulatedRuntime::new(SimulatedConfig {
        images: vec!["busybox:1".to_owned()],
        ..SimulatedConfig::default()
    });
    let refused = || Fault::Fails { code: Code::Unavailable, message: "not yet".to_owned() };
    runtime.inject(Operation::Status, 3, refused());
    runtime.inject(Operation::ListImages, 1, Fault::Hangs);
    let (state, stop, mut tasks) = (RuntimeState::new(), CancellationToken::new(), JoinSet::new());
    let (watched, token, service) = (state.clone(), stop.clone(), runtime.clone());
    tasks.spawn(async move { watch_runtime(&service, &service, &watched, token).await });
    let start = Instant::now();
    state.told().await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(state.errors(Instant::now()).is_empty());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(state.errors(Instant::now()).is_empty(), "the status is asked for all the while");
    runtime.clear_faults();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(state.inventory().images[0].repo_tags, ["docker.io/library/busybox:1"]);

    runtime.inject(Operation::Status, u32::MAX, refused());
    tokio::time::sleep(Duration::from_secs(36)).await;
    assert_eq!(state.errors(Instant::now()), ["container runtime is down"]);
    runtime.clear_faults();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(state.errors(Instant::now()).is_empty());
    stop.cancel();
    tasks.join_all().await;
}
