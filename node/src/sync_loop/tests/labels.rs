//! A Node that is known late keeps no pod away.

use super::*;

impl Rig {
    /// The labels that are known of the node are against the pod.
    fn unwanted(&self, uid: &str) {
        let refusal = Rejection { by_labels: true, ..Rejection::new("NodeAffinity", "another node") };
        self.world.refuse.lock().insert(uid.into(), refusal);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_labels_alone_are_against_is_admitted_by_a_node_that_was_read_anew() {
    let rig = Rig::new();
    for uid in ["a", "c"] {
        rig.unwanted(uid);
    }
    rig.world.relabelled.lock().insert("a".into());
    rig.tell(PodOperation::Add, &[pod("a"), pod("b"), pod("c"), pod("d")]).await;
    let done = rig.done().await;
    let decided: Vec<_> = done.iter().filter(|done| !done.starts_with("sync")).collect();
    assert_eq!(
        decided,
        [
            "admit a beside []",
            "read the node",
            "admit a beside []",
            "admit b beside [a]",
            "admit c beside [a b]",
            "read the node",
            "admit c beside [a b]",
            "admit d beside [a b]",
        ]
    );
    for started in ["sync a", "sync b", "sync d"] {
        assert!(done.contains(&started.to_owned()), "{done:?}");
    }
    assert_eq!(rig.status.get("c").unwrap().reason.as_deref(), Some("NodeAffinity"));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_reading_hangs_holds_up_no_pod_that_runs() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("runs")]).await;
    rig.done().await;
    *rig.world.asleep.lock() = true;
    rig.unwanted("a");
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.tell(PodOperation::Update, &[pod("runs")]).await;
    assert_eq!(rig.done().await, ["admit a beside [runs]", "read the node", "sync runs"]);
    rig.stop().await;
}
