//! Volumes attached to nodes by the manager, as a process, while a test plays the external attacher and the kubelets.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use support::attachments::{Attachments, DRIVER};
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::{Cluster, eventually};

const FLAGS: &[&str] = &[
    "--controllers=persistentvolume-attach-detach-controller",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
];

/// A manager at work, and the objects of its cluster.
struct Scene {
    managed: Managed,
    world: Attachments,
}

async fn start() -> Scene {
    let managed = Managed::start(FLAGS).await;
    let world = Attachments::of(&managed.cluster);
    Scene { managed, world }
}

/// Waits until the manager's metrics have this series, and not as zero: other tests may use the same manager. Upstream's manager
/// serves no metrics here.
async fn counts(managed: &Managed, series: &str) {
    if Manager::is_upstream() {
        return;
    }
    eventually(series, || async {
        let (_, metrics) = managed.manager.get("/metrics").await?;
        let counted = |line: &str| line.strip_prefix(series).is_some_and(|value| value != " 0");
        metrics.lines().any(counted).then_some(())
    })
    .await;
}

/// Creates a volume that nodes reach by themselves, for one node at a time. Returns the name by which nodes list it.
async fn disk(world: &Attachments, volume: &str) -> String {
    let target = format!("iqn.2001-04.com.example:{}", world.namespace);
    let iscsi = json!({"targetPortal": "10.0.0.1:3260", "iqn": target, "lun": 1});
    world.volume_of(volume, "ReadWriteOnce", json!({"iscsi": iscsi})).await;
    format!("kubernetes.io/iscsi/10.0.0.1:3260:{target}:1")
}

/// Declares a node out of service.
async fn take_out_of_service(world: &Attachments, node: &str) {
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "down", "effect": "NoExecute"});
    let taint = Patch::Merge(json!({"spec": {"taints": [taint]}}));
    world.nodes.patch(&world.full(node), &PatchParams::default(), &taint).await.unwrap();
}

#[tokio::test]
async fn a_volume_is_attached_and_listed_and_detached_once_the_kubelet_has_let_it_go() {
    let Scene { world, managed } = start().await;
    world.node("n").await;
    world.volume("v", "ReadWriteOnce").await;
    world.pod("p", "n", &["v"]).await;
    let asked = world.is_asked("v", "n").await;
    assert_eq!(asked.spec.attacher, DRIVER);
    let digest = {
        let text = [world.handle("v"), DRIVER.to_owned(), world.full("n")].concat();
        ring::digest::digest(&ring::digest::SHA256, text.as_bytes())
    };
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(asked.metadata.name.unwrap(), format!("csi-{digest}"));
    assert_eq!(world.listed("n").await.unwrap(), [""; 0], "it is not attached yet");

    world.attach("v", "n").await;
    world.lists("n", &["v"]).await;
    let message = format!("AttachVolume.Attach succeeded for volume \"{}\" ", world.full("v"));
    world.told("p", "Normal", "SuccessfulAttachVolume", &message).await;

    let plugin = format!("kubernetes.io/csi:{DRIVER}");
    let node = world.full("n");
    for line in [
        format!(
            "attachdetach_controller_total_volumes{{plugin_name=\"{plugin}\",state=\"actual_state_of_world\"}}"
        ),
        format!(
            "attachdetach_controller_total_volumes{{plugin_name=\"{plugin}\",state=\"desired_state_of_world\"}}"
        ),
        format!("storage_count_attachable_volumes_in_use{{node=\"{node}\",volume_plugin=\"{plugin}\"}}"),
    ] {
        counts(&managed, &line).await;
    }

    world.uses("n", &["v"]).await;
    world.end("p").await;
    // Another volume shows that the controller has seen the end of the pod.
    world.volume("other", "ReadWriteOnce").await;
    world.pod("q", "n", &["other"]).await;
    world.attach("other", "n").await;
    world.lists("n", &["other", "v"]).await;
    assert!(world.find("v", "n").await.unwrap().metadata.deletion_timestamp.is_none(), "the node uses it");

    world.uses("n", &[]).await;
    world.detach("v", "n").await;
    world.lists("n", &["other"]).await;
    eventually("the attachment is gone", || async { world.find("v", "n").await.is_none().then_some(()) })
        .await;
    for operation in ["volume_attach", "volume_detach"] {
        let labels = format!(
            "{{migrated=\"false\",operation_name=\"{operation}\",status=\"success\",volume_plugin=\"{plugin}\"}}"
        );
        counts(&managed, &format!("storage_operation_duration_seconds_count{labels}")).await;
    }
}

