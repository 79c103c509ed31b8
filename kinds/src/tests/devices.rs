//! Kinds of devices are the same in both encodings.

use serde_json::{Value, json};
use steersman_informer::wire::{Group, Opaque};

use super::{decoded, kept};
use crate::device_allocation::{AllocatedDevices, Reservations};
use crate::device_taint::{DeviceTaint, DeviceToleration};
use crate::pod::Pod;
use crate::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use crate::resource_claim::{ClaimRequests, Origin, POD_CLAIM_NAME, ResourceClaim};
use crate::resource_claim_template::{ClaimTemplate, ResourceClaimTemplate, TemplateRequests};
use crate::resource_slice::{ResourceSlice, TaintedDevices};

fn requests() -> Value {
    json!({"requests": [
        {"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
        {"name": "b", "exactly": {"deviceClassName": "gpu", "adminAccess": true}},
    ]})
}

#[test]
fn the_claims_of_pods() {
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"resourceClaims": [
            {"name": "shared", "resourceClaimName": "gpu"}, {"name": "own", "resourceClaimTemplateName": "t"},
        ]},
        "status": {
            "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own-x"}, {"name": "unneeded"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "extended", "requestMappings": []},
        },
    });
    for decoded in decoded::<Pod>(&pod, DeviceClaims::BIT | DeviceClaimStatus::BIT) {
        let claims = DeviceClaims::of(&decoded).unwrap().list();
        assert_eq!(claims[0].claim.as_deref(), Some("gpu"));
        assert_eq!((claims[1].claim.as_deref(), claims[1].template.as_deref()), (None, Some("t")));
        let status = DeviceClaimStatus::of(&decoded).unwrap();
        let generated: Vec<_> = status.generated().iter().map(|claim| claim.claim.as_deref()).collect();
        assert_eq!(generated, [Some("p-own-x"), None]);
        assert_eq!(status.extended.as_ref().unwrap().claim, "extended");
    }
    for decoded in decoded::<Pod>(&json!({"metadata": {"name": "p"}}), u64::MAX) {
        assert!(DeviceClaims::of(&decoded).unwrap().claims.is_none());
    }
}

#[test]
fn claims_with_their_devices_and_consumers() {
    let claim = json!({
        "metadata": {"name": "c", "annotations": {POD_CLAIM_NAME: "own"}},
        "spec": {"devices": requests()},
        "status": {
            "allocation": {"devices": {"results": [{
                "request": "a", "driver": "d", "pool": "n1", "device": "gpu-0",
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
            }]}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        },
    });
    let [json, protobuf] = kept::<ResourceClaim>(&claim);
    assert_eq!(json, protobuf);
    for decoded in decoded::<ResourceClaim>(&claim, u64::MAX) {
        let facts = ClaimRequests::of(&decoded).unwrap().requests;
        assert!(facts.admin_access && facts.alternatives);
        assert_eq!(Origin::of(&decoded).unwrap().pod_claim.0.as_deref(), Some("own"));
        let reservations = Reservations::of(&decoded).unwrap();
        assert!(reservations.allocation.0 && reservations.reserved_for[0].is_pod());
        let device = &AllocatedDevices::of(&decoded).unwrap().allocation.devices.results[0];
        assert_eq!((&*device.driver, &*device.pool, &*device.device), ("d", "n1", "gpu-0"));
        assert_eq!(device.tolerations[0].seconds, Some(0));
    }
    // An allocation may be empty, and a list of alternatives too.
    let bare = json!({
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "a", "firstAvailable": []}]}},
        "status": {"allocation": {}},
    });
    for decoded in decoded::<ResourceClaim>(&bare, u64::MAX) {
        assert!(Reservations::of(&decoded).unwrap().allocation.0);
        assert!(!ClaimRequests::of(&decoded).unwrap().requests.alternatives);
    }
}

#[test]
fn a_claim_template_keeps_its_encoding() {
    let spec = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": requests()}});
    let template = json!({"metadata": {"name": "t"}, "spec": spec});
    let [json, protobuf] = decoded::<ResourceClaimTemplate>(&template, u64::MAX);
    for decoded in [&json, &protobuf] {
        let facts = TemplateRequests::of(decoded).unwrap().spec.requests;
        assert!(facts.admin_access && facts.alternatives);
    }
    let Opaque::Json(text) = &ClaimTemplate::of(&json).unwrap().0 else { panic!("{json:?}") };
    assert_eq!(serde_json::from_str::<Value>(text.get()).unwrap(), spec);
    assert!(matches!(&ClaimTemplate::of(&protobuf).unwrap().0, Opaque::Protobuf(_)));
}

#[test]
fn slices_keep_only_the_devices_whose_taints_end_pods() {
    let at = "2026-01-01T00:00:00Z";
    let slice = json!({"metadata": {"name": "s"}, "spec": {
        "driver": "d", "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 1}, "nodeName": "n1",
        "devices": [
            {"name": "sound"},
            {"name": "unscheduled", "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": at}]},
            {"name": "broken", "taints": [
                {"key": "k", "effect": "NoSchedule", "timeAdded": at},
                {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": at},
            ]},
        ],
    }});
    let [json, protobuf] = kept::<ResourceSlice>(&slice);
    assert_eq!(json, protobuf);
    let [_, decoded] = decoded::<ResourceSlice>(&slice, u64::MAX);
    let TaintedDevices { driver, pool, devices } = TaintedDevices::of(&decoded).unwrap();
    assert_eq!((&**driver, &*pool.name, pool.generation), ("d", "n1", 3));
    let [broken] = &*devices.0 else { panic!("{devices:?}") };
    assert_eq!((&*broken.name, broken.taints.len(), &*broken.taints[0].value), ("broken", 1, "v"));
    assert!(broken.taints[0].time_added.is_some());
}

#[test]
fn a_toleration_tolerates_a_taint_of_its_key_value_and_effect() {
    let taint = DeviceTaint {
        key: "k".into(),
        value: "v".into(),
        effect: "NoExecute".into(),
        ..DeviceTaint::default()
    };
    for (key, operator, value, effect, tolerates) in [
        ("k", "Exists", "", "NoExecute", true),
        ("k", "Exists", "", "", true),
        ("", "Exists", "", "", true),
        ("other", "Exists", "", "", false),
        ("k", "Exists", "", "NoSchedule", false),
        ("k", "Equal", "v", "NoExecute", true),
        ("k", "", "v", "NoExecute", true),
        ("k", "Equal", "w", "NoExecute", false),
        ("k", "Later", "v", "NoExecute", false),
    ] {
        let [key, operator, value, effect] = [key, operator, value, effect].map(Into::into);
        let toleration = DeviceToleration { key, operator, value, effect, seconds: None };
        assert_eq!(toleration.tolerates(&taint), tolerates, "{toleration:?}");
    }
}
