//! The Node as others read it.

use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use steersman_apiserver::TestServer;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::node_info::NodeInfo;
use crate::node_status::LiveNode;

fn named(name: &str, address: &str) -> Node {
    node(json!({
        "metadata": { "name": name },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": address }],
            "allocatable": { "cpu": "2" },
        },
    }))
}

#[tokio::test(start_paused = true)]
async fn before_the_api_server_tells_of_the_node_it_is_as_it_would_be_registered() {
    let live = LiveNode::new("n");
    assert_eq!((live.name(), live.node(), live.any_way()), ("n", None, None));
    assert!(live.host_ips().is_empty() && live.allocatable().is_empty());
    live.set_initial(named("n", "10.0.0.1"));
    assert_eq!(live.node(), None);
    assert_eq!(live.host_ips(), ["10.0.0.1"]);
    assert_eq!(live.allocatable()["cpu"].0, "2");
}

#[tokio::test(start_paused = true)]
async fn the_node_is_followed_and_no_other() {
    let server = TestServer::start().await;
    let nodes: Api<Node> = Api::all(server.in_memory_client());
    let (live, stop, mut tasks) = (LiveNode::new("n"), CancellationToken::new(), JoinSet::new());
    live.set_initial(named("n", "10.0.0.1"));
    let (running, client, token) = (live.clone(), server.in_memory_client(), stop.clone());
    tasks.spawn(async move { Box::pin(running.run(client, token)).await });
    tokio::time::timeout(Duration::from_secs(10), live.synced()).await.unwrap();
    assert_eq!(live.node(), None, "there is none");

    let settle = || tokio::time::sleep(Duration::from_secs(1));
    for name in ["n", "other"] {
        nodes.create(&PostParams::default(), &named(name, "10.0.0.2")).await.unwrap();
    }
    settle().await;
    assert_eq!(live.host_ips(), ["10.0.0.2"]);
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let patched = nodes.patch("n", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    settle().await;
    assert_eq!(live.node().unwrap().metadata.labels, patched.metadata.labels);
    // An answer that comes late does not turn back what is known.
    let mut late = named("n", "10.0.0.3");
    late.metadata = patched.metadata.clone();
    late.metadata.resource_version = Some("1".to_owned());
    live.saw(late);
    assert_eq!(live.host_ips(), ["10.0.0.2"]);

    nodes.delete("n", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert_eq!(live.node(), None);
    assert_eq!(live.host_ips(), ["10.0.0.1"]);
    stop.cancel();
    tasks.join_all().await;
}
