use serde_json::{Value, json};
use steersman_informer::View;
use steersman_kinds::resource_claim::DeviceDemand;
use steersman_kinds::shared::Shared;

use super::super::MeasuredDeviceClaim;
use super::super::amounts::Amounts;
use super::super::measures::{of_device_claim, with_extended_resources};
use super::super::names::DeviceClasses;
use super::text;

fn measured(requests: Value) -> Amounts {
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}});
    let claim = View::<MeasuredDeviceClaim>::from_json(&claim);
    of_device_claim(claim.get::<Shared<DeviceDemand>>())
}

fn exactly(class: &str, mode: &str, count: i64) -> Value {
    json!({"name": "r", "exactly": {"deviceClassName": class, "allocationMode": mode, "count": count}})
}

fn alternative(class: &str, mode: &str, count: i64) -> Value {
    json!({"name": "r", "deviceClassName": class, "allocationMode": mode, "count": count})
}

fn first_of(alternatives: &[Value]) -> Value {
    json!({"name": "r", "firstAvailable": alternatives})
}

#[test]
fn a_claim_counts_the_most_devices_that_it_can_get() {
    let devices = |amounts: &[(&str, i64)]| {
        let classes = amounts
            .iter()
            .map(|(class, count)| format!(",{class}.deviceclass.resource.k8s.io/devices={count}"));
        format!("count/resourceclaims.resource.k8s.io=1{}", classes.collect::<String>())
    };
    let one = || exactly("gpu", "ExactCount", 1);
    for (requests, expected) in [
        (json!([]), devices(&[])),
        (json!([one()]), devices(&[("gpu", 1)])),
        (json!([one(), one(), one(), one(), one()]), devices(&[("gpu", 5)])),
        (json!([exactly("gpu", "ExactCount", 5)]), devices(&[("gpu", 5)])),
        (json!([exactly("gpu", "All", 0)]), devices(&[("gpu", 32)])),
        (json!([exactly("gpu", "Future", 7)]), devices(&[("gpu", 0)])),
        (json!([{"name": "r"}]), devices(&[])),
        (json!([first_of(&[alternative("gpu", "ExactCount", 1)])]), devices(&[("gpu", 1)])),
        (
            json!([first_of(&[alternative("gpu", "ExactCount", 2), alternative("gpu", "ExactCount", 1)])]),
            devices(&[("gpu", 2)]),
        ),
        (
            json!([first_of(&[alternative("gpu", "ExactCount", 1), alternative("gpu", "All", 0)]), one()]),
            devices(&[("gpu", 33)]),
        ),
        (
            json!([first_of(&[alternative("gpu", "ExactCount", 1), alternative("tpu", "All", 0)])]),
            devices(&[("gpu", 1), ("tpu", 32)]),
        ),
        (json!([first_of(&[alternative("gpu", "Future", 7)])]), devices(&[])),
    ] {
        assert_eq!(text(&measured(requests.clone())), expected, "{requests}");
    }
}

#[test]
fn devices_count_as_extended_resources_but_for_what_the_pod_counts_already() {
    let mut classes = DeviceClasses::default();
    classes.insert(&"gpu".into(), &"example.com/gpu".into());
    let extended = |requests: Value, by_pod: &[(&str, i64)]| {
        let mut pod = Amounts::default();
        by_pod.iter().for_each(|(name, count)| pod.set(*name, steersman_api::Quantity::new(*count)));
        let mut all = with_extended_resources(measured(requests), &classes, &pod);
        all.retain(|name| name.starts_with("requests."));
        text(&all)
    };
    let (explicit, implicit) =
        ("requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu");
    let gpus = |count: i64| json!([exactly("gpu", "ExactCount", count)]);
    for (requests, by_pod, expected) in [
        (gpus(1), vec![], format!("{implicit}=1,{explicit}=1")),
        (gpus(1), vec![(implicit, 1)], format!("{explicit}=1")),
        (gpus(1), vec![(explicit, 1)], format!("{implicit}=1")),
        (gpus(2), vec![(explicit, 1), (implicit, 1)], format!("{implicit}=1,{explicit}=1")),
        (gpus(1), vec![(explicit, 5), (implicit, 5)], String::new()),
        (
            json!([exactly("tpu", "ExactCount", 2)]),
            vec![],
            "requests.deviceclass.resource.kubernetes.io/tpu=2".to_owned(),
        ),
        (json!([exactly("gpu", "Future", 2)]), vec![], String::new()),
    ] {
        assert_eq!(extended(requests.clone(), &by_pod), expected, "{requests} {by_pod:?}");
    }
}
