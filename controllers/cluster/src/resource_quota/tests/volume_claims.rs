use serde_json::{Value, json};
use steersman_informer::View;
use steersman_kinds::persistent_volume_claim::{BetaStorageClass, StorageAllotment, StorageDemand};
use steersman_kinds::shared::Shared;

use super::super::MeasuredVolumeClaim;
use super::super::measures::of_volume_claim;
use super::super::scopes::Scopes;
use super::{quota, text};

fn claim(metadata: Value, spec: Value, status: Value) -> View<MeasuredVolumeClaim> {
    let mut object = json!({"metadata": {"name": "c"}, "spec": spec, "status": status});
    object["metadata"]["annotations"] = metadata;
    View::from_json(&object)
}

fn usage(claim: &View<MeasuredVolumeClaim>) -> String {
    let beta_class = &claim.get::<BetaStorageClass>().class;
    text(&of_volume_claim(
        claim.get::<Shared<StorageDemand>>(),
        claim.get::<Shared<StorageAllotment>>(),
        beta_class,
    ))
}

#[test]
fn storage_counts_as_it_is_asked_for_or_set_aside_for_the_claim_and_for_its_class() {
    let asks = |storage: &str| json!({"resources": {"requests": {"storage": storage}}});
    let of_class = |storage: &str| {
        let mut spec = asks(storage);
        spec["storageClassName"] = "gold".into();
        spec
    };
    let has = |storage: &str| json!({"allocatedResources": {"storage": storage}});
    let plain = |storage: &str| {
        format!("count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage={storage}")
    };
    let classed = |class: &str, storage: &str| {
        format!(
            "count/persistentvolumeclaims=1,{class}.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             {class}.storageclass.storage.k8s.io/requests.storage={storage},persistentvolumeclaims=1,\
             requests.storage={storage}"
        )
    };
    let beta = json!({"volume.beta.kubernetes.io/storage-class": "gnu"});
    for (annotations, spec, status, expected) in [
        (json!({}), asks("10Gi"), json!({}), plain("10Gi")),
        (json!({}), of_class("10Gi"), json!({}), classed("gold", "10Gi")),
        (beta, of_class("10Gi"), json!({}), classed("gnu", "10Gi")),
        // Whole bytes, since the API server refuses fractions.
        (json!({}), asks("1.5"), json!({}), plain("2")),
        (json!({}), of_class("10.1Ki"), json!({}), classed("gold", "10343")),
        (json!({}), asks("10Gi"), has("20Gi"), plain("20Gi")),
        (json!({}), asks("10Gi"), has("5Gi"), plain("10Gi")),
        (json!({}), asks("10Gi"), has("20000000000.5"), plain("20000000001")),
    ] {
        assert_eq!(usage(&claim(annotations, spec.clone(), status)), expected, "{spec}");
    }
    let nothing = claim(json!({}), json!({}), has("5Gi"));
    assert_eq!(usage(&nothing), "count/persistentvolumeclaims=1,persistentvolumeclaims=1");
}

#[test]
fn a_claim_is_in_the_scope_of_each_class_of_attributes_that_it_has_or_will_have() {
    let in_scope = |claim: &View<MeasuredVolumeClaim>, spec: &Value| {
        let quota = quota(spec.clone(), json!({}));
        let (demand, allotment) =
            (claim.get::<Shared<StorageDemand>>(), claim.get::<Shared<StorageAllotment>>());
        Scopes::of(&quota.spec).have_volume_claim(demand, allotment)
    };
    let select = |operator: &str, values: Value| {
        let scope = json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": values});
        json!({"scopeSelector": {"matchExpressions": [scope]}})
    };
    let bare = claim(json!({}), json!({}), json!({}));
    let asking = claim(json!({}), json!({"volumeAttributesClassName": "gold"}), json!({}));
    let changing = claim(
        json!({}),
        json!({"volumeAttributesClassName": "gold"}),
        json!({
            "currentVolumeAttributesClassName": "silver",
            "modifyVolumeStatus": {"targetVolumeAttributesClassName": "bronze"},
        }),
    );
    for (spec, expected) in [
        (json!({}), [true, true, true]),
        (json!({"scopes": ["VolumeAttributesClass"]}), [false, true, true]),
        (json!({"scopes": ["BestEffort"]}), [false, false, false]),
        (select("Exists", json!([])), [false, true, true]),
        (select("DoesNotExist", json!([])), [true, false, false]),
        (select("In", json!(["gold"])), [false, true, true]),
        (select("In", json!(["silver"])), [false, false, true]),
        (select("In", json!(["bronze"])), [false, false, true]),
        (select("NotIn", json!(["gold"])), [true, false, true]),
    ] {
        assert_eq!([&bare, &asking, &changing].map(|claim| in_scope(claim, &spec)), expected, "{spec}");
    }
}
