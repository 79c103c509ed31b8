//! Claims of devices while one manager hands over to another.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::slices::Start;
use support::Cluster;
use support::devices::{Devices, consumer, templated};

const FLAGS: &[&str] = &["--controllers=resourceclaim-controller"];

/// The version of each pod with one of these names, and of each claim that was generated for it. Others are left out: a
/// manager whose cache has not seen the end of a pod yet may generate a deleted claim of it a second time.
async fn versions(devices: &Devices, pods: &[&str]) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    let generated = |claim: &String| pods.iter().any(|pod| claim.starts_with(&format!("{pod}-")));
    for name in devices.names().await.into_iter().filter(generated) {
        let version = devices.get(&name).await["metadata"]["resourceVersion"].to_string();
        versions.insert(name, version);
    }
    for name in pods {
        let pod = devices.pods.get(name).await.expect("the pod must exist");
        versions.insert(format!("pod {name}"), pod.metadata.resource_version.unwrap_or_default());
    }
    versions
}

/// Waits until the running manager has made the claim of a new pod, and deletes both. By then it has looked at older pods.
async fn looked_at(devices: &Devices, marker: &str) {
    devices.pod(marker, "", &[templated("gpu", "t")]).await;
    let claim = devices.generated(marker, 1).await.remove(0).1;
    devices.remove_pod(marker).await;
    // No garbage collector runs. The manager deletes the claim only if it sees the pod between its mark and its end.
    match devices.claims.delete(&claim, &kube::api::DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        deleted => _ = deleted.expect("a claim must be deleted"),
    }
    devices.goes(&claim).await;
}

pub(super) async fn hand_over(cluster: &Cluster, first: Start<'_>, second: Start<'_>) {
    let kubeconfig = cluster.kubeconfig();
    let devices = Devices::of(&cluster.client(), &cluster.namespace);
    let mut manager = first(&kubeconfig, FLAGS);
    devices.template("t", json!({"labels": {"a": "b"}})).await;
    let claims = [templated("gpu", "t"), templated("nic", "t")];
    devices.pod("waits", "", &claims).await;
    devices.generated("waits", 2).await;
    let uid = devices.pod("runs", "n1", &claims).await;
    let generated = devices.generated("runs", 2).await;
    for (number, (_, claim)) in generated.iter().enumerate() {
        devices.allocate(claim, &format!("gpu-{number}"), Value::Null, &[]).await;
        devices
            .claim_is(claim, "is reserved", |claim| {
                claim["status"]["reservedFor"] == json!([consumer("runs", &uid)])
            })
            .await;
    }
    looked_at(&devices, "marker-1").await;
    let pods = ["waits", "runs"];
    let left = versions(&devices, &pods).await;
    manager.stop().await;

    // The second one finds nothing to do.
    manager = second(&kubeconfig, FLAGS);
    looked_at(&devices, "marker-2").await;
    assert_eq!(versions(&devices, &pods).await, left, "it changed what the first left");
    manager.stop().await;

    // A pod ends while no manager runs. The first one catches up.
    devices.set_phase("runs", "Succeeded").await;
    manager = first(&kubeconfig, FLAGS);
    for (_, claim) in &generated {
        devices.goes(claim).await;
    }
    looked_at(&devices, "marker-3").await;
    let left = versions(&devices, &pods[..1]).await;
    assert_eq!(left.len(), 3, "{left:?}");
    manager.stop().await;

    let _manager = second(&kubeconfig, FLAGS);
    looked_at(&devices, "marker-4").await;
    let after = versions(&devices, &pods[..1]).await;
    assert!(left.iter().all(|(name, version)| after.get(name) == Some(version)), "{left:?} {after:?}");
}
