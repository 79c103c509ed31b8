use std::collections::BTreeMap;

use serde_json::Value;

use super::{KubeletConfiguration, configuration, loaded};

/// All that is said, by path in lower case; what is empty is not said.
fn flat(value: &Value, path: &str, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::Array(items) if items.is_empty() => {}
        Value::Object(fields) if !path.starts_with("evictionhard.") => {
            for (name, value) in fields {
                flat(value, &format!("{path}{}.", name.to_lowercase()), all);
            }
        }
        value => _ = all.insert(path.to_owned(), value.clone()),
    }
}

#[test]
fn defaults_are_those_of_the_kubelet() {
    // What the kubelet 1.36.3 logs of a file that sets nothing (but `failCgroupV1`, to get so far where that was
    // needed), without the verbosity that shows it and the certificate it makes.
    let theirs: Value = serde_json::from_str(include_str!("upstream_defaults.json")).unwrap();
    let ours = serde_json::to_value(configuration("")).unwrap();
    let (mut expected, mut found) = (BTreeMap::new(), BTreeMap::new());
    flat(&theirs, "", &mut expected);
    flat(&ours, "", &mut found);
    // The Go struct has another name for it than the file.
    let resolver = expected.remove("resolverconfig.").unwrap();
    expected.insert("resolvconf.".to_owned(), resolver);
    assert!(found.len() > 50, "{found:?}");
    for (path, value) in &found {
        assert_eq!(expected.get(path), Some(value), "{path}");
    }
}

#[test]
fn a_file_that_sets_nothing_and_no_file_are_the_same_and_warn_of_nothing() {
    let loaded = loaded("");
    assert_eq!(loaded.configuration, KubeletConfiguration::default());
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(super::load(&super::Sources::default()).unwrap().configuration, loaded.configuration);
}

#[test]
fn zero_null_and_empty_stand_for_the_default_where_they_mean_nothing() {
    let lines = "port: 0\nmaxPods: 0\nsyncFrequency: 0s\naddress: ''\ncgroupDriver: ''\nregistryBurst: 0\n\
                 authorization: {mode: '', webhook: {cacheAuthorizedTTL: 0s}}\nfailSwapOn: null\n\
                 authentication: null\npodPidsLimit: -7\ncontainerLogMaxSize: ''\nstaticPodPath: ''\n";
    assert_eq!(configuration(lines), KubeletConfiguration::default());
}

#[test]
fn zero_counts_where_it_means_something() {
    let found = configuration(
        "registryPullQPS: 0\nhealthzPort: 0\nnodeStatusMaxImages: 0\nresolvConf: ''\neventRecordQPS: 0\n",
    );
    assert_eq!((found.registry_pull_qps, found.healthz_port, found.node_status_max_images), (0, 0, 0));
    assert_eq!((found.resolv_conf.as_os_str().is_empty(), found.event_record_qps), (true, 0));
}

#[test]
fn some_defaults_follow_from_other_fields() {
    let seconds = |lines: &str| configuration(lines).node_status_report_frequency.0.as_secs();
    assert_eq!(seconds("nodeStatusUpdateFrequency: 20s\n"), 20);
    assert_eq!(seconds("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 1m\n"), 60);
    assert!(!configuration("maxParallelImagePulls: 2\n").serialize_image_pulls);
    assert!(configuration("maxParallelImagePulls: 1\n").serialize_image_pulls);
}

#[test]
fn the_hard_thresholds_of_a_file_replace_the_defaults_unless_they_are_merged() {
    let hard = |lines: &str| configuration(lines).eviction_hard.into_iter().collect::<Vec<_>>();
    let own = ("memory.available".to_owned(), "1Gi".to_owned());
    assert_eq!(hard("evictionHard: {memory.available: 1Gi}\n"), std::slice::from_ref(&own));
    let merged = hard("evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n");
    assert_eq!(merged.len(), 5);
    assert!(merged.contains(&own));
}
