//! Objects are made, shown, changed and deleted.

use serde_json::json;

use crate::kubectl::{Kubectl, rows};

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_shown_in_every_form() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.good("create deployment web --image=nginx --replicas=2 --port=80");
    kubectl.good("run one --image=busybox --labels=app=web");
    kubectl.good("run two --image=busybox");
    assert_eq!(
        kubectl.table("get pods"),
        rows(["NAME READY STATUS RESTARTS AGE", "one 0/1 Pending 0 AGE", "two 0/1 Pending 0 AGE"])
    );
    assert_eq!(
        kubectl.table("get pods -l app=web -o wide"),
        rows([
            "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
            "one 0/1 Pending 0 AGE <none> <none> <none> <none>",
        ])
    );
    assert_eq!(
        kubectl.table("get deploy,pods --no-headers"),
        rows(["deployment.apps/web 0/2 0 0 AGE", "pod/one 0/1 Pending 0 AGE", "pod/two 0/1 Pending 0 AGE"])
    );
    assert_eq!(kubectl.good("get pods -o name"), "pod/one\npod/two");
    assert_eq!(kubectl.good("get pod one -o jsonpath={.spec.containers[0].image}"), "busybox");
    assert_eq!(
        kubectl.table("get deploy -A -o custom-columns=N:.metadata.name,I:..image"),
        rows(["N I", "web nginx"])
    );
    assert!(kubectl.good("get deploy web -o yaml").contains("\n  replicas: 2\n"));
    let json: serde_json::Value = serde_json::from_str(&kubectl.good("get pods -o json")).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        kubectl.table("get pods --sort-by=.metadata.name --show-labels --chunk-size=1")[1..],
        rows(["one 0/1 Pending 0 AGE app=web", "two 0/1 Pending 0 AGE run=two"])
    );
    assert_eq!(kubectl.table("get ns kube-public"), rows(["NAME STATUS AGE", "kube-public Active AGE"]));
    assert_eq!(
        kubectl.table("get deploy web --subresource=scale"),
        rows(["NAME DESIRED AVAILABLE AGE", "web 2 0 AGE"])
    );
    assert_eq!(kubectl.bad("get pod three"), "Error from server (NotFound): pods \"three\" not found");
    assert_eq!(
        kubectl.run("get pods -n kube-system").err.trim_end(),
        "No resources found in kube-system namespace."
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_changed_and_deleted() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.good("create deployment web --image=nginx:before");
    let web = |path: &str| kubectl.good(&format!("get deploy web -o jsonpath={path}"));
    kubectl.good("label deploy web tier=front");
    kubectl.good("annotate deploy web note=it");
    assert_eq!(web("{.metadata.labels.tier}{.metadata.annotations.note}"), "frontit");
    assert_eq!(kubectl.good("scale deploy web --replicas=3"), "deployment.apps/web scaled");
    assert_eq!(web("{.spec.replicas}"), "3");
    assert!(
        kubectl
            .bad("scale deploy web --current-replicas=5 --replicas=1")
            .contains("Expected replicas to be 5")
    );
    kubectl.good("edit deploy web");
    assert_eq!(web("{.spec.template.spec.containers[0].image}"), "nginx:after");
    kubectl.good("set image deploy/web nginx=nginx:2");
    assert_eq!(web("{.spec.template.spec.containers[*].image}"), "nginx:2");
    kubectl.good("set env deploy/web A=b");
    assert_eq!(web("{.spec.template.spec.containers[0].env[0].value}"), "b");
    kubectl.good(r#"patch deploy web -p {"spec":{"minReadySeconds":7}}"#);
    kubectl.good(r#"patch deploy web --type=json -p [{"op":"remove","path":"/metadata/labels/tier"}]"#);
    assert_eq!(web("{.spec.minReadySeconds}{.metadata.labels.tier}"), "7");
    kubectl.good("expose deploy web --port=80 --target-port=8080");
    assert_eq!(
        kubectl.table("get svc web -o wide"),
        rows([
            "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR",
            "web ClusterIP 10.0.0.2 <none> 80/TCP AGE app=web"
        ])
    );
    kubectl.good("autoscale deploy web --min=1 --max=3");
    assert_eq!(kubectl.table("get hpa.v1.autoscaling")[1][..2], ["web", "Deployment/web"]);
    assert!(kubectl.good("delete deploy web").starts_with("deployment.apps \"web\" deleted"));
    kubectl.good("delete svc,hpa --all");
    assert_eq!(kubectl.run("get all").err.trim_end(), "No resources found in default namespace.");
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_shown_with_their_columns_and_explained() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "description": "How big it is."}}});
    kubectl.create(&json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            }],
        },
    }));
    kubectl.good("wait crd/widgets.example.com --for=condition=Established --timeout=30s");
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 7},
    });
    for said in ["created", "unchanged"] {
        let applied = kubectl.run_with("apply -f -", &widget.to_string());
        assert_eq!(applied.out.trim_end(), format!("widget.example.com/w {said}"), "{applied:?}");
    }
    assert_eq!(kubectl.table("get wi"), rows(["NAME SIZE", "w 7"]));
    assert!(kubectl.good("explain wi.spec.size").contains("How big it is."));
}
