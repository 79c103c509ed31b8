//! What the server tells of itself.

use crate::kubectl::Kubectl;

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_versions_are_told() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let resources = kubectl.table("api-resources");
    assert!(resources.iter().any(|row| row == &["jobs", "batch/v1", "true", "Job"]));
    assert!(resources.iter().any(|row| row == &["pods", "po", "v1", "true", "Pod"]));
    let versions = kubectl.good("api-versions");
    for version in ["v1", "apps/v1", "autoscaling/v1", "autoscaling/v2"] {
        assert!(versions.lines().any(|line| line == version), "{versions}");
    }
    assert!(kubectl.good("version").contains("Server Version: v1.36"));
    assert!(kubectl.good("cluster-info").contains(&kubectl.server.url()));
    assert_eq!(kubectl.good("get --raw /readyz"), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_explained() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let ports = kubectl.good("explain pod.spec.containers.ports");
    assert!(ports.contains("FIELD: ports <[]ContainerPort>"), "{ports}");
    assert!(ports.contains("containerPort\t<integer> -required-"), "{ports}");
    assert!(ports.contains("enum: SCTP, TCP, UDP"), "{ports}");
    let job = kubectl.good("explain job --recursive");
    assert!(job.contains("GROUP:      batch") && job.contains("ttlSecondsAfterFinished\t<integer>"), "{job}");
    assert!(kubectl.bad("explain pod.spec.nope").contains("field \"nope\" does not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_told_and_what_is_not_there_is_refused_clearly() {
    let Some(kubectl) = Kubectl::start().await else { return };
    assert_eq!(kubectl.good("auth can-i create pods"), "yes");
    assert!(kubectl.good("auth whoami").contains("Username"));
    assert_eq!(kubectl.bad("top pods"), "error: Metrics API not available");
    let components = kubectl.bad("get componentstatuses");
    assert!(components.contains("this server does not implement list of componentstatuses"), "{components}");
    assert_eq!(kubectl.bad("get nope"), "error: the server doesn't have a resource type \"nope\"");
}
