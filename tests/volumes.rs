//! Claims and volumes that the manager, as a process, binds, while the test plays users, provisioners and the scheduler.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use steersman_apiserver::{Calls, Failure, Verb};
use support::claims::{Storage, named};
use support::managed::Candidates;
use support::manager::Manager;
use support::{Cluster, eventually};

const FLAGS: &[&str] = &[
    "--controllers=persistentvolume-binder-controller",
    "--pvclaimbinder-sync-period=1s",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
];
/// So few calls a second that a test sees the manager in the middle of its work.
const SLOW: &[&str] = &[
    "--controllers=persistentvolume-binder-controller",
    "--pvclaimbinder-sync-period=1s",
    "--kube-api-qps=30",
    "--kube-api-burst=4",
];

/// A cluster with a manager, and storage that no other test uses.
async fn start() -> (Cluster, Manager, Storage) {
    let cluster = Cluster::start_alone().await;
    let manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    let storage = Storage::new(&cluster);
    (cluster, manager, storage)
}

#[tokio::test]
async fn a_claim_gets_the_smallest_volume_that_fits_it() {
    let (_cluster, _manager, storage) = start().await;
    for (name, size, modes) in [
        ("big", "20Gi", json!(["ReadWriteOnce"])),
        ("fit", "5Gi", json!(["ReadWriteOnce"])),
        ("tiny", "1Mi", json!(["ReadWriteOnce"])),
    ] {
        storage.volume(name, json!({"spec": {"capacity": {"storage": size}, "accessModes": modes}})).await;
        storage.volume_phase(name, "Available").await;
    }
    storage.claim("c", json!({})).await;
    let claim = storage.claim_phase("c", "Bound").await;
    assert_eq!(claim["spec"]["volumeName"], storage.name("fit"));
    let annotations = &claim["metadata"]["annotations"];
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}});
    assert_eq!(claim["status"], status);
    let volume = storage.volume_phase("fit", "Bound").await;
    let reference = &volume["spec"]["claimRef"];
    assert_eq!(
        (&reference["kind"], &reference["apiVersion"]),
        (&json!("PersistentVolumeClaim"), &json!("v1"))
    );
    assert_eq!((&reference["uid"], &reference["name"]), (&claim["metadata"]["uid"], &json!("c")));
    assert_eq!(volume["metadata"]["annotations"], json!({"pv.kubernetes.io/bound-by-controller": "yes"}));
    storage.volume_phase("big", "Available").await;
}

#[tokio::test]
async fn selectors_modes_and_names_decide() {
    let (_cluster, _manager, storage) = start().await;
    storage.volume("plain", json!({})).await;
    storage.volume("labelled", json!({"metadata": {"labels": {"disk": "fast"}}})).await;
    storage.volume("block", json!({"spec": {"volumeMode": "Block"}})).await;
    storage.volume("reserved", storage.reserved_for("r")).await;
    for name in ["plain", "labelled", "block", "reserved"] {
        storage.volume_phase(name, "Available").await;
    }
    storage.claim("s", json!({"spec": {"selector": {"matchLabels": {"disk": "fast"}}}})).await;
    storage.claim("b", json!({"spec": {"volumeMode": "Block"}})).await;
    storage.claim("r", json!({})).await;
    storage.claim("p", json!({"spec": {"volumeName": storage.name("plain")}})).await;
    for (claim, volume) in [("s", "labelled"), ("b", "block"), ("r", "reserved"), ("p", "plain")] {
        assert_eq!(
            storage.claim_phase(claim, "Bound").await["spec"]["volumeName"],
            storage.name(volume),
            "{claim}"
        );
    }
    let annotations = storage.get_volume("reserved").await["metadata"]["annotations"].clone();
    assert!(
        annotations["pv.kubernetes.io/bound-by-controller"].is_null(),
        "a user reserved it: {annotations}"
    );

    storage.volume("small", json!({"spec": {"capacity": {"storage": "1Mi"}}})).await;
    storage.claim("m", json!({"spec": {"volumeName": storage.name("small")}})).await;
    let message =
        format!("Cannot bind to requested volume \"{}\": requested PV is too small", storage.name("small"));
    storage.event("m", "VolumeMismatch", &message).await;
    storage.claim("t", json!({"spec": {"volumeName": storage.name("plain")}})).await;
    let message = format!("volume \"{}\" already bound to a different claim.", storage.name("plain"));
    storage.event("t", "FailedBinding", &message).await;
    storage.claim("n", json!({"spec": {"storageClassName": ""}})).await;
    storage
        .event(
            "n",
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        )
        .await;
}

