//! Who asks the runtime.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::node_status::watch_runtime;
use crate::runtime::simulated::{Fault, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{Code, Operation};

#[tokio::test(start_paused = true)]
async fn the_runtime_is_asked_soon_at_first_and_a_call_that_hangs_holds_up_no_other() {
    let runtime = SimulatedRuntime::new(SimulatedConfig {
        images: vec!["busybox:1".to_owned()],
        ..SimulatedConfig::default()
    });
    let refused = || Fault::Fails { code: Code::Unavailable, message: "not yet".to_owned() };
    runtime.inject(Operation::Status, 3, refused());
    runtime.inject(Operation::ListImages, 1, Fault::Hangs);
    let (state, inventory) = (RuntimeState::new(), Inventory::new());
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    let (watched, kept, token, service) = (state.clone(), inventory.clone(), stop.clone(), runtime.clone());
    tasks.spawn(async move { Box::pin(watch_runtime(&service, &service, &watched, &kept, token)).await });
    let start = Instant::now();
    inventory.told().await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(state.all_errors().is_empty());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(state.all_errors().is_empty(), "the status is asked for all the while");
    runtime.clear_faults();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(inventory.get().images[0].repo_tags, ["docker.io/library/busybox:1"]);

    runtime.inject(Operation::Status, u32::MAX, refused());
    tokio::time::sleep(Duration::from_secs(36)).await;
    assert_eq!(state.all_errors(), ["container runtime is down"]);
    runtime.clear_faults();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(state.all_errors().is_empty());
    stop.cancel();
    tasks.join_all().await;
}
