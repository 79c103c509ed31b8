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
        reserved: Vec::new(),
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

#[tokio::test(start_paused = true)]
async fn daemons_are_held_to_what_is_reserved_once_their_group_is_there() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = Arc::new(machine.prepared());
    let events = Arc::new(Kept::default());
    let reserved =
        |whose, group: &str, extent| Reserved { whose, group: group.to_owned(), amounts: there(), extent };
    let upkeep = Upkeep {
        tree: tree.clone(),
        there: there(),
        reserved: vec![
            reserved(Whose::System, "/kubepods/burstable", Extent::Compressible),
            reserved(Whose::Kubernetes, "/daemons", Extent::All),
        ],
        pods: Arc::new(Vec::new),
        events: events.clone(),
        node: ObjectReference::default(),
    };
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(upkeep.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let messages = || events.all().into_iter().map(|said| said.message).skip(1).collect::<Vec<_>>();
    assert_eq!(
        messages(),
        [
            "Updated limits on system reserved cgroup /kubepods/burstable",
            "Failed to enforce Kube Reserved Cgroup Limits on \"/daemons\": \"/daemons\" cgroup does not exist",
        ]
    );
    assert_eq!(machine.read("kubepods/burstable", "memory.max"), "max");

    imitation(CgroupVersion::V2).make(&machine.path("memory", "daemons")).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(messages().last().unwrap(), "Updated limits on kube reserved cgroup /daemons");
    assert_eq!(machine.read("daemons", "memory.max"), "8589934592");
    assert_eq!(machine.read("daemons", "pids.max"), "1000");
    assert_eq!(machine.read("daemons", "cpu.weight"), "157");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(messages().len(), 3, "each is held once");
    stop.cancel();
    tasks.join_all().await;
}
