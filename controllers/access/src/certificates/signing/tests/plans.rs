//! Tables of the plan: the situations of upstream's `TestHandle`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_api::Time;
use steersman_controller::plan::{Batch, Plan};

use super::super::super::live::Live;
use super::super::super::rules::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN};
use super::super::super::testing::{Csr, csr};
use super::super::plan::{Observed, Step, plan};

const NOW: i64 = 1_000_000_000;

/// The only step of a plan, if there is one, with authorities for all built-in signers.
fn step(observed: &Observed) -> Option<Step> {
    let known = [CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN];
    match plan(observed, Time::from_seconds(NOW), |signer| known.contains(&signer)) {
        Plan::Act(Batch { mut steps, .. }) => {
            assert_eq!(steps.len(), 1);
            steps.pop()
        }
        Plan::Done { .. } => None,
    }
}

fn observed(request: &str, signer: &str, usages: &[&str], conditions: Value) -> Observed {
    let object = json!({
        "metadata": {"name": "r", "resourceVersion": "7"},
        "spec": {"request": STANDARD.encode(request), "signerName": signer, "usages": usages},
        "status": {"conditions": conditions},
    });
    Observed::Fresh(Box::new(Live::of(object).unwrap()))
}

fn approved() -> Value {
    json!([{"type": "Approved", "status": "True"}])
}

#[test]
fn approved_requests_are_signed_or_refused() {
    let node = || csr("system:node:n1").organization("system:nodes");
    let other = || csr("hello-world").organization("some-org");
    let serving = ["server auth", "digital signature", "key encipherment"];
    let client = ["client auth", "digital signature", "key encipherment"];
    let no_rsa = ["client auth", "digital signature"];
    type Row<'a> = (&'a str, Csr, &'a str, &'a [&'a str], Option<&'a str>);
    let rows: [Row<'_>; 9] = [
        ("a client", other(), CLIENT, &client, None),
        ("a client without RSA", other(), CLIENT, &no_rsa, None),
        (
            "a client that is a server, too",
            other(),
            CLIENT,
            &["server auth", "client auth"],
            Some("invalid usage for client certificate: server auth"),
        ),
        ("a kubelet", node(), KUBELET_CLIENT, &client, None),
        ("a kubelet without RSA", node(), KUBELET_CLIENT, &no_rsa, None),
        ("no kubelet", other(), KUBELET_CLIENT, &client, Some("subject organization is not system:nodes")),
        ("anything", other().dns("x"), LEGACY_UNKNOWN, &[], None),
        ("a kubelet's server", node().dns("n1"), KUBELET_SERVING, &serving, None),
        (
            "a nameless server",
            node(),
            KUBELET_SERVING,
            &serving,
            Some("DNS or IP subjectAltName is required"),
        ),
    ];
    for (name, request, signer, usages, refusal) in rows {
        let observed = observed(&request.pem(), signer, usages, approved());
        match (step(&observed), refusal) {
            (Some(Step::Sign(_)), None) => {}
            (Some(Step::Refuse(condition)), Some(message)) => {
                let Observed::Fresh(live) = &observed else { unreachable!() };
                let refused = live.with_condition(&condition);
                let expected = json!([
                    {"type": "Approved", "status": "True"},
                    {
                        "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                        "message": message, "lastUpdateTime": Time::from_seconds(NOW),
                    },
                ]);
                assert_eq!(refused["status"]["conditions"], expected, "{name}");
                assert_eq!(refused["metadata"]["resourceVersion"], "7");
            }
            (step, _) => panic!("{name}: {step:?}"),
        }
    }
}

#[test]
fn requests_that_must_not_be_signed_are_left_alone() {
    let pem = csr("x").pem();
    let row = |kind: &str, status: &str| json!({"type": kind, "status": status});
    for (name, signer, conditions) in [
        ("undecided", LEGACY_UNKNOWN, json!([])),
        ("without conditions", LEGACY_UNKNOWN, json!(null)),
        ("denied", LEGACY_UNKNOWN, json!([row("Denied", "True")])),
        ("approved and denied", LEGACY_UNKNOWN, json!([row("Approved", "True"), row("Denied", "True")])),
        ("failed", LEGACY_UNKNOWN, json!([row("Approved", "True"), row("Failed", "True")])),
        ("failed long ago", LEGACY_UNKNOWN, json!([row("Approved", "True"), row("Failed", "")])),
        ("of an unknown signer", "kubernetes.io/not-recognised", approved()),
        ("of somebody else's signer", "example.com/sample-name", approved()),
    ] {
        assert_eq!(step(&observed(&pem, signer, &["any"], conditions)), None, "{name}");
    }
    let not_failed = json!([row("Approved", "True"), row("Failed", "False")]);
    assert!(matches!(step(&observed(&pem, LEGACY_UNKNOWN, &[], not_failed)), Some(Step::Sign(_))));
    let object = json!({
        "spec": {"request": "", "signerName": LEGACY_UNKNOWN},
        "status": {"conditions": approved(), "certificate": "eA=="},
    });
    assert_eq!(step(&Observed::Fresh(Box::new(Live::of(object).unwrap()))), None);
    assert_eq!(step(&Observed::Settled), None);
}

#[test]
fn the_controller_reads_a_request_before_it_decides() {
    assert_eq!(step(&Observed::Cached), Some(Step::Read));
}

#[test]
fn a_request_that_is_none_is_an_error() {
    for request in ["", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
    {
        let step = step(&observed(request, LEGACY_UNKNOWN, &[], approved()));
        assert!(matches!(step, Some(Step::Fail(_))), "{step:?}");
    }
}

#[test]
fn a_certificate_is_added_to_what_is_there() {
    let object = json!({
        "metadata": {"name": "r"}, "spec": {"request": "", "signerName": "s", "new": 1},
        "status": {"conditions": approved(), "new": 2},
    });
    let signed = Live::of(object.clone()).unwrap().with_certificate("eA==");
    let mut expected = object;
    expected["status"]["certificate"] = json!("eA==");
    assert_eq!(signed, expected);
}
