//! The situations of upstream's `TestConfigMapCreation` and `TestConfigMapUpdateNoHotLoop`: by table, and with a server whose
//! time is paused.

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Verb};
use steersman_controller::plan::Plan;
use steersman_controller::testing::{Cluster, eventually, settle};
use steersman_kinds::config_map::PublishedCa;
use steersman_kinds::content_digest::ContentDigest;

use super::construct;
use super::plan::{Observed, Step, plan};

#[test]
fn a_map_is_restored_unless_it_has_the_authority_alone_and_a_description() {
    let digest = ContentDigest::of(b"CA");
    let found = |ca: Option<&str>, has_others, is_described| {
        let ca = ca.map(|ca| ContentDigest::of(ca.as_bytes()));
        Observed::Found { data: PublishedCa { ca, has_others }, is_described }
    };
    for (observed, expected) in [
        (Observed::Missing, Some(Step::Create)),
        (Observed::Settled, None),
        (found(Some("CA"), false, true), None),
        (found(Some("CA"), false, false), Some(Step::Restore)),
        (found(Some("CA"), true, true), Some(Step::Restore)),
        (found(Some("other"), false, true), Some(Step::Restore)),
        (found(None, false, true), Some(Step::Restore)),
        (found(None, true, true), Some(Step::Restore)),
    ] {
        let expected = expected.map_or(Plan::done(), Plan::step);
        assert_eq!(plan(observed, digest), expected, "{observed:?}");
    }
}

async fn becomes(cluster: &Cluster, key: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("{key} {what}"), || Some(cluster.peek("configmaps", key)).filter(&is_so)).await
}

fn is_right(map: &Value) -> bool {
    let description = &map["metadata"]["annotations"]["kubernetes.io/description"];
    map["data"] == json!({"ca.crt": "the API server's CA"})
        && description.as_str().is_some_and(|text| text.starts_with("Contains a CA bundle"))
}

#[tokio::test(start_paused = true)]
async fn each_namespace_gets_the_map_and_gets_it_again() {
    let cluster = Cluster::start().await;
    let running = cluster.run(construct);
    becomes(&cluster, "default/kube-root-ca.crt", "is made", is_right).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}});
    cluster.create(&namespace).await;
    becomes(&cluster, "late/kube-root-ca.crt", "is made", is_right).await;
    cluster.delete("ConfigMap", "late/kube-root-ca.crt").await;
    becomes(&cluster, "late/kube-root-ca.crt", "is made again", is_right).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_map_is_restored_and_keeps_what_is_not_the_controllers() {
    let cluster = Cluster::start().await;
    let running = cluster.run(construct);
    becomes(&cluster, "default/kube-root-ca.crt", "is made", is_right).await;
    for patch in [
        json!({"data": {"ca.crt": "other"}}),
        json!({"data": {"more": "x"}}),
        json!({"data": null}),
        json!({"metadata": {"annotations": {"kubernetes.io/description": null}}}),
    ] {
        let labelled = json!({"metadata": {"labels": {"mine": "kept"}, "annotations": {"mine": "kept"}}});
        cluster.patch("ConfigMap", "default/kube-root-ca.crt", labelled).await;
        cluster.patch("ConfigMap", "default/kube-root-ca.crt", patch).await;
        let map = becomes(&cluster, "default/kube-root-ca.crt", "is restored", is_right).await;
        let kept = [&map["metadata"]["labels"]["mine"], &map["metadata"]["annotations"]["mine"]];
        assert_eq!(kept, ["kept", "kept"]);
    }
    let described = json!({"metadata": {"annotations": {"kubernetes.io/description": "in other words"}}});
    let calls = cluster.server.record();
    cluster.patch("ConfigMap", "default/kube-root-ca.crt", described).await;
    settle().await;
    assert_eq!(calls.count(&Calls::to("configmaps").verb(Verb::Update)), 0, "any description will do");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_is_left_alone_and_syncs_are_counted() {
    let cluster = Cluster::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ending"}});
    cluster.create(&namespace).await;
    cluster.delete("Namespace", "ending").await;
    let running = cluster.run(construct);
    becomes(&cluster, "kube-system/kube-root-ca.crt", "is made", is_right).await;
    settle().await;
    assert!(cluster.peek("configmaps", "ending/kube-root-ca.crt").is_null());
    let text = prometheus::TextEncoder::new().encode_to_string(&running.metrics.gather()).unwrap();
    let help = "[ALPHA] Number of namespace syncs happened in root ca cert publisher.";
    let name = "root_ca_cert_publisher_sync_total";
    let head = format!("# HELP {name} {help}\n# TYPE {name} counter\n{name}{{code=\"200\"}} ");
    assert!(text.contains(&head), "{text}");
    assert!(!text.contains("code=\"403\""), "{text}");
    assert!(text.contains("root_ca_cert_publisher_sync_duration_seconds_bucket{code=\"200\",le=\"16.384\"}"));
    running.stop().await;
}
