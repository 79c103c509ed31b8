//! What groups may use, as tables.

use super::*;
use crate::cgroups::limits::Setting;
use crate::resources::ResourceList;

const PERIOD: u64 = 100_000;
const TUNED: u64 = 5000;
const MIB: u64 = 1 << 20;

fn settings_with(cpu_cfs_quota: bool, cpu_cfs_quota_period: u64) -> PodLimitSettings {
    let huge_page_sizes = Vec::new();
    PodLimitSettings { cpu_cfs_quota, cpu_cfs_quota_period, pod_pids_limit: None, huge_page_sizes }
}

fn of(containers: Value, of_pod: Value, settings: &PodLimitSettings) -> Limits {
    let containers: Vec<Value> = containers.as_array().unwrap().clone();
    let containers: Vec<Value> =
        containers.into_iter().map(|resources| json!({"name": "c", "resources": resources})).collect();
    let spec = json!({"containers": containers, "resources": of_pod});
    let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
    Limits::of_pod(&pod, settings)
}

fn limits(cpu_shares: u64, quota: Option<(Option<u64>, u64)>, memory: Option<u64>) -> Limits {
    Limits {
        cpu_shares: Some(cpu_shares),
        cpu_quota: quota.map(|(quota, period)| CpuQuota { quota, period }),
        memory: memory.map(|mib| mib * MIB),
        ..Limits::default()
    }
}

