//! Attached volumes that go from one manager to the other.

use std::path::Path;

use support::Cluster;
use support::attachments::Attachments;
use support::manager::Manager;

const FLAGS: &[&str] = &["--controllers=persistentvolume-attach-detach-controller"];

/// Volumes handed over from steersman to kube-controller-manager and back: no attachment is made, deleted or written without
/// cause, and each manager finishes what the other has begun.
pub(super) async fn there_and_back(assets: &Path, cluster: Cluster) {
    let (world, kubeconfig) = (Attachments::of(&cluster), cluster.kubeconfig());
    let ours = || Manager::start(&kubeconfig, FLAGS);
    let upstream = || Manager::start_upstream(assets, &kubeconfig, FLAGS);
    world.node("a").await;
    world.node("b").await;
    let first = ours();
    for (volume, node) in [("v1", "a"), ("v2", "a"), ("v3", "b")] {
        world.volume(volume, "ReadWriteOnce").await;
        world.pod(&format!("p-{volume}"), node, &[volume]).await;
        world.attach(volume, node).await;
    }
    // A disk without a driver, of which only the node's list tells.
    let iscsi =
        serde_json::json!({"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:d", "lun": 0});
    world.volume_of("disk", "ReadWriteOnce", serde_json::json!({"iscsi": iscsi})).await;
    world.pod("p-disk", "a", &["disk"]).await;
    let disk = "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2001-04.com.example:d:0";
    world.lists("a", &[disk, "v1", "v2"]).await;
    world.lists("b", &["v3"]).await;
    let (v1, v2) = (world.unique("v1"), world.unique("v2"));
    world.uses_names("a", &[disk, &v1, &v2]).await;
    world.uses("b", &["v3"]).await;
    // One that the external attacher has not served yet.
    world.volume("v4", "ReadWriteOnce").await;
    world.pod("p-v4", "b", &["v4"]).await;
    let asked = world.is_asked("v4", "b").await;
    drop(first);

    let before = world.state().await;
    let second = upstream();
    one_more(&world, "second").await;
    let left = |state: &[String]| -> Vec<String> {
        state.iter().filter(|line| before.contains(line)).cloned().collect()
    };
    assert_eq!(left(&world.state().await), without_lists_of_b(&before), "upstream changed what we left");
    world.attach("v4", "b").await;
    world.lists("b", &["second", "v3", "v4"]).await;
    assert_eq!(world.find("v4", "b").await.unwrap().metadata.uid, asked.metadata.uid);
    // A pod ends, and its volume is still in use.
    world.end("p-v1").await;
    drop(second);

    let before = world.state().await;
    let third = ours();
    one_more(&world, "third").await;
    let after = world.state().await;
    let kept: Vec<_> = after.iter().filter(|line| before.contains(line)).cloned().collect();
    assert_eq!(kept, without_lists_of_b(&before), "we changed what upstream left");
    world.uses_names("a", &[disk, &v2]).await;
    world.detach("v1", "a").await;
    world.lists("a", &[disk, "v2"]).await;
    // Upstream finishes a detachment that has begun.
    world.end("p-v3").await;
    world.uses("b", &[]).await;
    super::eventually("v3 is to go", || async {
        world.find("v3", "b").await?.metadata.deletion_timestamp.map(drop)
    })
    .await;
    drop(third);
    let _fourth = upstream();
    world.let_go("v3", "b").await;
    one_more(&world, "fourth").await;
    world.end("p-disk").await;
    world.uses_names("a", &[&v2]).await;
    world.lists("a", &["v2"]).await;
    world.lists("b", &["fourth", "second", "third", "v4"]).await;
}

/// Has the running manager attach one more volume, to the node `b`. Once it has, it has also looked at the older ones.
async fn one_more(world: &Attachments, volume: &str) {
    world.volume(volume, "ReadWriteOnce").await;
    world.pod(&format!("p-{volume}"), "b", &[volume]).await;
    world.attach(volume, "b").await;
    super::eventually("it is listed", || async {
        world.listed("b").await?.iter().any(|one| one == volume).then_some(())
    })
    .await;
}

/// All but the line of the node `b`, to which one more volume is attached meanwhile.
fn without_lists_of_b(state: &[String]) -> Vec<String> {
    state.iter().filter(|line| !line.contains("-b\") [")).cloned().collect()
}