#[tokio::test]
async fn a_disk_that_nodes_reach_by_themselves_is_listed_where_pods_need_it() {
    let Scene { world, managed } = start().await;
    world.node("a").await;
    world.node("b").await;
    let disk = disk(&world, "v").await;
    world.pod("first", "a", &["v"]).await;
    world.lists("a", &[&disk]).await;
    let message = format!("AttachVolume.Attach succeeded for volume \"{}\" ", world.full("v"));
    world.told("first", "Normal", "SuccessfulAttachVolume", &message).await;
    world.uses_names("a", &[&disk]).await;

    world.pod("second", "b", &["v"]).await;
    let message = format!(
        "Multi-Attach error for volume \"{}\" Volume is already used by pod(s) first",
        world.full("v")
    );
    world.told("second", "Warning", "FailedAttachVolume", &message).await;
    world.end("first").await;
    // A disk that a pod spells out, and that many nodes may have.
    let channel = json!({"targetWWNs": ["500a0982991b8dc5", "500a0982891b8dc5"], "lun": 2});
    for (pod, node) in [("p", "a"), ("q", "b")] {
        world.pod_with(pod, node, vec![json!({"name": "spelt", "fc": channel})]).await;
        let message = "AttachVolume.Attach succeeded for volume \"spelt\" ";
        world.told(pod, "Normal", "SuccessfulAttachVolume", message).await;
    }
    let spelt = "kubernetes.io/fc/[500a0982991b8dc5 500a0982891b8dc5]:2";
    world.lists("a", &[spelt, &disk]).await;
    world.lists("b", &[spelt]).await;

    world.uses_names("a", &[]).await;
    world.lists("b", &[spelt, &disk]).await;
    world.lists("a", &[spelt]).await;
    assert!(world.find("v", "b").await.is_none(), "no driver attaches it");
    let labels = "{migrated=\"false\",operation_name=\"volume_detach\",status=\"success\",volume_plugin=\"kubernetes.io/iscsi\"}";
    counts(&managed, &format!("storage_operation_duration_seconds_count{labels}")).await;
}

#[tokio::test]
async fn a_volume_for_one_node_moves_to_another_one_only_after_the_first_has_let_it_go() {
    let Scene { world, managed: _managed } = start().await;
    world.node("a").await;
    world.node("b").await;
    world.volume("v", "ReadWriteOnce").await;
    world.pod("first", "a", &["v"]).await;
    world.attach("v", "a").await;
    world.lists("a", &["v"]).await;
    world.uses("a", &["v"]).await;

    world.pod("second", "b", &["v"]).await;
    let volume = world.full("v");
    let message =
        format!("Multi-Attach error for volume \"{volume}\" Volume is already used by pod(s) first");
    world.told("second", "Warning", "FailedAttachVolume", &message).await;
    assert!(world.find("v", "b").await.is_none());

    world.end("first").await;
    world.uses("a", &[]).await;
    world.detach("v", "a").await;
    world.attach("v", "b").await;
    world.lists("b", &["v"]).await;
    world.lists("a", &[]).await;
}

#[tokio::test]
async fn a_volume_for_many_nodes_is_attached_to_all_of_them() {
    let Scene { world, managed: _managed } = start().await;
    world.volume("v", "ReadWriteMany").await;
    for node in ["a", "b", "c"] {
        world.node(node).await;
        world.pod(&format!("on-{node}"), node, &["v"]).await;
    }
    for node in ["a", "b", "c"] {
        world.attach("v", node).await;
        world.lists(node, &["v"]).await;
    }
}

