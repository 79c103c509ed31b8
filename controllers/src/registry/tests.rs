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

/// A context over a server in memory.
async fn context() -> (steersman_apiserver::TestServer, ControllerContext) {
    use steersman_client::{Clients, RestMapper, events};
    use steersman_informer::SharedInformerFactory;
    use steersman_informer::work_queue::MetricsProvider;

    let server = steersman_apiserver::TestServer::start().await;
    let clients = Clients::over(server.in_memory());
    let metrics = prometheus::Registry::new();
    let (events, _writer) = events::broadcaster(clients.component("test"), events::Metrics::new());
    let context = ControllerContext {
        informers: SharedInformerFactory::new(clients.watch_client(), Default::default()),
        rest_mapper: Arc::new(RestMapper::new(clients.component("discovery"))),
        queue_metrics: MetricsProvider::register(&metrics).unwrap(),
        clock: crate::context::Clock::wall(),
        options: Arc::default(),
        clients,
        events,
        metrics,
    };
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

#[tokio::test]
async fn all_controllers_of_the_table_are_built_over_shared_caches() {
    let (_server, context) = context().await;
    let built = build(Registry::builtin().rows().to_vec(), &context).unwrap();
    let here =
        Registry::builtin().rows().iter().filter(|row| row.is_here()).map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(built, here);
    let mut resources: Vec<_> =
        context.informers.informers().iter().map(|i| i.resource().to_string()).collect();
    let asked = resources.len();
    resources.dedup();
    assert_eq!(resources.len(), asked, "each kind is cached once");
}
