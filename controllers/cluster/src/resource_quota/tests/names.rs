use super::super::names::{DeviceClasses, Measured, by_kind, measured_by};
use super::super::watches::Kind;

use Measured::{DeviceClaims, Pods, Services, VolumeClaims};

fn objects(resource: &str) -> Measured {
    Measured::Objects(resource.into())
}

#[test]
fn a_name_belongs_to_the_kinds_whose_objects_use_it() {
    let mut classes = DeviceClasses::default();
    classes.insert(&"gpu".into(), &"example.com/gpu".into());
    classes.insert(&"tpu".into(), &"".into());
    for (name, kinds) in [
        ("pods", vec![Pods]),
        ("count/pods", vec![Pods]),
        ("cpu", vec![Pods]),
        ("limits.ephemeral-storage", vec![Pods]),
        ("hugepages-2Mi", vec![Pods]),
        ("requests.hugepages-1Gi", vec![Pods]),
        ("requests.example.com/dongle", vec![Pods]),
        ("requests.example.com/gpu", vec![Pods, DeviceClaims]),
        ("requests.deviceclass.resource.kubernetes.io/gpu", vec![Pods, DeviceClaims]),
        ("requests.deviceclass.resource.kubernetes.io/tpu", vec![Pods, DeviceClaims]),
        ("requests.deviceclass.resource.kubernetes.io/other", vec![Pods]),
        ("example.com/gpu", vec![]),
        ("gpu.deviceclass.resource.k8s.io/devices", vec![DeviceClaims]),
        ("count/resourceclaims.resource.k8s.io", vec![DeviceClaims]),
        ("services", vec![Services]),
        ("services.nodeports", vec![Services]),
        ("count/services", vec![Services]),
        ("persistentvolumeclaims", vec![VolumeClaims]),
        ("requests.storage", vec![VolumeClaims]),
        ("gold.storageclass.storage.k8s.io/requests.storage", vec![VolumeClaims]),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", vec![VolumeClaims]),
        ("gold.storageclass.storage.k8s.io/other", vec![]),
        ("count/persistentvolumeclaims", vec![VolumeClaims]),
        ("secrets", vec![objects("secrets")]),
        ("count/secrets", vec![objects("secrets")]),
        ("resourcequotas", vec![objects("resourcequotas")]),
        ("count/jobs.batch", vec![objects("jobs.batch")]),
        ("count/widgets.example.com", vec![objects("widgets.example.com")]),
        ("jobs.batch", vec![]),
        ("endpoints", vec![]),
        ("count/events", vec![]),
        ("count/events.events.k8s.io", vec![]),
        ("count/bindings", vec![]),
    ] {
        assert_eq!(Measured::by_name(name, &classes), kinds, "{name}");
        let possible = Measured::possible_by_name(name);
        let mut others = possible.iter().filter(|kind| !kinds.contains(kind));
        assert!(kinds.iter().all(|kind| possible.contains(kind)), "{name}");
        assert!(others.all(|kind| *kind == DeviceClaims), "only device classes decide about some: {name}");
    }
    classes.remove("gpu");
    assert_eq!(Measured::by_name("requests.example.com/gpu", &classes), [Pods]);
}

#[test]
fn the_kinds_of_a_quota_are_those_of_all_its_names() {
    let names = ["cpu", "memory", "count/jobs.batch", "secrets", "count/secrets", "services"];
    let kinds: Vec<_> = measured_by(names, &DeviceClasses::default()).into_iter().collect();
    assert_eq!(kinds, [Pods, Services, objects("jobs.batch"), objects("secrets")]);
    let texts = kinds.into_iter().map(|kind| Kind::Measured(kind).to_string());
    assert_eq!(texts.collect::<Vec<_>>(), ["pods", "services", "jobs.batch", "secrets"]);
    assert_eq!(Kind::DeviceClasses.to_string(), "deviceclasses.resource.k8s.io");
}

#[test]
fn names_are_grouped_by_the_kinds_that_use_them() {
    let mut classes = DeviceClasses::default();
    classes.insert(&"gpu".into(), &"example.com/gpu".into());
    let names = ["secrets", "count/secrets", "pods", "requests.example.com/gpu", "example.com/gpu"];
    let groups = by_kind(names, &classes);
    let groups: Vec<_> =
        groups.iter().map(|(kind, names)| (kind, names.iter().map(|name| &**name).collect())).collect();
    let expected: [(&Measured, Vec<&str>); 3] = [
        (&Pods, vec!["pods", "requests.example.com/gpu"]),
        (&DeviceClaims, vec!["requests.example.com/gpu"]),
        (&objects("secrets"), vec!["count/secrets", "secrets"]),
    ];
    assert_eq!(groups, expected);
}
