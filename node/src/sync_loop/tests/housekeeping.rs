//! What a housekeeping decides, and does.

use super::*;
use crate::pod_manager::AllPods;
use crate::pod_workers::{Counts, Known, KnownConfig, Lifecycle};
use crate::sync_loop::housekeeping::{Observed, Plan, plan};

#[derive(Default)]
struct Node {
    all: AllPods,
    active: Vec<Arc<Pod>>,
    known: HashMap<Uid, Known>,
    before: HashSet<Uid>,
    on_node: OnNode,
    ending: Vec<&'static str>,
}

fn uids(uids: &[&str]) -> HashSet<Uid> {
    uids.iter().map(|uid| Uid::from(*uid)).collect()
}

fn shared(pods: Vec<Pod>) -> Vec<Arc<Pod>> {
    pods.into_iter().map(Arc::new).collect()
}

impl Node {
    fn known(mut self, uid: &str, lifecycle: Lifecycle) -> Self {
        let known = Known { lifecycle, orphan: false, config: KnownConfig::Regular };
        self.known.insert(uid.into(), known);
        self
    }

    fn plan(self) -> Plan {
        let Self { all, active, known, before, on_node, ending } = &self;
        let on_node = on_node.clone();
        let observed = Observed { all, active, known, known_before: before, on_node };
        plan(observed, |name| ending.contains(&name))
    }
}

fn names(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| uid_of(pod).to_string()).collect()
}

#[test]
fn wanted_pods_without_a_worker_start_over() {
    let pods = shared(vec![pod("known"), pod("new"), static_pod("static")]);
    let all = AllPods { pods: pods.clone(), ..AllPods::default() };
    let plan = Node { all, active: pods, ..Node::default() }.known("known", Lifecycle::Sync).plan();
    assert_eq!(names(&plan.restart), ["new", "static"]);
    assert_eq!(plan.restarted(), Counts { regular: 1, statics: 1 });
    assert_eq!(plan.possibly_running, uids(&["known", "new", "static"]));
    assert_eq!(plan.working.len(), 3);
}

#[test]
fn pods_that_run_and_that_nobody_wants_are_killed_once() {
    let running = ["wanted", "ending", "orphan", "just ended"].map(runtime_pod).to_vec();
    let pods = shared(vec![pod("wanted")]);
    let plan = Node {
        all: AllPods { pods: pods.clone(), ..AllPods::default() },
        active: pods,
        before: uids(&["wanted", "ending", "just ended"]),
        on_node: OnNode { running, ..OnNode::default() },
        ..Node::default()
    }
    .known("wanted", Lifecycle::Sync)
    .known("ending", Lifecycle::Terminating)
    .plan();
    assert_eq!(plan.kill, [runtime_pod("orphan")]);
    let orphan = Known { lifecycle: Lifecycle::Terminating, orphan: true, config: KnownConfig::None };
    assert_eq!(plan.working.get(&"orphan".into()), Some(&orphan));
}

#[test]
fn a_refused_pod_that_is_deleted_is_ended_by_a_worker() {
    let refused = in_phase(pod("refused"), "Failed");
    let pods = shared(vec![
        deleted(refused.clone()),
        in_phase(pod("not deleted"), "Failed"),
        deleted(pod("not ended")),
        deleted(in_phase(pod("known"), "Failed")),
        deleted(in_phase(pod("runs"), "Failed")),
    ]);
    let running = vec![runtime_pod("runs")];
    let plan = Node {
        all: AllPods { pods, ..AllPods::default() },
        on_node: OnNode { running, ..OnNode::default() },
        ..Node::default()
    }
    .known("known", Lifecycle::Terminated)
    .plan();
    assert_eq!(names(&plan.end), ["refused"]);
}

#[test]
fn what_no_pod_has_any_more_is_removed() {
    let there = uids(&["wanted", "terminating", "terminated", "runs", "nobody"]);
    let plan = Node {
        all: AllPods { pods: shared(vec![pod("wanted")]), ..AllPods::default() },
        on_node: OnNode { running: vec![runtime_pod("runs")], cgroups: there.clone(), folders: there },
        before: uids(&["runs"]),
        ..Node::default()
    }
    .known("terminating", Lifecycle::Terminating)
    .known("terminated", Lifecycle::Terminated)
    .plan();
    let mut cgroups = plan.clean_up.cgroups;
    cgroups.sort();
    assert_eq!(
        cgroups.into_iter().collect::<HashSet<_>>(),
        uids(&["wanted", "terminated", "runs", "nobody"])
    );
    assert_eq!(plan.clean_up.folders, ["nobody".into()]);
}

