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
#[should_panic(expected = "must not share the name \"job\"")]
fn two_controllers_of_one_name_are_a_mistake_in_the_table() {
    let row = Descriptor::elsewhere("job", &[]);
    Registry::new(vec![Descriptor::elsewhere("job-controller", &["job"]), row]);
}

async fn context() -> (steersman_apiserver::TestServer, ControllerContext) {
    let server = steersman_apiserver::TestServer::start().await;
    let (context, _writer) = crate::testing::context(&server, OptionSet::default());
    (server, context)
}

fn idle(_: &ControllerContext) -> Result<Construction, BoxError> {
    Ok(Construction::new([], []))
}

fn broken(_: &ControllerContext) -> Result<Construction, BoxError> {
    Err("no key to sign with".into())
}

fn build(rows: Vec<Descriptor>, context: &ControllerContext) -> Result<Vec<&'static str>, String> {
    let registry = Registry::new(rows);
    let selection = Selection::parse(&["*"], &registry).unwrap();
    let built = registry.build(&selection, context, &Metrics::new());
    built.map(|controllers| controllers.names().collect()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn only_controllers_that_are_wanted_and_that_want_to_are_built() {
    let (_server, context) = context().await;
    let rows = vec![
        Descriptor::new("idle-controller", &[], idle),
        Descriptor::new("declining-controller", &[], nothing),
        Descriptor::new("shy-controller", &[], broken).off_by_default(),
        Descriptor::elsewhere("far-controller", &[]),
    ];
    assert_eq!(build(rows, &context), Ok(vec!["idle-controller"]));
}

#[tokio::test]
async fn a_constructor_that_fails_ends_the_start_with_its_error() {
    let (_server, context) = context().await;
    let rows = vec![
        Descriptor::new("idle-controller", &[], idle),
        Descriptor::new("broken-controller", &[], broken),
    ];
    assert_eq!(build(rows, &context), Err("building broken-controller: no key to sign with".to_owned()));
}
