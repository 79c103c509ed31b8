//! Against the in-memory server, under paused time.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::{Calls, Failure, Recording, TestServer, Verb};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Heartbeat, NAMESPACE};

struct Bench {
    server: TestServer,
    recording: Recording,
    leases: Api<Lease>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    /// A server, its Node `n` where asked for, and the heart of that.
    async fn start(with_node: bool) -> Self {
        let server = TestServer::start().await;
        let client = server.in_memory_client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } })).unwrap();
        // It may be there from the start.
        let _ = namespaces.create(&PostParams::default(), &namespace).await;
        if with_node {
            make_node(&server).await;
        }
        let recording = server.record();
        let leases = Api::namespaced(client, NAMESPACE);
        let mut bench =
            Self { server, recording, leases, stop: CancellationToken::new(), tasks: JoinSet::new() };
        bench.beat(40);
        bench
    }

    fn beat(&mut self, duration_seconds: i32) {
        let (client, stop) = (self.server.in_memory_client(), self.stop.clone());
        self.tasks.spawn(async move { Heartbeat::new("n", duration_seconds).run(client, stop).await });
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }

    async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn lease(&self) -> Option<Value> {
        let leases = GroupVersionResource::new("coordination.k8s.io", "v1", "leases");
        self.server.peek(&leases, &ObjectKey::new(NAMESPACE, "n"))
    }

    fn count(&self, verb: Verb) -> usize {
        self.recording.count(&Calls::to("leases").verb(verb))
    }

    async fn end(mut self) {
        self.stop().await;
    }
}

async fn make_node(server: &TestServer) -> Node {
    let node = serde_json::from_value(json!({ "metadata": { "name": "n" } })).unwrap();
    Api::all(server.in_memory_client()).create(&PostParams::default(), &node).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_made_and_renewed_every_ten_seconds_without_being_read() {
    let bench = Bench::start(true).await;
    bench.wait(1).await;
    let made = bench.lease().unwrap();
    assert_eq!(made["spec"]["holderIdentity"], "n");
    assert_eq!(made["spec"]["leaseDurationSeconds"], 40);
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["kind"], &owner["name"]),
        (&json!("v1"), &json!("Node"), &json!("n"))
    );
    assert!(owner["uid"].as_str().is_some_and(|uid| !uid.is_empty()));
    assert_eq!((bench.count(Verb::Get), bench.count(Verb::Create), bench.count(Verb::Update)), (1, 1, 0));
    // Between 10 and 10.4 seconds each.
    bench.wait(104).await;
    assert_eq!((bench.count(Verb::Get), bench.count(Verb::Create)), (1, 1));
    assert_eq!(bench.count(Verb::Update), 10);
    assert!(bench.lease().unwrap()["spec"]["renewTime"].as_str() > made["spec"]["renewTime"].as_str());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_before_is_renewed_at_once() {
    let mut bench = Bench::start(true).await;
    bench.wait(1).await;
    bench.stop().await;
    let before = bench.lease().unwrap();
    bench.stop = CancellationToken::new();
    bench.beat(20);
    bench.wait(1).await;
    let after = bench.lease().unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"]["leaseDurationSeconds"], 20);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_there_yet_gets_its_lease_later() {
    let bench = Bench::start(false).await;
    bench.wait(5).await;
    assert_eq!(bench.lease(), None);
    make_node(&bench.server).await;
    bench.wait(11).await;
    assert!(bench.lease().is_some());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_at_once_and_then_with_growing_waits() {
    let bench = Bench::start(true).await;
    bench.wait(1).await;
    let updates = || Calls::to("leases").verb(Verb::Update);
    bench.server.faults().fail(4, updates(), Failure::InternalError);
    bench.wait(10).await;
    assert_eq!(
        (bench.count(Verb::Update), bench.count(Verb::Get)),
        (5, 1),
        "five tries, the last of which went well"
    );

    // The server is away for a while: reads are tried with waits of up to 7 seconds.
    bench.recording.clear();
    bench.server.faults().fail(usize::MAX, Calls::to("leases"), Failure::InternalError);
    bench.wait(60).await;
    assert_eq!(bench.count(Verb::Update), 5);
    assert!((10..16).contains(&bench.count(Verb::Get)), "{}", bench.count(Verb::Get));
    let before = bench.lease().unwrap();
    bench.server.faults().clear();
    bench.wait(8).await;
    assert_ne!(bench.lease().unwrap()["spec"]["renewTime"], before["spec"]["renewTime"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_changed_or_deleted_is_taken_over() {
    let bench = Bench::start(true).await;
    bench.wait(1).await;
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    bench.leases.patch("n", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    bench.wait(11).await;
    let lease = bench.lease().unwrap();
    assert_eq!(lease["metadata"]["labels"]["a"], "b", "what others wrote stays");
    assert_eq!((bench.count(Verb::Update), bench.count(Verb::Get)), (2, 2));

    bench.leases.delete("n", &DeleteParams::default()).await.unwrap();
    bench.wait(11).await;
    let made = bench.lease().unwrap();
    assert_ne!(made["metadata"]["uid"], lease["metadata"]["uid"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_given_up_before_the_lease_is_over() {
    for duration in [40, 8] {
        let mut bench = Bench::start(true).await;
        bench.stop().await;
        bench.stop = CancellationToken::new();
        bench.beat(duration);
        bench.wait(1).await;
        let before = bench.lease().unwrap();
        assert_eq!(before["spec"]["leaseDurationSeconds"], duration);
        bench.server.faults().fail(1, Calls::to("leases").verb(Verb::Update), Failure::Hang);
        // The call that hangs begins after a quarter of that, and has a quarter.
        bench.wait(u64::from(duration.unsigned_abs()) * 3 / 4).await;
        assert_ne!(bench.lease().unwrap()["spec"]["renewTime"], before["spec"]["renewTime"], "{duration}");
        bench.end().await;
    }
}
