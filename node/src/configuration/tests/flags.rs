use serde_json::{Value, json};

use super::{Folder, KubeletConfiguration, Sources, load};
use crate::configuration::Setting;

fn with(sources: Sources, flags: &[(&str, &'static str, Value)]) -> Sources {
    let setting = |(flag, path, value): &(&str, &'static str, Value)| Setting {
        flag: (*flag).to_owned(),
        path,
        value: value.clone(),
    };
    Sources { flags: flags.iter().map(setting).collect(), ..sources }
}

#[test]
fn flags_have_the_last_word() {
    let folder = Folder::new(
        "maxPods: 1\nsystemReserved: {cpu: 1, memory: 1Gi}\nfeatureGates: {SidecarContainers: true}\n\
         cgroupRoot: /a\n",
    );
    let sources = with(
        folder.sources(),
        &[
            ("--max-pods", "maxPods", json!(9)),
            ("--system-reserved", "systemReserved", json!({ "cpu": "2" })),
            ("--feature-gates", "featureGates", json!({ "InPlacePodVerticalScaling": true })),
            ("--client-ca-file", "authentication.x509.clientCAFile", json!("relative.crt")),
            ("--cgroup-root", "cgroupRoot", json!("")),
            ("--resolv-conf", "resolvConf", json!("")),
        ],
    );
    let found = load(&sources).unwrap().configuration;
    assert_eq!(found.max_pods, 9);
    assert_eq!(found.system_reserved.keys().collect::<Vec<_>>(), ["cpu"]);
    assert_eq!(found.feature_gates.len(), 2);
    assert_eq!(found.authentication.x509.client_ca_file.as_deref(), Some("relative.crt".as_ref()));
    assert_eq!((found.cgroup_root, found.resolv_conf), (None, "".into()));
}

#[test]
fn zero_on_the_command_line_is_zero() {
    let sources = with(Sources::default(), &[("--port", "port", json!(0))]);
    let error = load(&sources).unwrap_err().to_string();
    assert_eq!(error, "invalid configuration: port: 0: must be between 1 and 65535, inclusive");
}

#[test]
fn a_value_that_cannot_be_names_the_flag() {
    let sources = with(
        Sources::default(),
        &[("--max-pods", "maxPods", json!(9)), ("--cluster-dns", "clusterDNS", json!(["dns"]))],
    );
    let error = load(&sources).unwrap_err().to_string();
    assert_eq!(
        error,
        "reading the configuration: flag --cluster-dns: clusterDNS[0]: \"dns\": invalid IP address syntax"
    );
}

#[test]
fn flags_not_heeded_are_warned_of_by_name_unless_they_say_what_happens() {
    let sources = with(
        Sources::default(),
        &[
            ("--cpu-manager-policy", "cpuManagerPolicy", json!("static")),
            ("--read-only-port", "readOnlyPort", json!(0)),
        ],
    );
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.configuration, KubeletConfiguration::default());
    assert_eq!(
        loaded.warnings,
        [
            "flag --cpu-manager-policy: cpuManagerPolicy: \"static\" is not supported in this version and has no effect"
        ],
    );
}
