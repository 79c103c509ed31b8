//! Pods of manifests.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use crate::pods::{Pods, condition, container, staying};
use support::eventually;

pub async fn a_manifest_runs_and_is_mirrored_until_it_goes(pods: Pods) {
    let mut spec = pods.spec(json!({ "containers": [staying()], "restartPolicy": "Always" }));
    spec.as_object_mut().unwrap().remove("nodeName");
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "fixed", "namespace": pods.namespace }, "spec": spec,
    });
    let folder = pods.world.agent.manifests();
    // A neighbour that can't be read does not matter.
    std::fs::write(folder.join("bad.json"), "{ this is no manifest").unwrap();
    std::fs::write(folder.join("fixed.json"), manifest.to_string()).unwrap();
    let name = format!("fixed-{}", pods.world.agent.node);
    let mirrored = async || {
        eventually("the mirror is ready", || async {
            pods.get(&name).await.filter(|pod| condition(pod, "Ready", "True"))
        })
        .await
    };
    let first = mirrored().await;
    let annotations = first.metadata.annotations.as_ref().unwrap();
    assert!(annotations.contains_key("kubernetes.io/config.mirror"), "{annotations:?}");

    // Who deletes the mirror deletes no container.
    let now = DeleteParams::default().grace_period(0);
    pods.api::<Pod>().delete(&name, &now).await.expect("a mirror may be deleted");
    let again = eventually("the mirror is back", || async {
        pods.get(&name).await.filter(|pod| pod.metadata.uid != first.metadata.uid)
    });
    again.await;
    let again = mirrored().await;
    let id = |pod| container(pod, "main").unwrap().container_id;
    assert_eq!(id(&again), id(&first));

    std::fs::remove_file(folder.join("bad.json")).unwrap();
    std::fs::remove_file(folder.join("fixed.json")).unwrap();
    pods.gone(&name).await;
}

pub async fn a_manifest_of_a_url_runs_and_is_mirrored_until_it_goes(pods: Pods) {
    let mut spec = pods.spec(json!({ "containers": [staying()], "restartPolicy": "Always" }));
    spec.as_object_mut().unwrap().remove("nodeName");
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "told", "namespace": pods.namespace }, "spec": spec,
    });
    let web = &pods.world.web;
    web.set_manifest(&[manifest]);
    let name = format!("told-{}", pods.world.agent.node);
    let mirror = eventually("the mirror is ready", || async {
        pods.get(&name).await.filter(|pod| condition(pod, "Ready", "True"))
    })
    .await;
    let annotations = mirror.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations.get("kubernetes.io/config.source").map(String::as_str), Some("http"));
    web.set_manifest(&[]);
    pods.gone(&name).await;
}