#[tokio::test]
async fn a_claim_without_class_gets_a_default_class_that_comes_later() {
    let (_cluster, _manager, storage) = start().await;
    storage.claim("c", json!({"spec": {"storageClassName": null}})).await;
    storage
        .event(
            "c",
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        )
        .await;
    let mark = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    storage.class("later", json!({"metadata": {"annotations": mark}})).await;
    eventually("the claim has the class", || async {
        let claim = storage.get_claim("c").await;
        (claim["spec"]["storageClassName"] == storage.name("later")).then_some(())
    })
    .await;
    storage.asked("c", "example.com/disks").await;
    storage.delete_class("later").await;
}

#[tokio::test]
async fn an_external_provisioner_makes_a_volume_and_deletes_it() {
    let (_cluster, _manager, storage) = start().await;
    storage.class("disks", json!({})).await;
    let class = json!({"spec": {"storageClassName": storage.name("disks")}});
    storage.claim("c", class.clone()).await;
    storage.asked("c", "example.com/disks").await;
    let message = "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually \
                   by the system administrator. If volume creation is delayed, please verify that the provisioner is \
                   running and correctly registered.";
    storage.event("c", "ExternalProvisioning", message).await;
    let claim = storage.get_claim("c").await;
    storage.provision(&claim, "made", "disks").await;
    assert_eq!(storage.claim_phase("c", "Bound").await["spec"]["volumeName"], storage.name("made"));
    storage.volume_phase("made", "Bound").await;
    storage.delete_claim("c").await;
    let volume = storage.volume_phase("made", "Released").await;
    assert_eq!(
        volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"],
        "the provisioner must know whose it was"
    );
    storage.delete_volume("made").await;

    let missing = json!({"spec": {"storageClassName": storage.name("none")}});
    storage.claim("m", missing).await;
    let message = format!("storageclass.storage.k8s.io \"{}\" not found", storage.name("none"));
    storage.event("m", "ProvisioningFailed", &message).await;
    storage.class("inside", json!({"provisioner": "kubernetes.io/no-provisioner"})).await;
    storage.claim("i", json!({"spec": {"storageClassName": storage.name("inside")}})).await;
    let message = "no volume plugin matched name: kubernetes.io/no-provisioner";
    storage.event("i", "ProvisioningFailed", message).await;
}

#[tokio::test]
async fn a_claim_waits_for_its_first_consumer() {
    let (_cluster, _manager, storage) = start().await;
    storage.class("wait", json!({"volumeBindingMode": "WaitForFirstConsumer"})).await;
    let class = json!({"spec": {"storageClassName": storage.name("wait")}});
    storage.volume("v", class.clone()).await;
    storage.volume_phase("v", "Available").await;
    for claim in ["c", "d"] {
        storage.claim(claim, class.clone()).await;
        let message = "waiting for first consumer to be created before binding";
        storage.event(claim, "WaitForFirstConsumer", message).await;
    }
    storage.pod("p", "c").await;
    storage.event("c", "WaitForPodScheduled", "waiting for pod p to be scheduled").await;
    assert_eq!(storage.get_claim("c").await["status"]["phase"], "Pending");

    // The scheduler found the volume for one claim, and a node without any for the other.
    let uid = storage.get_claim("c").await["metadata"]["uid"].clone();
    let mut reservation = storage.reserved_for("c");
    reservation["spec"]["claimRef"]["uid"] = uid;
    reservation["metadata"] = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
    storage.patch_volume("v", reservation).await;
    assert_eq!(storage.claim_phase("c", "Bound").await["spec"]["volumeName"], storage.name("v"));
    storage
        .patch_claim("d", json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}))
        .await;
    storage.asked("d", "example.com/disks").await;
    let claim = storage.get_claim("d").await;
    storage.provision(&claim, "made", "wait").await;
    storage.claim_phase("d", "Bound").await;
}

