use super::{Folder, HEAD, load};

fn drop_in(lines: &str) -> String {
    format!("{HEAD}{lines}")
}

#[test]
fn drop_ins_are_merged_in_the_order_of_their_names_over_the_file() {
    let folder = Folder::new("maxPods: 1\npodsPerCore: 1\nclusterDNS: [10.0.0.1]\nport: 1\n")
        .add("conf.d/20-b.conf", &drop_in("maxPods: 3\n"))
        .add("conf.d/10-a.conf", &drop_in("maxPods: 2\npodsPerCore: 2\nclusterDNS: [10.0.0.2]\n"))
        .add("conf.d/15/sub.conf", &drop_in("podsPerCore: 5\nport: null\n"))
        .add("conf.d/99-not.yaml", "nonsense");
    let loaded = load(&folder.with_drop_ins()).unwrap();
    let found = loaded.configuration;
    assert_eq!((found.max_pods, found.pods_per_core, found.port), (3, 5, 10250));
    assert_eq!(found.cluster_dns.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.2"]);
    assert_eq!(loaded.skipped, [folder.0.path().join("conf.d/99-not.yaml")]);
}

#[test]
fn objects_are_merged_and_lists_replaced() {
    let folder = Folder::new("authentication: {anonymous: {enabled: true}}\n").add(
        "conf.d/a.conf",
        &drop_in(
            "authentication: {webhook: {enabled: false}}\nevictionHard: {memory.available: 1Gi, nodefs.available: null}\n",
        ),
    );
    let found = load(&folder.with_drop_ins()).unwrap().configuration;
    assert!(found.authentication.anonymous.enabled && !found.authentication.webhook.enabled);
    assert_eq!(found.eviction_hard["memory.available"], "1Gi");
    assert_eq!((found.eviction_hard.len(), found.eviction_hard.get("nodefs.available")), (4, None));
}

#[test]
fn drop_ins_need_no_file() {
    let folder = Folder::new("maxPods: 1\n").add("conf.d/a.conf", &drop_in("podsPerCore: 2\n"));
    let sources = super::Sources { file: None, ..folder.with_drop_ins() };
    let found = load(&sources).unwrap().configuration;
    assert_eq!((found.max_pods, found.pods_per_core), (110, 2));
}

#[test]
fn a_bad_drop_in_ends_the_start_and_is_named() {
    for (text, line) in [
        (
            drop_in("maxPods: x\n"),
            "file conf.d/a.conf: maxPods: \"x\": must be an integer from 0 to 4294967295",
        ),
        (drop_in("maxPodz: 1\n"), "file conf.d/a.conf: maxPodz: 1: unknown field"),
        (drop_in("cpuManagerPolicy: 1\n"), "file conf.d/a.conf: cpuManagerPolicy: 1: must be a text"),
        (
            "maxPods: 1\n".to_owned(),
            "file conf.d/a.conf: apiVersion: is missing: it must be kubelet.config.k8s.io/v1beta1",
        ),
    ] {
        let folder = Folder::new("").add("conf.d/a.conf", &text).add("conf.d/b.conf", &drop_in("port: 1\n"));
        let refusal = folder.refusal(&folder.with_drop_ins());
        assert_eq!(refusal, format!("reading the configuration: {line}"), "{text}");
    }
    let folder = Folder::new("");
    let refusal = folder.refusal(&folder.with_drop_ins());
    assert!(refusal.starts_with("reading the configuration: folder conf.d: No such file"), "{refusal}");
}

#[test]
fn the_last_source_that_sets_a_field_not_heeded_decides_on_the_warning() {
    let folder = Folder::new("cpuManagerPolicy: static\nrotateCertificates: false\nreadOnlyPort: 1\n").add(
        "conf.d/a.conf",
        &drop_in("cpuManagerPolicy: none\nrotateCertificates: true\nreadOnlyPort: null\n"),
    );
    let warnings = load(&folder.with_drop_ins()).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(folder.plainly(&warnings[0]).starts_with("file conf.d/a.conf: rotateCertificates: true"));
}
