use super::*;

fn nothing(_: &ControllerContext) -> Result<Construction, BoxError> {
    Ok(Construction::declined("a row of a test"))
}

fn toys() -> Registry {
    Registry::new(vec![
        Descriptor::new("job-controller", &["job"], nothing),
        Descriptor::new("endpoints-controller", &["endpoint", "endpoints"], nothing),
        Descriptor::new("shy-controller", &["shy"], nothing).off_by_default(),
        Descriptor::elsewhere("far-controller", &["far"]),
    ])
}

/// What the list says about the job, endpoints, shy and far controllers.
fn choices(list: &str) -> [Choice; 4] {
    let items: Vec<&str> = list.split(',').filter(|item| !item.is_empty()).collect();
    let registry = toys();
    let selection = Selection::parse(&items, &registry).unwrap();
    std::array::from_fn(|row| selection.choice(&registry.rows()[row]))
}

#[test]
fn a_list_of_controllers_means_what_it_means_upstream() {
    use Choice::{ByDefault as D, Disabled as X, Named as N};
    for (list, expected) in [
        ("*", [D, D, X, D]),
        ("", [X, X, X, X]),
        ("job", [N, X, X, X]),
        ("job-controller", [N, X, X, X]),
        ("*,-job", [X, D, X, D]),
        ("-job,*", [X, D, X, D]),
        ("*,shy", [D, D, N, D]),
        ("-job", [X, X, X, X]),
        ("endpoints,job", [N, N, X, X]),
        // The first item that names a controller counts, by whichever of its names.
        ("job,-job-controller", [N, X, X, X]),
        ("-endpoint,endpoints,*", [D, X, X, D]),
        ("*,-far,shy,-shy", [D, D, N, X]),
    ] {
        assert_eq!(choices(list), expected, "{list:?}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_list_of_those_that_run_here() {
    for (item, name) in [("jobs", "jobs"), ("-jobs", "jobs"), ("**", "**"), ("", ""), ("--job", "-job")] {
        let error = Selection::parse(&["*", item], &toys()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{name:?} is not in the list of known controllers: job-controller (job), \
                 endpoints-controller (endpoint, endpoints), shy-controller (shy)"
            )
        );
    }
}

#[test]
fn the_list_that_kubeadm_writes_is_known() {
    Selection::parse(&["*", "bootstrapsigner", "tokencleaner"], &Registry::builtin()).unwrap();
}

#[test]
fn controllers_answer_to_upstreams_names_and_to_the_short_ones() {
    let registry = Registry::builtin();
    for (name, canonical) in [
        ("job", "job-controller"),
        ("endpoint", "endpoints-controller"),
        ("endpoints", "endpoints-controller"),
        ("podgc", "pod-garbage-collector-controller"),
    ] {
        let row = registry.rows().iter().find(|row| row.is_called(name)).unwrap();
        assert_eq!((row.name, row.by_default), (canonical, ByDefault::On));
    }
    assert_eq!(registry.rows().len(), 52, "kube-controller-manager 1.36 has 52");
}

#[test]
#[should_panic(expected = "must not share the name \"job\"")]
fn two_controllers_of_one_name_are_a_mistake_in_the_table() {
    let row = Descriptor::elsewhere("job", &[]);
    Registry::new(vec![Descriptor::elsewhere("job-controller", &["job"]), row]);
}
