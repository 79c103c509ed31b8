//! What goes on in the background.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::events::testing::Kept;

#[tokio::test(start_paused = true)]
async fn limits_and_weights_follow_the_pods_every_minute() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = Arc::new(machine.prepared());
    machine.write("kubepods", "memory.current", "99999999999");
    machine.write("kubepods", "memory.max", "max");
    let pods = Arc::new(parking_lot::Mutex::new(vec![Arc::new(burstable("u-1", "1"))]));
    let events = Arc::new(Kept::default());
    let stop = CancellationToken::new();
    let now = Arc::clone(&pods);
    let upkeep = Upkeep {
        tree,
        there: there(),
        pods: Arc::new(move || now.lock().clone()),
        events: events.clone(),
        node: ObjectReference { name: Some("node1".to_owned()), ..ObjectReference::default() },
    };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(upkeep.run(stop.clone()));

    let after = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    after(1).await;
    assert_eq!(machine.read("kubepods/burstable", "cpu.weight"), "39");
    assert_eq!(events.reasons(), ["FailedNodeAllocatableEnforcement"]);
    let said = events.all().remove(0);
    assert!(
        said.message.starts_with(r#"Failed to update Node Allocatable Limits ["kubepods"]: "#),
        "{said:?}"
    );
    assert_eq!(said.name, "node1");

    machine.write("kubepods", "memory.current", "1");
    pods.lock().clear();
    after(60).await;
    assert_eq!(machine.read("kubepods/burstable", "cpu.weight"), "1");
    assert_eq!(machine.read("kubepods", "memory.max"), "8589934592");
    assert_eq!(events.reasons(), ["FailedNodeAllocatableEnforcement", "NodeAllocatableEnforced"]);

    // Enforced once; weighed again and again.
    machine.write("kubepods/besteffort", "cpu.weight", "100");
    after(60).await;
    assert_eq!(machine.read("kubepods/besteffort", "cpu.weight"), "1");
    assert_eq!(events.reasons().len(), 2);
    stop.cancel();
    tasks.join_all().await;
}
