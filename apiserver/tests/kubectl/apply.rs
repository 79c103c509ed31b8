//! Manifests are applied, compared and checked.

use crate::kubectl::Kubectl;

const MANIFEST: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "i:1", env: [{name: A, value: "1"}, {name: B, value: "2"}]}
      - {name: side, image: "s:1"}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: a, port: 80}], selector: {app: web}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn applying_again_changes_what_the_manifest_changed_and_nothing_else() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let apply = |manifest: &str| kubectl.run_with("apply -f -", manifest);
    let (deployment, service) = ("deployment.apps/web", "service/web");
    assert_eq!(apply(MANIFEST).out, format!("{deployment} created\n{service} created\n"));
    assert_eq!(apply(MANIFEST).out, format!("{deployment} unchanged\n{service} unchanged\n"));
    // What somebody else did stays; what the manifest no longer names goes.
    kubectl.good("set env deploy/web -c c C=3");
    kubectl.good("scale deploy web --replicas=4");
    let changed = MANIFEST
        .replace("  replicas: 1\n", "")
        .replace("i:1", "i:2")
        .replace(r#"{name: A, value: "1"}, "#, "")
        .replace("port: 80", "port: 81");
    let difference = kubectl.run_with("diff -f -", &changed);
    assert!(!difference.good && difference.out.contains("+        image: i:2"), "{difference:?}");
    assert_eq!(apply(&changed).out, format!("{deployment} configured\n{service} configured\n"));
    let web = |path: &str| kubectl.good(&format!("get deploy web -o jsonpath={path}"));
    assert_eq!(web("{.spec.template.spec.containers[*].image}"), "i:2 s:1");
    assert_eq!(web("{.spec.template.spec.containers[0].env[*].name}"), "B C");
    assert_eq!(kubectl.good("get svc web -o jsonpath={.spec.ports[*].port}"), "81");
    let same = kubectl.run_with("diff -f -", &changed);
    assert!(same.good, "{same:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_manifest_is_refused_and_a_dry_run_writes_nothing() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let wrong = MANIFEST.replace("replicas: 1", "replica: 1");
    for command in ["apply -f -", "create -f -", "apply --dry-run=server -f -"] {
        let said = kubectl.run_with(command, &wrong);
        assert!(!said.good && said.err.contains("unknown field \"spec.replica\""), "{command}: {said:?}");
        kubectl.run("delete svc web --ignore-not-found");
    }
    let said = kubectl.run_with("create --validate=false -f -", &wrong);
    assert!(said.good, "{said:?}");
    kubectl.good("delete deploy,svc web");
    let invalid = MANIFEST.replace("matchLabels: {app: web}", "matchLabels: {app: other}");
    let said = kubectl.run_with("create -f -", &invalid);
    assert!(said.err.contains("`selector` does not match template `labels`"), "{said:?}");
    kubectl.good("delete svc web");
    for command in ["create --dry-run=server -f -", "apply --dry-run=server -f -"] {
        let said = kubectl.run_with(command, MANIFEST);
        assert!(said.good && said.out.contains("deployment.apps/web created (server dry run)"), "{said:?}");
    }
    assert_eq!(kubectl.run("get all").err.trim_end(), "No resources found in default namespace.");
}
