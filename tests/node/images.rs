//! Images that can't be had.

use serde_json::json;

use crate::pods::{Pods, waiting};

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
