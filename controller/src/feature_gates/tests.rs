use super::*;

fn parsed(list: &str) -> Result<FeatureGates, String> {
    FeatureGates::parse(list.split(',')).map_err(|error| error.to_string())
}

#[test]
fn the_table_is_in_order_and_names_only_gates_that_exist() {
    let names: Vec<_> = table::GATES.iter().map(|gate| gate.name).collect();
    assert!(names.is_sorted(), "gates are found by binary search");
    for gate in table::GATES {
        for required in gate.requires {
            assert!(super::gate(required).is_some(), "{} requires {required}", gate.name);
        }
    }
    assert_eq!(parsed(""), Ok(FeatureGates::default()), "the defaults must agree with one another");
}

#[test]
fn a_gate_has_its_default_unless_it_or_its_stage_is_set() {
    for (list, alpha, beta, ga) in [
        ("", false, true, true),
        ("AllAlpha=true", true, true, true),
        ("AllAlpha=true,ClusterTrustBundleProjection=false", true, true, true),
        ("AllAlpha=true,NativeHistograms=false", false, true, true),
        ("NativeHistograms=false,AllAlpha=true", false, true, true),
        ("kube:NativeHistograms=T", true, true, true),
        ("LoggingBetaOptions=0", false, false, true),
        ("LoggingBetaOptions=true, LoggingBetaOptions=false", false, false, true),
    ] {
        let gates = parsed(list).unwrap();
        let on = ["NativeHistograms", "LoggingBetaOptions", "JobManagedBy"].map(|name| gates.enabled(name));
        assert_eq!(on, [alpha, beta, ga], "{list:?}");
    }
}

/// The expected errors are those of kube-controller-manager 1.36.3.
#[test]
fn what_upstream_refuses_is_refused_in_its_words() {
    for (list, error) in [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("kube:Foo=true", "unrecognized feature gate: Foo"),
        ("other:Foo=true", "component not registered: other"),
        ("Foo", "missing bool value for Foo"),
        (
            "AllAlpha=maybe",
            "invalid value of AllAlpha=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        ("JobManagedBy=false", "cannot set feature gate JobManagedBy to false, feature is locked to true"),
        (
            "ClusterTrustBundleProjection=true",
            "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]",
        ),
    ] {
        assert_eq!(parsed(list), Err(error.to_owned()), "{list:?}");
    }
    parsed("JobManagedBy=true").unwrap();
    parsed("ClusterTrustBundleProjection=true,ClusterTrustBundle=true").unwrap();
}

#[test]
fn gates_without_effect_and_gates_that_upstream_will_remove_cause_warnings() {
    let read = BTreeSet::from(["LoggingBetaOptions"]);
    let warnings = |list: &str| parsed(list).unwrap().without_effect(&read);
    assert_eq!(warnings("LoggingBetaOptions=false"), [""; 0]);
    assert_eq!(warnings("NativeHistograms=false"), [""; 0], "the default is no change");
    assert_eq!(
        warnings("NativeHistograms=true"),
        ["feature gate NativeHistograms=true has no effect: no controller of this program reads it"]
    );
    assert_eq!(
        parsed("JobManagedBy=true").unwrap().removals(),
        ["setting GA feature gate JobManagedBy=true: it will be removed in a future release"]
    );
}

#[test]
fn the_metric_shows_each_gate_with_its_stage() {
    let registry = prometheus::Registry::new();
    parsed("NativeHistograms=true").unwrap().register(&registry).unwrap();
    let families = registry.gather();
    let series = families[0].get_metric();
    assert_eq!(series.len(), table::GATES.len() + 2);
    let value = |name: &str, stage: &str| {
        let labels = |one: &&prometheus::proto::Metric| {
            one.get_label().iter().any(|label| label.value() == name)
                && one.get_label().iter().any(|label| label.name() == "stage" && label.value() == stage)
        };
        series.iter().find(labels).unwrap_or_else(|| panic!("{name} {stage}")).get_gauge().get_value()
    };
    assert_eq!(value("NativeHistograms", "ALPHA"), 1.0);
    assert_eq!(value("JobManagedBy", ""), 1.0);
    assert_eq!(value("AllAlpha", "ALPHA"), 0.0);
}