fn amounts(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

#[test]
fn a_pod_has_the_limits_that_its_class_and_containers_make() {
    let (enforced, not) = (settings_with(true, PERIOD), settings_with(false, PERIOD));
    let (tuned, tuned_not) = (settings_with(true, TUNED), settings_with(false, TUNED));
    let none = json!({});
    let asks = json!({"requests": amounts("100m", "100Mi")});
    let both = json!({"requests": amounts("100m", "100Mi"), "limits": amounts("200m", "200Mi")});
    let equal = json!({"requests": amounts("100m", "100Mi"), "limits": amounts("100m", "100Mi")});
    for (containers, settings, expected) in [
        (json!([none]), &enforced, limits(2, None, None)),
        (json!([asks]), &enforced, limits(102, None, None)),
        (json!([both]), &enforced, limits(102, Some((Some(20_000), PERIOD)), Some(200))),
        (json!([both]), &not, limits(102, Some((None, PERIOD)), Some(200))),
        (json!([both]), &tuned, limits(102, Some((Some(1000), TUNED)), Some(200))),
        (json!([both]), &tuned_not, limits(102, Some((None, TUNED)), Some(200))),
        // Limits of some containers limit nothing.
        (json!([both, asks]), &enforced, limits(204, None, None)),
        (json!([both, none]), &enforced, limits(102, None, None)),
        (json!([both, {"limits": {"memory": "100Mi"}}]), &enforced, limits(102, None, Some(300))),
        (json!([equal]), &enforced, limits(102, Some((Some(10_000), PERIOD)), Some(100))),
        (json!([equal, equal]), &enforced, limits(204, Some((Some(20_000), PERIOD)), Some(200))),
        (json!([equal]), &not, limits(102, Some((None, PERIOD)), Some(100))),
        (json!([equal]), &tuned, limits(102, Some((Some(1000), TUNED)), Some(100))),
    ] {
        assert_eq!(of(containers.clone(), Value::Null, settings), expected, "{containers} {settings:?}");
    }
}

#[test]
fn limits_of_a_pod_as_a_whole_hold_for_all_its_containers() {
    let settings = settings_with(true, PERIOD);
    let none = json!({});
    let own = json!({"requests": amounts("10m", "50Mi"), "limits": amounts("50m", "100Mi")});
    let asks = json!({"requests": amounts("100m", "100Mi")});
    let both = json!({"requests": amounts("100m", "100Mi"), "limits": amounts("200m", "200Mi")});
    let equal = json!({"requests": amounts("100m", "100Mi"), "limits": amounts("100m", "100Mi")});
    let bound = limits(102, Some((Some(20_000), PERIOD)), Some(200));
    for (container, of_pod, expected) in [
        (&none, &none, limits(2, None, None)),
        (&none, &asks, limits(102, None, None)),
        (&none, &both, bound.clone()),
        (&own, &both, bound),
        (&none, &equal, limits(102, Some((Some(10_000), PERIOD)), Some(100))),
        (&own, &equal, limits(102, Some((Some(10_000), PERIOD)), Some(100))),
        // What the pod leaves open is its containers'.
        (&own, &json!({"limits": {"memory": "1Gi"}}), limits(10, Some((Some(5000), PERIOD)), Some(1024))),
    ] {
        let found = of(json!([container]), of_pod.clone(), &settings);
        assert_eq!(found, expected, "{container} {of_pod}");
    }
}

#[test]
fn overhead_counts_for_requests_and_limits() {
    let mut pod = guaranteed("u", "100m", "100Mi");
    let overhead = json!({"cpu": "100m", "memory": "50Mi"});
    pod.spec.as_mut().unwrap().overhead = serde_json::from_value(overhead).unwrap();
    let found = Limits::of_pod(&pod, &settings_with(true, PERIOD));
    assert_eq!(found, limits(204, Some((Some(20_000), PERIOD)), Some(150)));
}

#[test]
fn huge_pages_are_what_is_asked_for_and_processes_what_the_node_allows() {
    let sizes = ["1GB", "2MB"].map(str::to_owned).to_vec();
    let settings =
        PodLimitSettings { huge_page_sizes: sizes, pod_pids_limit: Some(512), ..settings_with(true, PERIOD) };
    let list = json!({"hugepages-2Mi": "6Mi", "hugepages-64Ki": "64Ki"});
    let found = Limits::of_pod(&pod("u", json!({"requests": list, "limits": list})), &settings);
    assert_eq!(found.huge_pages, [("1GB".to_owned(), 0), ("2MB".to_owned(), 6 * MIB)].into());
    assert_eq!(found.pids, Some(512));
}

#[test]
fn limits_are_files_of_either_version() {
    let sizes = ["2MB".to_owned()];
    let all = Limits {
        cpu_shares: Some(1024),
        cpu_quota: Some(CpuQuota { quota: Some(50_000), period: PERIOD }),
        memory: Some(4096),
        pids: Some(7),
        huge_pages: [("2MB".to_owned(), MIB)].into(),
    };
    let free = Limits { cpu_quota: Some(CpuQuota { quota: None, period: TUNED }), ..Limits::default() };
    let show = |settings: Vec<Setting>| -> Vec<String> {
        let show = |set: Setting| {
            format!("{} {}={}{}", set.controller, set.file, set.value, ["", "?"][usize::from(set.optional)])
        };
        settings.into_iter().map(show).collect()
    };
    assert_eq!(
        show(all.files(CgroupVersion::V1)),
        [
            "cpu cpu.shares=1024",
            "cpu cpu.cfs_period_us=100000",
            "cpu cpu.cfs_quota_us=50000",
            "memory memory.limit_in_bytes=4096",
            "pids pids.max=7",
            "hugetlb hugetlb.2MB.limit_in_bytes=1048576",
            "hugetlb hugetlb.2MB.rsvd.limit_in_bytes=1048576?",
        ]
    );
    assert_eq!(
        show(all.files(CgroupVersion::V2)),
        [
            "cpu cpu.weight=39",
            "cpu cpu.max=50000 100000",
            "memory memory.max=4096",
            "pids pids.max=7",
            "hugetlb hugetlb.2MB.max=1048576",
            "hugetlb hugetlb.2MB.rsvd.max=1048576?",
        ]
    );
    assert_eq!(
        show(free.files(CgroupVersion::V1)),
        ["cpu cpu.cfs_period_us=5000", "cpu cpu.cfs_quota_us=-1"]
    );
    assert_eq!(show(free.files(CgroupVersion::V2)), ["cpu cpu.max=max 5000"]);
    assert!(Limits::default().files(CgroupVersion::V1).is_empty());
    assert_eq!(
        show(Limits::of_class(2, &sizes).files(CgroupVersion::V2))[..2],
        ["cpu cpu.weight=1", "hugetlb hugetlb.2MB.max=4611686018427387904"]
    );
}

#[test]
fn pods_may_use_what_is_not_reserved() {
    let list = |value: Value| -> ResourceList {
        serde_json::from_value::<BTreeMap<String, steersman_api::Quantity>>(value).unwrap()
    };
    let capacity = list(json!({"cpu": "4", "memory": "8Gi", "pid": "1000"}));
    let system = list(json!({"cpu": "500m", "memory": "1Gi"}));
    let kube = list(json!({"cpu": "250m", "pid": "2000", "ephemeral-storage": "1Gi"}));
    let left = left_for_pods(&capacity, &[&system, &kube]);
    assert_eq!(left, list(json!({"cpu": "3250m", "memory": "7Gi", "pid": "0"})));
    let limits = Limits::of_node(&left, &[]);
    assert_eq!((limits.cpu_shares, limits.memory, limits.pids), (Some(3328), Some(7 << 30), Some(0)));
    assert_eq!(limits.cpu_quota, None);
}