#[test]
fn a_mirror_goes_once_its_static_pod_has_ended() {
    let orphaned_mirrors = shared(vec![mirror("m1", "gone"), mirror("m2", "ending")]);
    let all = AllPods { mirrors: orphaned_mirrors.clone(), orphaned_mirrors, ..AllPods::default() };
    let plan = Node { all, ending: vec!["ending_ns"], ..Node::default() }.plan();
    assert_eq!(names(&plan.clean_up.mirrors), ["m1"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_killed_before_all_sources_were_heard_and_what_they_said_came_through() {
    let mut rig = Rig::new();
    let source = rig.config.source(Source::Api);
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    *rig.world.on_node.lock() = Some(Ok(OnNode { running: vec![runtime_pod("old")], ..OnNode::default() }));
    rig.tell(PodOperation::Remove, &[pod("a")]).await;
    assert_eq!(rig.done_after(5).await, [""; 0], "it was not heard");
    source.set(Vec::new()).await.unwrap();
    let said = rig.from_config.recv().await.unwrap();
    rig.updates.send(said).await.unwrap();
    let mut done = rig.done_after(2).await;
    done.sort();
    assert_eq!(done, ["clean-up a", "terminate a", "terminate-runtime old"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_housekeeping_kills_what_nobody_wants_and_removes_what_is_left() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a"), mirror("m", "gone")]).await;
    rig.done().await;
    let there = uids(&["a", "old"]);
    *rig.world.on_node.lock() = Some(Ok(OnNode {
        running: vec![runtime_pod("a"), runtime_pod("orphan")],
        cgroups: there.clone(),
        folders: there,
    }));
    let done = rig.done_after(2).await;
    assert_eq!(done.len(), 2, "{done:?}");
    assert!(done.contains(&"terminate-runtime orphan".to_owned()));
    assert!(done.contains(&"clean up cgroups [old] folders [old] mirrors [m]".to_owned()));
    assert!(rig.world.kept.lock().contains(&"a".into()));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_that_is_deleted_goes_to_its_end() {
    let rig = Rig::new();
    let refusal = Rejection::new("OutOfpods", "full");
    rig.world.refuse.lock().insert("a".into(), refusal);
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    assert_eq!(rig.done_after(3).await, ["admit a beside []"], "it is not started over either");
    rig.tell(PodOperation::Reconcile, &[deleted(in_phase(pod("a"), "Failed"))]).await;
    assert_eq!(rig.done_after(3).await, ["clean-up a"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_that_came_back_under_its_uid_is_started_over() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[static_pod("s")]).await;
    rig.done().await;
    rig.tell(PodOperation::Remove, &[static_pod("s")]).await;
    rig.tell(PodOperation::Add, &[static_pod("s")]).await;
    let done = rig.done().await;
    assert_eq!(done[done.len() - 2..], ["terminate s", "clean-up s"]);
    assert_eq!(rig.done_after(2).await, ["sync s"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mirror_waits_until_its_static_pod_has_ended() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[static_pod("s"), mirror("m", "s")]).await;
    rig.world.stuck.lock().insert("s".into());
    rig.done().await;
    rig.tell(PodOperation::Remove, &[static_pod("s")]).await;
    assert_eq!(rig.done_after(5).await, ["terminate s"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_pods_are_counted() {
    let rig = Rig::new();
    let registry = prometheus::Registry::new();
    rig.workers.metrics().register(&registry).unwrap();
    let pods = [pod("a"), in_phase(pod("b"), "Succeeded"), static_pod("s"), mirror("m", "s")];
    rig.tell(PodOperation::Add, &pods).await;
    *rig.world.on_node.lock() =
        Some(Ok(OnNode { running: vec![runtime_pod("orphan")], ..OnNode::default() }));
    rig.done_after(2).await;
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in [
        "kubelet_desired_pods{static=\"\"} 2",
        "kubelet_desired_pods{static=\"true\"} 1",
        "kubelet_active_pods{static=\"\"} 1",
        "kubelet_mirror_pods 1",
        "kubelet_orphaned_runtime_pods_total 1",
        "kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"\"} 1",
        "kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"true\"} 1",
        "kubelet_working_pods{config=\"desired\",lifecycle=\"terminated\",static=\"\"} 1",
        "kubelet_working_pods{config=\"runtime_only\",lifecycle=\"terminating\",static=\"unknown\"} 1",
        "kubelet_working_pods{config=\"orphan\",lifecycle=\"sync\",static=\"\"} 0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    rig.stop().await;
}