#[tokio::test]
async fn what_the_driver_says_is_told_to_pods_and_a_later_success_counts() {
    let Scene { world, managed: _managed } = start().await;
    world.node("n").await;
    world.volume("v", "ReadWriteOnce").await;
    world.pod("p", "n", &["v"]).await;
    let name = world.is_asked("v", "n").await.metadata.name.unwrap();
    let time = "2026-01-01T00:00:00Z";
    world
        .report(&name, json!({"attached": false, "attachError": {"time": time, "message": "no disk"}}))
        .await;
    let message = format!("AttachVolume.Attach failed for volume \"{}\" : no disk", world.full("v"));
    world.told("p", "Warning", "FailedAttachVolume", &message).await;
    world.attach("v", "n").await;
    world.lists("n", &["v"]).await;
}

#[tokio::test]
async fn a_node_out_of_service_loses_its_volumes_by_force() {
    let Scene { world, managed } = start().await;
    world.node("a").await;
    world.node("b").await;
    world.volume("v", "ReadWriteOnce").await;
    world.pod("old", "a", &["v"]).await;
    world.attach("v", "a").await;
    world.lists("a", &["v"]).await;
    world.uses("a", &["v"]).await;
    world.ready("a", false).await;
    world.end("old").await;
    world.pod("new", "b", &["v"]).await;

    take_out_of_service(&world, "a").await;
    world.detach("v", "a").await;
    world.attach("v", "b").await;
    world.lists("b", &["v"]).await;
    let forced = "attach_detach_controller_attachdetach_controller_forced_detaches";
    counts(&managed, &format!("{forced}{{reason=\"out-of-service\"}}")).await;
}

#[tokio::test]
async fn a_disk_that_only_the_status_of_its_node_lists_leaves_a_node_out_of_service_at_once() {
    // Without the check of all volumes each minute.
    let flags: Vec<_> = FLAGS.iter().copied().chain(["--disable-attach-detach-reconcile-sync"]).collect();
    let managed = Managed::start(&flags).await;
    let world = Attachments::of(&managed.cluster);
    world.node("a").await;
    world.node("b").await;
    let disk = disk(&world, "v").await;
    world.pod("old", "a", &["v"]).await;
    world.lists("a", &[&disk]).await;
    world.uses_names("a", &[&disk]).await;
    world.end("old").await;
    world.pod("new", "b", &["v"]).await;
    let message = format!(
        "Multi-Attach error for volume \"{}\" Volume is already exclusively attached to one node and can't be attached to another",
        world.full("v")
    );
    world.told("new", "Warning", "FailedAttachVolume", &message).await;

    take_out_of_service(&world, "a").await;
    world.lists("b", &[&disk]).await;
    world.lists("a", &[]).await;
}

