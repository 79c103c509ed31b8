//! What goes on in the background.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::events::Events;
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

#[tokio::test]
async fn daemons_are_held_to_what_is_reserved_and_a_group_that_is_missing_ends_the_start() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = Arc::new(machine.prepared());
    imitation(CgroupVersion::V2).make(&machine.path("memory", "daemons")).unwrap();
    let kept = Arc::new(Kept::default());
    let events: Events = kept.clone();
    let reserved =
        |whose, group: &str, extent| Reserved { whose, group: group.to_owned(), amounts: there(), extent };
    let node = ObjectReference::default();
    let good = [
        reserved(Whose::Kubernetes, "/daemons", Extent::All),
        reserved(Whose::System, "/kubepods/burstable", Extent::Compressible),
    ];
    // Whatever they use: the kernel sees to it.
    machine.write("daemons", "memory.current", "99999999999");
    hold(&tree, good.to_vec(), &events, &node).await.unwrap();
    assert_eq!(machine.read("daemons", "memory.max"), "8589934592");
    assert_eq!(machine.read("daemons", "pids.max"), "1000");
    assert_eq!(machine.read("daemons", "cpu.weight"), "157");
    assert_eq!(machine.read("kubepods/burstable", "memory.max"), "max");
    let messages = || kept.all().into_iter().map(|said| said.message).collect::<Vec<_>>();
    assert_eq!(
        messages(),
        [
            "Updated limits on kube reserved cgroup /daemons",
            "Updated limits on system reserved cgroup /kubepods/burstable",
        ]
    );
    for (whose, extent, called) in [
        (Whose::System, Extent::All, "System Reserved"),
        (Whose::Kubernetes, Extent::All, "Kube Reserved"),
        (Whose::System, Extent::Compressible, "System Reserved Compressible"),
        (Whose::Kubernetes, Extent::Compressible, "Kube Reserved Compressible"),
    ] {
        let all = vec![reserved(whose, "/none", extent), good[0].clone()];
        let error = hold(&tree, all, &events, &node).await.unwrap_err().to_string();
        let expected =
            format!("Failed to enforce {called} Cgroup Limits on \"/none\": \"/none\" cgroup does not exist");
        assert_eq!(error, expected);
        assert_eq!(messages().last(), Some(&expected), "those after it are left alone");
    }
}
