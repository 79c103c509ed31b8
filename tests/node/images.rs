//! Images that are pulled, and those that can't be had.

use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use steersman_node::cri::v1;
use steersman_node::runtime::ImageService as _;

use crate::pods::{Pods, container, phase_of, shell, waiting};
use support::eventually;

async fn refused(pods: &Pods, image: &str, policy: &str, reasons: &[&str]) -> String {
    pods.run("none", json!({ "containers": [{ "image": image, "imagePullPolicy": policy }] })).await;
    pods.wait("none", &format!("it waits for {}", reasons.join(" or ")), |pod| {
        waiting(pod, "main").filter(|(reason, _)| reasons.contains(&&**reason)).map(|(_, message)| message)
    })
    .await
}

pub async fn an_image_that_may_not_be_pulled_must_be_there(pods: Pods) {
    let message = refused(&pods, "localhost/none:1", "Never", &["ErrImageNeverPull"]).await;
    assert_eq!(message, "Container image \"localhost/none:1\" is not present with pull policy of Never");
}

pub async fn a_name_that_is_none_is_said_to_be_invalid(pods: Pods) {
    let message = refused(&pods, "Not A Name", "IfNotPresent", &["InvalidImageName"]).await;
    assert!(message.starts_with("Failed to apply default image tag \"Not A Name\""), "{message}");
}

pub async fn a_registry_out_of_reach_is_an_error_that_says_so(pods: Pods) {
    // Nobody listens on the first port of the loopback.
    let image = "127.0.0.1:1/none:1";
    let message = refused(&pods, image, "IfNotPresent", &["ErrImagePull", "ImagePullBackOff"]).await;
    assert!(message.contains("127.0.0.1:1/none"), "{message}");
    let event = pods.event("none", "Failed").await;
    assert!(event.contains("Failed to pull image") || event.contains("ErrImagePull"), "{event}");
    pods.wait("none", "it backs off", |pod| {
        waiting(pod, "main").filter(|(reason, _)| reason == "ImagePullBackOff")
    })
    .await;
}

/// Takes an image away that a test had pulled.
async fn remove(pods: &Pods, image: &str) {
    let spec = v1::ImageSpec { image: image.to_owned(), ..v1::ImageSpec::default() };
    pods.world.runtime.remove_image(&spec).await.expect("an image must be removed");
}

pub async fn an_image_is_pulled_and_runs(pods: Pods) {
    let image = pods.world.web.push("public/tool");
    let main = json!({ "image": image, "imagePullPolicy": "Always", "command": shell("echo pulled") });
    pods.run("pulls", json!({ "containers": [main] })).await;
    let ended = pods.phase("pulls", &["Succeeded", "Failed"]).await;
    assert_eq!((phase_of(&ended), pods.log("pulls").await.as_str()), ("Succeeded", "pulled\n"));
    let id = container(&ended, "main").unwrap().image_id;
    assert!(id.starts_with(&image.replace(":1", "@sha256:")), "{id}");
    assert_eq!(pods.event("pulls", "Pulling").await, format!("Pulling image \"{image}\""));
    let pulled = pods.event("pulls", "Pulled").await;
    assert!(pulled.starts_with(&format!("Successfully pulled image \"{image}\" in ")), "{pulled}");
    let before = pods.world.web.pulls("public/tool");
    let main = json!({ "image": image, "imagePullPolicy": "IfNotPresent", "command": shell("true") });
    pods.run("has", json!({ "containers": [main] })).await;
    pods.phase("has", &["Succeeded"]).await;
    let there = pods.event("has", "Pulled").await;
    assert!(there.starts_with(&format!("Container image \"{image}\" already present on machine")), "{there}");
    assert_eq!(pods.world.web.pulls("public/tool"), before);
    remove(&pods, &image).await;
}

pub async fn a_private_image_is_for_those_who_have_its_secret(pods: Pods) {
    let image = pods.world.web.push("private/tool");
    let main = json!({ "image": image, "imagePullPolicy": "IfNotPresent", "command": shell("echo mine") });
    pods.run("stranger", json!({ "containers": [main] })).await;
    let reasons = ["ErrImagePull", "ImagePullBackOff"];
    pods.wait("stranger", "it may not pull", |pod| {
        waiting(pod, "main").filter(|(reason, _)| reasons.contains(&&**reason))
    })
    .await;
    let failed = pods.event("stranger", "Failed").await;
    assert!(failed.contains(&image) || failed.contains("ErrImagePull"), "{failed}");
    let login = pods.world.web.login();
    let secret = json!({
        "metadata": { "name": "login" }, "type": "kubernetes.io/dockerconfigjson", "stringData": login,
    });
    pods.make::<Secret>(secret).await;
    let with_secret = json!({ "containers": [main], "imagePullSecrets": [{ "name": "login" }] });
    pods.run("knows", with_secret).await;
    pods.phase("knows", &["Succeeded"]).await;
    assert_eq!(pods.log("knows").await, "mine\n");
    // What one pod pulled with its secret another without gets no sooner.
    pods.run("late", json!({ "containers": [main] })).await;
    pods.wait("late", "it may not pull either", |pod| {
        waiting(pod, "main").filter(|(reason, _)| reasons.contains(&&**reason))
    })
    .await;
    remove(&pods, &image).await;
}

pub async fn an_image_that_is_not_there_is_one_event_and_no_error_a_sync(pods: Pods) {
    let image = pods.world.web.image("public/none");
    let main = json!({ "image": image, "imagePullPolicy": "IfNotPresent" });
    pods.run("hopes", json!({ "containers": [main] })).await;
    pods.wait("hopes", "it backs off", |pod| {
        waiting(pod, "main").filter(|(reason, _)| reason == "ImagePullBackOff")
    })
    .await;
    let failed = pods.event("hopes", "Failed").await;
    assert!(failed.starts_with(&format!("Failed to pull image \"{image}\": ")), "{failed}");
    // Each change of the pod is a sync.
    let told = format!("Back-off pulling image \"{image}\"");
    let backed_off = async || {
        let all = pods.api::<Event>().list(&ListParams::default()).await.unwrap().items.into_iter();
        all.filter(|event| event.message.as_ref() == Some(&told)).collect::<Vec<_>>()
    };
    for sync in 1..=5 {
        let note = json!({ "metadata": { "annotations": { "sync": sync.to_string() } } });
        pods.api::<Pod>().patch("hopes", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
        eventually(&format!("back-off {sync} is told"), || async {
            let found = backed_off().await;
            let times: i32 = found.iter().filter_map(|event| event.count).sum();
            (times >= sync).then_some(())
        })
        .await;
    }
    let found = backed_off().await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].reason.as_deref(), Some("BackOff"));
    let (pulls, errors) = (pods.world.web.pulls("public/none"), pods.world.agent.errors_of(&image));
    assert!(errors.len() <= pulls, "{pulls} pulls, and more errors: {errors:#?}");
}
