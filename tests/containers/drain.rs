//! A node that is drained.

use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{Stage, workload};
use support::{patience, until};

#[tokio::test]
async fn a_drain_waits_until_the_budget_allows_it() {
    let Some(stage) = Stage::enter("drain").await else { return };
    let kubectl = &stage.kubectl;
    let mut web = workload("Deployment", "web", json!({ "replicas": 2 }), "exec sleep 1000");
    // The node is the only one. New pods start there though it is cordoned.
    web["spec"]["template"]["spec"]["tolerations"] =
        json!([{ "key": "node.kubernetes.io/unschedulable", "operator": "Exists" }]);
    kubectl.apply(&web).await;
    kubectl.run("rollout status deployment/web").await;
    kubectl.run("create poddisruptionbudget web --selector=app=web --min-available=2").await;
    kubectl.run("wait --for=jsonpath={.status.currentHealthy}=2 pdb/web").await;
    let first = stage.ready_pods().await;
    assert_eq!(first.len(), 2);

    let mut drain = kubectl.start(&format!("drain {} --pod-selector=app=web", stage.node));
    let refusal = "Cannot evict pod as it would violate the pod's disruption budget";
    until("each pod's eviction is refused", || drain.said().matches(refusal).count() >= 2).await;
    assert_eq!(stage.ready_pods().await, first);
    kubectl.run("scale deployment/web --replicas=3").await;
    let mut fewest = first.len();
    let ends = async {
        loop {
            fewest = fewest.min(stage.ready_pods().await.len());
            if let Some(ended) = drain.ended() {
                return ended;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = timeout(patience(), ends).await.expect("the drain must end");
    assert!(ended.success(), "{}", drain.said());
    assert_eq!(fewest, 2, "the budget held throughout");
    kubectl.run("rollout status deployment/web").await;
    let last = stage.ready_pods().await;
    assert_eq!(last.len(), 3);
    assert!(first.iter().all(|pod| !last.contains(pod)), "{first:?} {last:?}");
    kubectl.run(&format!("uncordon {}", stage.node)).await;
    stage.leave().await;
}
