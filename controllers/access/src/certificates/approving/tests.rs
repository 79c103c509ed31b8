//! Tables of the plan.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_controller::plan::{Batch, Plan};

use super::super::live::Live;
use super::super::rules::{CLIENT, KUBELET_CLIENT};
use super::super::testing::{Csr, csr};
use super::controller::review_of;
use super::plan::{Observed, Permission, Step, plan};

fn node() -> Csr {
    csr("system:node:n1").organization("system:nodes")
}

fn object(request: &str, by: &str, signer: &str, usages: &Value) -> Value {
    json!({
        "metadata": {"name": "r", "resourceVersion": "7"},
        "spec": {
            "request": STANDARD.encode(request), "signerName": signer, "usages": usages,
            "username": by, "groups": ["g"], "uid": "u", "extra": {"k": ["v"]},
        },
    })
}

fn live(request: &Csr, by: &str, signer: &str, usages: &Value) -> Box<Live> {
    Box::new(Live::of(object(&request.pem(), by, signer, usages)).unwrap())
}

fn of_node(by: &str) -> Box<Live> {
    live(&node(), by, KUBELET_CLIENT, &json!(["digital signature", "client auth"]))
}

fn step(observed: &Observed) -> Option<Step> {
    match plan(observed) {
        Plan::Act(Batch { mut steps, .. }) => {
            assert_eq!(steps.len(), 1);
            steps.pop()
        }
        Plan::Done { .. } => None,
    }
}

#[test]
fn a_request_is_recognised_by_its_signer_subject_and_usages() {
    let usages = json!(["digital signature", "key encipherment", "client auth"]);
    let without_rsa = json!(["client auth", "digital signature"]);
    let own = Some(Permission::SelfNodeClient);
    let any = Some(Permission::NodeClient);
    for (name, request, by, signer, usages, expected) in [
        ("its own", node(), "system:node:n1", KUBELET_CLIENT, &usages, own),
        ("its own, without RSA", node(), "system:node:n1", KUBELET_CLIENT, &without_rsa, own),
        ("another's", node(), "system:bootstrap:abcdef", KUBELET_CLIENT, &usages, any),
        ("of another signer", node(), "system:node:n1", CLIENT, &usages, None),
        ("for another organization", csr("system:node:n1"), "system:node:n1", KUBELET_CLIENT, &usages, None),
        ("for no node", csr("n1").organization("system:nodes"), "n1", KUBELET_CLIENT, &usages, None),
        ("with a name", node().dns("n1"), "system:node:n1", KUBELET_CLIENT, &usages, None),
        ("with an address", node().ip("192.0.2.1"), "system:node:n1", KUBELET_CLIENT, &usages, None),
        ("with an email address", node().email("a@b"), "system:node:n1", KUBELET_CLIENT, &usages, None),
        ("with a URI", node().uri("http://n1"), "system:node:n1", KUBELET_CLIENT, &usages, None),
        (
            "for a server",
            node(),
            "system:node:n1",
            KUBELET_CLIENT,
            &json!(["digital signature", "server auth"]),
            None,
        ),
        ("for everything", node(), "system:node:n1", KUBELET_CLIENT, &json!(["any"]), None),
    ] {
        let observed = Observed::Fresh(live(&request, by, signer, usages), Vec::new());
        assert_eq!(step(&observed), expected.map(Step::Review), "{name}");
    }
}

#[test]
fn the_requestor_may_have_either_permission() {
    assert_eq!(step(&Observed::Cached), Some(Step::Read));
    let own = of_node("system:node:n1");
    let refused = vec![Permission::SelfNodeClient];
    let next = step(&Observed::Fresh(own.clone(), refused));
    assert_eq!(next, Some(Step::Review(Permission::NodeClient)));
    let refused = vec![Permission::SelfNodeClient, Permission::NodeClient];
    assert_eq!(step(&Observed::Fresh(own.clone(), refused.clone())), Some(Step::Refuse(refused)));
    for (permission, message) in [
        (
            Permission::SelfNodeClient,
            "Auto approving self kubelet client certificate after SubjectAccessReview.",
        ),
        (Permission::NodeClient, "Auto approving kubelet client certificate after SubjectAccessReview."),
    ] {
        let Some(Step::Approve(condition)) = step(&Observed::Allowed(own.clone(), permission)) else {
            panic!()
        };
        let approved = own.with_condition(&condition);
        let expected =
            json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message});
        assert_eq!(approved["status"]["conditions"], json!([expected]));
        assert_eq!(approved["metadata"]["resourceVersion"], "7");
    }
}

#[test]
fn the_review_tells_all_that_is_known_of_the_requestor() {
    let review = review_of(&of_node("bob"), Permission::NodeClient);
    assert_eq!(
        review.object(),
        &json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": "bob", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]},
                "resourceAttributes": {
                    "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
                    "subresource": "nodeclient", "version": "*",
                },
            },
        })
    );
}

#[test]
fn requests_that_are_decided_or_signed_are_left_alone() {
    for (name, status) in [
        ("approved", json!({"conditions": [{"type": "Approved", "status": "True"}]})),
        ("denied", json!({"conditions": [{"type": "Denied", "status": "True"}]})),
        ("signed", json!({"certificate": "eA=="})),
    ] {
        let mut object =
            object(&node().pem(), "b", KUBELET_CLIENT, &json!(["digital signature", "client auth"]));
        object["status"] = status;
        let live = Box::new(Live::of(object).unwrap());
        assert_eq!(step(&Observed::Fresh(live, Vec::new())), None, "{name}");
    }
    assert_eq!(step(&Observed::Settled), None);
}

#[test]
fn a_request_that_is_none_is_an_error() {
    for request in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let object = object(request, "b", KUBELET_CLIENT, &json!([]));
        let live = Box::new(Live::of(object).unwrap());
        assert!(matches!(step(&Observed::Fresh(live, Vec::new())), Some(Step::Fail(_))), "{request}");
    }
}
