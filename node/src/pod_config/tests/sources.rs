//! The source API server, and sources side by side.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, TestServer, Verb};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{pod, read};
use crate::pod_config::annotations::source_of;
use crate::pod_config::{PodConfig, PodOperation, PodUpdate, Source, SourcePod, UPDATES, api};

type Updates = mpsc::Receiver<PodUpdate>;

fn names(update: &PodUpdate) -> Vec<&str> {
    update.pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap_or_default()).collect()
}

async fn next(updates: &mut Updates) -> PodUpdate {
    let update = tokio::time::timeout(Duration::from_secs(60), updates.recv()).await;
    update.expect("an update must come").expect("the source must be alive")
}

fn bound(name: &str, node: &str) -> Pod {
    let mut pod: Value = pod(name);
    pod["metadata"]["uid"] = Value::Null;
    pod["spec"]["nodeName"] = node.into();
    read(pod)
}

async fn create(pods: &Api<Pod>, pod: &Pod) {
    pods.create(&PostParams::default(), pod).await.unwrap();
}

/// A source of the pods of the node `n`.
fn start(server: &TestServer) -> (PodConfig, Updates, CancellationToken, JoinSet<()>) {
    let (config, updates) = PodConfig::new(None);
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (client, handle, token) = (server.in_memory_client(), config.source(Source::Api), stop.clone());
    tasks.spawn(async move { Box::pin(api::run(client, "n", handle, token)).await });
    (config, updates, stop, tasks)
}

#[tokio::test(start_paused = true)]
async fn only_pods_of_this_node_are_told_and_followed() {
    let server = TestServer::start().await;
    let pods: Api<Pod> = Api::namespaced(server.in_memory_client(), "default");
    create(&pods, &bound("mine", "n")).await;
    create(&pods, &bound("other", "m")).await;
    let (config, mut updates, stop, tasks) = start(&server);
    let first = next(&mut updates).await;
    assert_eq!((first.op, names(&first)), (PodOperation::Add, vec!["mine"]));
    assert_eq!(source_of(&first.pods[0]), Some(Source::Api));
    assert!(config.seen_all_sources(&BTreeSet::from([Source::Api])));

    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    pods.patch("mine", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(next(&mut updates).await.op, PodOperation::Update);
    pods.delete("mine", &DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut updates).await.op, PodOperation::Delete);
    pods.delete("mine", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(next(&mut updates).await.op, PodOperation::Remove);
    create(&pods, &bound("mine", "n")).await;
    let again = next(&mut updates).await;
    assert_eq!((again.op, names(&again)), (PodOperation::Add, vec!["mine"]));
    stop.cancel();
    tasks.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_before_the_first_list_is_complete() {
    let server = TestServer::start().await;
    let reads = |verb| Calls::to("pods").verb(verb);
    server.faults().fail(3, reads(Verb::List), Failure::InternalError);
    server.faults().fail(3, reads(Verb::Watch), Failure::InternalError);
    let (config, mut updates, stop, tasks) = start(&server);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(updates.try_recv().is_err());
    assert!(!config.seen_all_sources(&BTreeSet::from([Source::Api])));
    let first = next(&mut updates).await;
    assert_eq!((first.op, names(&first)), (PodOperation::Add, vec![]), "an empty list was heard");
    stop.cancel();
    tasks.join_all().await;
}

#[tokio::test]
async fn a_source_touches_no_other_ones_pods_and_all_must_be_heard() {
    let (config, mut updates) = PodConfig::new(None);
    let (file, http) = (config.source(Source::File), config.source(Source::Http));
    let both = BTreeSet::from([Source::File, Source::Http]);
    let own = |name: &str| SourcePod::Own(Arc::new(read(pod(name))));
    file.set(vec![own("a")]).await.unwrap();
    assert!(!config.seen_all_sources(&both));
    http.set(vec![own("b")]).await.unwrap();
    assert!(!config.seen_all_sources(&BTreeSet::from([Source::File])), "the reader has not seen one");
    assert!(config.seen_all_sources(&both));
    http.set(vec![]).await.unwrap();
    let told: Vec<_> = [next(&mut updates).await, next(&mut updates).await, next(&mut updates).await]
        .iter()
        .map(|update| (update.op, update.source, names(update).join(",")))
        .collect();
    assert_eq!(
        told,
        [
            (PodOperation::Add, Source::File, "a".to_owned()),
            (PodOperation::Add, Source::Http, "b".to_owned()),
            (PodOperation::Remove, Source::Http, "b".to_owned()),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_source_waits_for_a_slow_reader_and_ends_with_it() {
    let (config, updates) = PodConfig::new(None);
    let file = config.source(Source::File);
    let own = |name: &str| SourcePod::Own(Arc::new(read(pod(name))));
    for round in 0..UPDATES {
        let name = format!("p{round}");
        // One add a round: each but the first also removes one, so that two updates come of it.
        if round * 2 + 1 > UPDATES {
            break;
        }
        file.set(vec![own(&name)]).await.unwrap();
    }
    let more = async {
        for round in 0..2 {
            file.set(vec![own(&format!("more{round}"))]).await?;
        }
        Ok::<_, crate::pod_config::Closed>(())
    };
    tokio::pin!(more);
    assert!(tokio::time::timeout(Duration::from_secs(60), &mut more).await.is_err(), "it must wait");
    drop(updates);
    assert!(more.await.is_err());
}
