//! Tainted nodes that go from one manager to the other.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use support::manager::Manager;
use support::nodes::{NOT_READY, Nodes, UNREACHABLE, pod_condition, taints, tolerate};
use support::{Cluster, eventually};

const FLAGS: &[&str] = &[
    "--controllers=node-lifecycle-controller,taint-eviction-controller",
    "--node-monitor-period=1s",
    "--node-monitor-grace-period=8s",
    "--node-eviction-rate=10",
];

/// How long the pod tolerates the taint of its node, in seconds.
const TOLERATED: u64 = 20;

/// Starts a manager with these flags.
type Start<'a> = &'a dyn Fn(&Path, &[&str]) -> Manager;

/// The first manager is killed while a toleration runs, and the second one evicts the pod: never too early, and if it is
/// steersman, no later than the first one would have. Pods that stay are not written.
pub(super) async fn while_a_toleration_runs(cluster: Cluster, first: Start<'_>, second: Start<'_>) {
    let kubeconfig = cluster.kubeconfig();
    let nodes = Nodes::of(cluster, &[("tainted", ""), ("silent", ""), ("well", "")]).await;
    let ever = || json!([tolerate("k", None), tolerate(UNREACHABLE, None), tolerate(NOT_READY, None)]);
    nodes.pod("mark", "tainted", json!([])).await;
    nodes.pod("kept", "tainted", json!([tolerate("k", Some(TOLERATED))])).await;
    nodes.pod("ever", "tainted", ever()).await;
    nodes.pod("unheard", "silent", ever()).await;
    let mut manager = first(&kubeconfig, FLAGS);
    nodes.silence("silent");
    let is_marked =
        |node: &_| taints(node, "NoExecute") == [UNREACHABLE] && taints(node, "NoSchedule") == [UNREACHABLE];
    let silent = nodes.node_has("silent", "is tainted", is_marked).await;
    let is_not_ready = |pod: &_| pod_condition(pod, "Ready").is_some_and(|ready| ready.status == "False");
    nodes.pod_has("unheard", "is not ready", is_not_ready).await;

    let tainted = Instant::now();
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    nodes.taint("tainted", json!([{"key": "k", "effect": "NoExecute", "timeAdded": now}])).await;
    nodes.is_evicted("mark").await;
    eventually("a third of the time passes", || async {
        (tainted.elapsed() > Duration::from_secs(TOLERATED / 3)).then_some(())
    })
    .await;
    manager.kill();
    let version = async |pod: &str| nodes.pods().get(pod).await.unwrap().metadata.resource_version;
    let before = [version("ever").await, version("unheard").await];
    assert!(nodes.pods().get("kept").await.unwrap().metadata.deletion_timestamp.is_none());

    let restarted = Instant::now();
    let manager = second(&kubeconfig, FLAGS);
    nodes.is_evicted("kept").await;
    assert!(tainted.elapsed() >= Duration::from_secs(TOLERATED - 1), "after {:?}", tainted.elapsed());
    if manager.is_steersman() {
        // Upstream begins all tolerations anew, and removes the taints of silent nodes before it adds them again.
        assert!(
            restarted.elapsed() < Duration::from_secs(TOLERATED),
            "began anew: {:?}",
            restarted.elapsed()
        );
        let now = nodes.nodes().get("silent").await.unwrap();
        assert_eq!(now.spec.unwrap().taints, silent.spec.unwrap().taints);
    }
    assert_eq!([version("ever").await, version("unheard").await], before, "pods that stay were written");
}