#[tokio::test]
async fn volumes_are_retained_or_refused_and_claims_are_lost() {
    let (_cluster, _manager, storage) = start().await;
    let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy, "nfs": {"server": "s", "path": "/"}}});
    for (claim, policy_of) in [("keep", "Retain"), ("drop", "Delete")] {
        let mut volume = policy(policy_of);
        volume["spec"]["claimRef"] = storage.reserved_for(claim)["spec"]["claimRef"].clone();
        storage.volume(claim, volume).await;
        storage.claim(claim, json!({})).await;
        storage.claim_phase(claim, "Bound").await;
        storage.delete_claim(claim).await;
    }
    storage.volume_phase("keep", "Released").await;
    storage.volume_phase("drop", "Failed").await;
    let message = format!(
        "error getting deleter volume plugin for volume \"{}\": no deletable volume plugin matched",
        storage.name("drop")
    );
    storage.volume_event("drop", "VolumeFailedDelete", &message).await;
    assert_eq!(storage.get_volume("drop").await["status"]["message"], message);
    if !Manager::is_upstream() {
        let reuse = json!({"metadata": {"annotations": {"steersman.io/reuse-when-released": "true"}}});
        storage.patch_volume("keep", reuse).await;
        let volume = storage.volume_phase("keep", "Available").await;
        let reference = &volume["spec"]["claimRef"];
        assert_eq!(
            (&reference["name"], &reference["uid"]),
            (&json!("keep"), &json!(null)),
            "it was reserved"
        );
    }

    storage.volume("lost", json!({})).await;
    storage.claim("lost", json!({"spec": {"volumeName": storage.name("lost")}})).await;
    storage.claim_phase("lost", "Bound").await;
    storage.delete_volume("lost").await;
    storage.claim_phase("lost", "Lost").await;
    let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    storage.event("lost", "ClaimLost", message).await;
}

/// Creates claims and as many volumes, of sizes that leave only one way to bind them all.
async fn many(storage: &Storage, count: usize) {
    for number in 0..count {
        let size = format!("{}Gi", number + 1);
        storage.volume(&format!("v{number}"), json!({"spec": {"capacity": {"storage": size}}})).await;
    }
    for number in (0..count).rev() {
        let size = format!("{}Gi", number + 1);
        let resources = json!({"requests": {"storage": size}});
        storage.claim(&format!("c{number}"), json!({"spec": {"resources": resources}})).await;
    }
}

/// Waits until all claims are bound, each to a volume of its own that names it.
async fn all_bound(storage: &Storage, count: usize) {
    let mut taken = BTreeSet::new();
    for number in 0..count {
        let claim = storage.claim_phase(&format!("c{number}"), "Bound").await;
        let name = named(&claim["spec"]["volumeName"]);
        assert!(taken.insert(name.clone()), "two claims have {name}");
        let volume = storage.volume_of(&name).await;
        assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"], "{volume}");
    }
}

async fn bound(storage: &Storage, count: usize) -> usize {
    let mut bound = 0;
    for number in 0..count {
        let claim = storage.get_claim(&format!("c{number}")).await;
        bound += usize::from(claim["status"]["phase"] == "Bound");
    }
    bound
}

