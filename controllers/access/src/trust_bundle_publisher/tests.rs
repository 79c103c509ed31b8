//! Names and plans, in the situations of upstream's `TestCTBPublisherSync`.

use steersman_controller::plan::{Batch, Plan};

use super::plan::{Current, Observed, Step, bundle_name, plan};

#[test]
fn a_bundle_is_named_after_its_signer_and_its_certificates() {
    // The digest is that of sha256sum.
    assert_eq!(bundle_name("abc"), "kubernetes.io:kube-apiserver-serving:ba7816bf8f01cfea414140de");
}

#[test]
fn the_bundle_is_published_before_the_others_go() {
    let other = |name: &str| (name.into(), name.into());
    let observed = |current, others: &[&str]| Observed {
        current,
        others: others.iter().map(|name| other(name)).collect(),
    };
    for (what, observed, expected) in [
        ("no bundles", observed(Current::Missing, &[]), Some(vec![Step::Create])),
        ("only others", observed(Current::Missing, &["old"]), Some(vec![Step::Create])),
        ("wrong certificates", observed(Current::Wrong, &["old"]), Some(vec![Step::Restore])),
        ("as it should be", observed(Current::Right, &[]), None),
        (
            "others beside it",
            observed(Current::Right, &["a", "b"]),
            Some(["a", "b"].map(|name| Step::Delete(name.into(), name.into())).to_vec()),
        ),
    ] {
        let steps = match plan(&observed) {
            Plan::Act(Batch { steps, .. }) => Some(steps),
            Plan::Done { .. } => None,
        };
        assert_eq!(steps, expected, "{what}");
    }
}
