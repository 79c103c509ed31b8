//! Kinds that API servers serve only behind gates. The schema table lacks them, so the protobuf is written by hand.

use steersman_api::wire::Writer;
use steersman_informer::wire::{Encoding, Group, Kind, Object};

use super::json;
use crate::cluster_trust_bundle::{ClusterTrustBundle, TrustBundle};
use crate::content_digest::ContentDigest;
use crate::device_taint_rule::{DeviceTaintRule, EVICTION_IN_PROGRESS, RuleStatus, TaintRule};
use crate::pod_certificate_request::{PodCertificateRequest, RequestedCertificate};
use crate::pod_group::{GroupClaimStatus, GroupClaims, PodGroup};

/// An object in both encodings. `spec` and `status` are the fields 2 and 3.
fn both<K: Kind>(object: &serde_json::Value, write: impl FnOnce(&mut Writer)) -> [K; 2] {
    let mut bare = Writer::new();
    bare.message(1, |meta| meta.text(1, object["metadata"]["name"].as_str().unwrap()));
    write(&mut bare);
    [(object.to_string().into(), Encoding::Json), (bare.into_bytes().into(), Encoding::Protobuf)]
        .map(|(body, encoding)| K::decode(&body, encoding, u64::MAX).unwrap())
}

#[test]
fn pod_groups_and_their_claims() {
    let group = json!({
        "metadata": {"name": "g"},
        "spec": {"resourceClaims": [
            {"name": "a", "resourceClaimName": "shared"}, {"name": "b", "resourceClaimTemplateName": "t"},
        ]},
        "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "g-b-x"}]},
    });
    let write = |group: &mut Writer| {
        group.message(2, |spec| {
            spec.message(4, |claim| {
                claim.text(1, "a");
                claim.text(2, "shared");
            });
            spec.message(4, |claim| {
                claim.text(1, "b");
                claim.text(3, "t");
            });
        });
        group.message(3, |status| {
            status.message(2, |claim| {
                claim.text(1, "b");
                claim.text(2, "g-b-x");
            });
        });
    };
    for group in both::<PodGroup>(&group, write) {
        let claims: Vec<_> = GroupClaims::of(&group).unwrap().list().collect();
        assert_eq!((&*claims[0].name, claims[0].claim.as_deref()), ("a", Some("shared")));
        assert_eq!((&*claims[1].name, claims[1].template.as_deref()), ("b", Some("t")));
        let generated = &GroupClaimStatus::of(&group).unwrap().generated[0];
        assert_eq!((&*generated.name, generated.claim.as_deref()), ("b", Some("g-b-x")));
    }
}

#[test]
fn rules_their_selectors_and_their_condition() {
    let rule = json!({
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"driver": "d", "device": "gpu"},
            "taint": {"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        },
        "status": {"conditions": [{"type": "Other"}, {
            "type": EVICTION_IN_PROGRESS, "status": "True", "observedGeneration": 3,
            "reason": "PodsPendingEviction", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    });
    let time = |time: &mut Writer| time.int64(1, 1_767_225_600);
    let write = |rule: &mut Writer| {
        rule.message(2, |spec| {
            spec.message(1, |selector| {
                selector.text(2, "d");
                selector.text(4, "gpu");
            });
            spec.message(2, |taint| {
                taint.text(1, "k");
                taint.text(3, "NoExecute");
                taint.message(4, time);
            });
        });
        rule.message(3, |status| {
            status.message(1, |other| other.text(1, "Other"));
            status.message(1, |condition| {
                condition.text(1, EVICTION_IN_PROGRESS);
                condition.text(2, "True");
                condition.int64(3, 3);
                condition.message(4, time);
                condition.text(5, "PodsPendingEviction");
                condition.text(6, "m");
            });
        });
    };
    let [json, protobuf] = both::<DeviceTaintRule>(&rule, write);
    assert_eq!(TaintRule::of(&json), TaintRule::of(&protobuf));
    assert_eq!(RuleStatus::of(&json), RuleStatus::of(&protobuf));
    let rule = TaintRule::of(&protobuf).unwrap();
    assert!(rule.taint.time_added.is_some());
    assert!(rule.taints("d", "any", "gpu"));
    assert!(!rule.taints("d", "any", "other") && !rule.taints("other", "any", "gpu"));
    let condition = RuleStatus::of(&protobuf).unwrap().eviction.0.as_ref().unwrap();
    assert_eq!((condition.observed_generation, &*condition.reason), (3, "PodsPendingEviction"));
    assert!(!TaintRule::default().taints("d", "any", "gpu"), "no selector selects nothing");
}

#[test]
fn bundles_and_requests() {
    let bundle = json!({"metadata": {"name": "b"}, "spec": {"signerName": "s", "trustBundle": "PEM"}});
    let write = |bundle: &mut Writer| {
        bundle.message(2, |spec| {
            spec.text(1, "s");
            spec.text(2, "PEM");
        });
    };
    for bundle in both::<ClusterTrustBundle>(&bundle, write) {
        let TrustBundle { signer, bundle } = TrustBundle::of(&bundle).unwrap();
        assert_eq!((&**signer, bundle.0), ("s", Some(ContentDigest::of(b"PEM"))));
    }
    let request = json!({"metadata": {"name": "q"}, "spec": {"signerName": "s"}});
    let write = |request: &mut Writer| request.message(2, |spec| spec.text(1, "s"));
    for request in both::<PodCertificateRequest>(&request, write) {
        assert_eq!(request.meta().key.name, "q");
        assert_eq!(&*RequestedCertificate::of(&request).unwrap().signer, "s");
    }
}