#[tokio::test]
async fn all_claims_are_bound_though_the_manager_is_killed_again_and_again() {
    let cluster = Cluster::start_alone().await;
    let storage = Storage::new(&cluster);
    many(&storage, 16).await;
    for round in 0..6_u64 {
        let mut manager = Manager::start(&cluster.kubeconfig(), SLOW);
        let before = bound(&storage, 16).await;
        eventually("some more claims are bound", || async {
            let now = bound(&storage, 16).await;
            (now > before || now == 16).then_some(())
        })
        .await;
        // A little chance decides between which of the four writes the manager ends.
        tokio::time::sleep(Duration::from_millis(17 * round)).await;
        manager.kill();
    }
    let _manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    all_bound(&storage, 16).await;
}

#[tokio::test]
async fn the_second_of_two_managers_goes_on_where_the_first_ended() {
    let cluster = Cluster::start_alone().await;
    let storage = Storage::new(&cluster);
    let mut candidates = Candidates::start(&cluster, SLOW).await;
    many(&storage, 12).await;
    eventually("some claims are bound", || async { (bound(&storage, 12).await > 2).then_some(()) }).await;
    candidates.kill_leader();
    eventually("the other one leads", || async { candidates.has_changed().await.then_some(()) }).await;
    all_bound(&storage, 12).await;
}

#[tokio::test]
async fn all_claims_are_bound_though_writes_fail_and_answers_are_lost() {
    let cluster = Cluster::start_embedded().await;
    let storage = Storage::new(&cluster);
    many(&storage, 8).await;
    let faults = cluster.embedded().faults();
    for resource in ["persistentvolumes", "persistentvolumeclaims"] {
        for failure in
            [Failure::InternalError, Failure::Reset, Failure::ResetAfterwards, Failure::TimeoutAfterwards]
        {
            faults.fail(3, Calls::to(resource).verb(Verb::Patch), failure);
        }
    }
    let _manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    all_bound(&storage, 8).await;
}

#[tokio::test]
async fn settled_claims_and_volumes_are_not_written_again() {
    let (_cluster, _manager, storage) = start().await;
    many(&storage, 3).await;
    all_bound(&storage, 3).await;
    let before = storage.versions(3).await;
    storage.volume("last", json!({"spec": {"capacity": {"storage": "50Gi"}}})).await;
    storage.claim("last", json!({"spec": {"resources": {"requests": {"storage": "50Gi"}}}})).await;
    storage.claim_phase("last", "Bound").await;
    assert_eq!(storage.versions(3).await, before);
}

#[tokio::test]
async fn kube_controller_manager_goes_on_with_a_binding_and_steersman_with_its() {
    let assets = support::real::assets().filter(|assets| assets.join("kube-controller-manager").exists());
    let Some(assets) = assets else {
        println!("no kube-controller-manager is at hand: not run");
        return;
    };
    let cluster = Cluster::start_alone().await;
    let storage = Storage::new(&cluster);
    let kubeconfig = cluster.kubeconfig();
    many(&storage, 20).await;
    for round in 0..4 {
        let mut manager = if round % 2 == 0 {
            Manager::start(&kubeconfig, SLOW)
        } else {
            Manager::start_upstream(&assets, &kubeconfig, SLOW)
        };
        let before = bound(&storage, 20).await;
        eventually("some more claims are bound", || async {
            let now = bound(&storage, 20).await;
            (now > before || now == 20).then_some(())
        })
        .await;
        manager.kill();
    }
    let mut upstream = Manager::start_upstream(&assets, &kubeconfig, FLAGS);
    all_bound(&storage, 20).await;
    upstream.kill();
    let before = storage.versions(20).await;
    let _manager = Manager::start(&kubeconfig, FLAGS);
    storage.volume("last", json!({"spec": {"capacity": {"storage": "50Gi"}}})).await;
    storage.claim("last", json!({"spec": {"resources": {"requests": {"storage": "50Gi"}}}})).await;
    storage.claim_phase("last", "Bound").await;
    assert_eq!(storage.versions(20).await, before, "nothing is left to do in what upstream bound");
}