#[tokio::test]
async fn only_what_must_be_attached_is_attached() {
    let Scene { world, managed: _managed } = start().await;
    let driver: CSIDriver = serde_json::from_value(json!({
        "metadata": {"name": format!("{}.example.com", world.namespace)}, "spec": {"attachRequired": false},
    }))
    .unwrap();
    let driver = world.drivers.create(&PostParams::default(), &driver).await.unwrap().metadata.name.unwrap();
    world.node("n").await;
    world.node_with("alone", json!({})).await;
    let source = json!({"csi": {"driver": driver, "volumeHandle": "h"}});
    world.volume_of("unattached", "ReadWriteOnce", source).await;
    world.volume_of("path", "ReadWriteOnce", json!({"hostPath": {"path": "/tmp"}})).await;
    for volume in ["on-alone", "unclaimed", "last"] {
        world.volume(volume, "ReadWriteOnce").await;
    }
    world.pod("p1", "n", &["unattached", "path"]).await;
    world.pod("p2", "alone", &["on-alone"]).await;
    world.pod_with("p3", "n", vec![json!({"name": "inline", "csi": {"driver": DRIVER}})]).await;
    world.pod("p4", "n", &["last"]).await;
    world.attach("last", "n").await;
    world.lists("n", &["last"]).await;
    for (volume, node) in [("unattached", "n"), ("path", "n"), ("on-alone", "alone"), ("unclaimed", "n")] {
        assert!(world.find(volume, node).await.is_none(), "{volume}");
    }
    world.drivers.delete(&driver, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_migrated_volume_is_attached_by_its_driver() {
    let Scene { world, managed: _managed } = start().await;
    world.node("n").await;
    world.volume_of("v", "ReadWriteOnce", json!({"cinder": {"volumeID": world.handle("v")}})).await;
    world.pod("p", "n", &["v"]).await;
    assert_eq!(world.is_asked("v", "n").await.spec.attacher, "cinder.csi.openstack.org");
    world.attach("v", "n").await;
    eventually("it is listed", || async {
        let unique = format!("kubernetes.io/csi/cinder.csi.openstack.org^{}", world.handle("v"));
        world.listed("n").await?.contains(&unique).then_some(())
    })
    .await;
}

/// Starts a number of volumes, each with a pod on one of two nodes. The external attacher attaches them.
async fn volumes(world: &Attachments, count: usize) -> Vec<(String, &'static str)> {
    world.node("a").await;
    world.node("b").await;
    let all = (0..count).map(|at| (format!("v{at:02}"), ["a", "b"][at % 2]));
    let all: Vec<_> = all.collect();
    for (volume, node) in &all {
        world.volume(volume, "ReadWriteOnce").await;
        world.pod(&format!("p-{volume}"), node, &[volume]).await;
    }
    all
}

#[tokio::test]
async fn a_manager_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    let cluster = Cluster::start_alone().await;
    let world = Attachments::of(&cluster);
    let all = volumes(&world, 12).await;
    let kubeconfig = cluster.kubeconfig();
    let mut names = Vec::new();
    for (volume, node) in &all {
        let mut manager = Manager::start(&kubeconfig, FLAGS);
        names.push(world.attach(volume, node).await);
        manager.kill();
    }
    let manager = Manager::start(&kubeconfig, FLAGS);
    for node in ["a", "b"] {
        let of_node: Vec<_> =
            all.iter().filter(|(_, at)| *at == node).map(|(volume, _)| volume.as_str()).collect();
        world.lists(node, &of_node).await;
        world.uses(node, &of_node).await;
    }
    drop(manager);

    // The pods of half of the volumes end while no manager runs, and the kubelets let half of these go.
    let (ended, kept) = all.split_at(6);
    for (volume, _) in ended {
        world.end(&format!("p-{volume}")).await;
    }
    let (gone, in_use) = ended.split_at(2);
    for node in ["a", "b"] {
        let still = in_use.iter().chain(kept).filter(|(_, at)| *at == node);
        let still: Vec<_> = still.map(|(volume, _)| volume.as_str()).collect();
        world.uses(node, &still).await;
    }
    for (volume, node) in gone {
        let mut manager = Manager::start(&kubeconfig, FLAGS);
        world.detach(volume, node).await;
        manager.kill();
    }
    let _manager = Manager::start(&kubeconfig, FLAGS);
    for node in ["a", "b"] {
        let still = in_use.iter().chain(kept).filter(|(_, at)| *at == node);
        let still: Vec<_> = still.map(|(volume, _)| volume.as_str()).collect();
        world.lists(node, &still).await;
    }
    for (volume, node) in in_use.iter().chain(kept) {
        let found = world.find(volume, node).await.unwrap();
        assert!(found.metadata.deletion_timestamp.is_none(), "{volume} was deleted");
        assert!(names.contains(&found.metadata.name.unwrap()));
    }
}

#[tokio::test]
async fn a_second_manager_goes_on_where_the_first_was_killed() {
    let cluster = Cluster::start_alone().await;
    let world = Attachments::of(&cluster);
    let all = volumes(&world, 6).await;
    let mut candidates = Candidates::start(&cluster, FLAGS).await;
    for (volume, node) in &all[..3] {
        world.attach(volume, node).await;
    }
    let uids = async || {
        let mut uids = Vec::new();
        for (volume, node) in &all {
            uids.push(world.is_asked(volume, node).await.metadata.uid.unwrap());
        }
        uids
    };
    let before = uids().await;
    candidates.kill_leader();
    for (volume, node) in &all[3..] {
        world.attach(volume, node).await;
    }
    world.lists("a", &["v00", "v02", "v04"]).await;
    world.lists("b", &["v01", "v03", "v05"]).await;
    assert_eq!(uids().await, before);
    assert!(candidates.has_changed().await);
}
