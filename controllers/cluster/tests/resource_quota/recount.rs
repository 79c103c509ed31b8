//! Whatever happens, and whatever the caches show meanwhile: in the end `used` is what a count of all objects gives.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;

/// What may happen in a namespace.
#[derive(Clone, Debug)]
enum Event {
    CreatePod {
        pod: u8,
        cpu: u8,
        deadline: bool,
    },
    FinishPod(u8),
    ResizePod(u8, u8),
    DeletePod(u8),
    CreateSecret(u8),
    DeleteSecret(u8),
    CreateService(u8, bool),
    ChangeService(u8, bool),
    DeleteService(u8),
    /// Of this size, with the first or the second class.
    CreateClaim(u8, u8, bool),
    DeleteClaim(u8),
    CreateQuota(u8),
    ChangeQuota(u8),
    DeleteQuota(u8),
    /// Watches of a kind show changes later from now on.
    Lag(usize, u8),
    CutWatches,
    Wait(u8),
}

const WATCHED: [&str; 5] = ["pods", "secrets", "services", "persistentvolumeclaims", "resourcequotas"];

fn event() -> impl Strategy<Value = Event> {
    let few = || 0..3_u8;
    prop_oneof![
        4 => (few(), 1..4_u8, any::<bool>()).prop_map(|(pod, cpu, deadline)| Event::CreatePod { pod, cpu, deadline }),
        2 => few().prop_map(Event::FinishPod),
        2 => (few(), 1..4_u8).prop_map(|(pod, cpu)| Event::ResizePod(pod, cpu)),
        3 => few().prop_map(Event::DeletePod),
        2 => few().prop_map(Event::CreateSecret),
        2 => few().prop_map(Event::DeleteSecret),
        2 => (few(), any::<bool>()).prop_map(|(service, ports)| Event::CreateService(service, ports)),
        1 => (few(), any::<bool>()).prop_map(|(service, ports)| Event::ChangeService(service, ports)),
        1 => few().prop_map(Event::DeleteService),
        2 => (few(), 1..4_u8, any::<bool>()).prop_map(|(claim, size, fast)| Event::CreateClaim(claim, size, fast)),
        1 => few().prop_map(Event::DeleteClaim),
        3 => few().prop_map(Event::CreateQuota),
        1 => few().prop_map(Event::ChangeQuota),
        1 => few().prop_map(Event::DeleteQuota),
        2 => (0..WATCHED.len(), 0..8_u8).prop_map(|(kind, seconds)| Event::Lag(kind, seconds)),
        1 => Just(Event::CutWatches),
        4 => (0..8_u8).prop_map(Event::Wait),
    ]
}

/// The quota's resource for claims of the class `fast`.
fn of_class(resource: &str) -> String {
    format!("fast.storageclass.storage.k8s.io/{resource}")
}

/// The specs of the quotas.
fn spec(which: u8) -> Value {
    match which {
        0 => json!({"hard": {"pods": "99", "cpu": "99", "count/pods": "99"}}),
        1 => json!({"hard": {"pods": "99", "requests.cpu": "99"}, "scopes": ["Terminating"]}),
        _ => {
            json!({"hard": {
                "secrets": "99", "count/secrets": "99", "services": "99", "services.nodeports": "99",
                "persistentvolumeclaims": "99", "count/persistentvolumeclaims": "99", "requests.storage": "99Gi",
                (of_class("requests.storage")): "99Gi", (of_class("persistentvolumeclaims")): "99",
            }})
        }
    }
}

/// What the objects of the namespace use of a quota, counted in the plainest way.
fn recount(cluster: &Cluster, spec: &Value) -> BTreeMap<String, Quantity> {
    let all = |resource: &str, prefix: &str| -> Vec<Value> {
        let keys = (0..3).map(|number| format!("default/{prefix}{number}"));
        keys.map(|key| cluster.peek(resource, &key)).filter(|object| !object.is_null()).collect()
    };
    let mut used: BTreeMap<String, Quantity> =
        spec["hard"].as_object().unwrap().keys().map(|name| (name.clone(), Quantity::default())).collect();
    let mut add = |name: &str, amount: Quantity| {
        if let Some(sum) = used.get_mut(name) {
            *sum = *sum + amount;
        }
    };
    let one = Quantity::new(1);
    let is_terminating = spec["scopes"].is_array();
    for pod in all("pods", "p") {
        if is_terminating && pod["spec"]["activeDeadlineSeconds"].is_null() {
            continue;
        }
        add("count/pods", one);
        if pod["status"]["phase"] != "Succeeded" {
            let cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap();
            add("pods", one);
            ["cpu", "requests.cpu"].iter().for_each(|name| add(name, cpu.parse().unwrap()));
        }
    }
    for _ in all("secrets", "s") {
        ["secrets", "count/secrets"].iter().for_each(|name| add(name, one));
    }
    for service in all("services", "v") {
        add("services", one);
        if service["spec"]["type"] == "NodePort" {
            add("services.nodeports", one);
        }
    }
    for claim in all("persistentvolumeclaims", "c") {
        let size: Quantity =
            claim["spec"]["resources"]["requests"]["storage"].as_str().unwrap().parse().unwrap();
        ["persistentvolumeclaims", "count/persistentvolumeclaims"].iter().for_each(|name| add(name, one));
        add("requests.storage", size);
        if claim["spec"]["storageClassName"] == "fast" {
            add(&of_class("persistentvolumeclaims"), one);
            add(&of_class("requests.storage"), size);
        }
    }
    used
}

/// Carries out an event. The server may refuse it, for instance if there is no such object.
async fn happen(client: &kube::Client, cluster: &Cluster, event: &Event) {
    let api = |kind: &str| -> kube::Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
        kube::Api::namespaced_with(client.clone(), "default", &resource)
    };
    let create = async |kind: &str, object: Value| {
        let object = serde_json::from_value(object).unwrap();
        _ = api(kind).create(&PostParams::default(), &object).await;
    };
    let delete = async |kind: &str, name: String| {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        _ = api(kind).delete(&name, &now).await;
    };
    let patch = async |kind: &str, name: String, part: Option<&str>, patch: Value| {
        let params = kube::api::PatchParams::default();
        let patch = kube::api::Patch::Strategic(patch);
        _ = match part {
            None => api(kind).patch(&name, &params, &patch).await,
            Some(part) => api(kind).patch_subresource(part, &name, &params, &patch).await,
        };
    };
    let service_type = |ports: bool| if ports { "NodePort" } else { "ClusterIP" };
    let cpus =
        |cpu: u8| json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}]});
    match *event {
        Event::CreatePod { pod, cpu, deadline } => {
            let mut object = asking(&format!("p{pod}"), &cpu.to_string());
            if deadline {
                object["spec"]["activeDeadlineSeconds"] = 3600.into();
            }
            create("Pod", object).await;
        }
        Event::FinishPod(pod) => {
            patch("Pod", format!("p{pod}"), Some("status"), json!({"status": {"phase": "Succeeded"}})).await;
        }
        Event::ResizePod(pod, cpu) => {
            patch("Pod", format!("p{pod}"), Some("resize"), json!({"spec": cpus(cpu)})).await;
        }
        Event::DeletePod(pod) => delete("Pod", format!("p{pod}")).await,
        Event::CreateSecret(secret) => create("Secret", object("Secret", &format!("s{secret}"))).await,
        Event::DeleteSecret(secret) => delete("Secret", format!("s{secret}")).await,
        Event::CreateService(service, ports) => {
            let mut object = object("Service", &format!("v{service}"));
            object["spec"] = json!({"type": service_type(ports), "ports": [{"port": 80}]});
            create("Service", object).await;
        }
        Event::ChangeService(service, ports) => {
            patch("Service", format!("v{service}"), None, json!({"spec": {"type": service_type(ports)}}))
                .await;
        }
        Event::DeleteService(service) => delete("Service", format!("v{service}")).await,
        Event::CreateClaim(claim, size, fast) => {
            let mut object = object("PersistentVolumeClaim", &format!("c{claim}"));
            object["spec"] = json!({
                "accessModes": ["ReadWriteOnce"], "storageClassName": if fast { "fast" } else { "slow" },
                "resources": {"requests": {"storage": format!("{size}Gi")}},
            });
            create("PersistentVolumeClaim", object).await;
        }
        Event::DeleteClaim(claim) => {
            // No other controller removes the finalizer that admission adds.
            let name = format!("c{claim}");
            delete("PersistentVolumeClaim", name.clone()).await;
            patch("PersistentVolumeClaim", name, None, json!({"metadata": {"finalizers": null}})).await;
        }
        Event::CreateQuota(which) => {
            let mut quota = object("ResourceQuota", &format!("q{which}"));
            quota["spec"] = spec(which);
            create("ResourceQuota", quota).await;
        }
        Event::ChangeQuota(which) => {
            patch("ResourceQuota", format!("q{which}"), None, json!({"spec": {"hard": {"pods": "98"}}}))
                .await;
        }
        Event::DeleteQuota(which) => delete("ResourceQuota", format!("q{which}")).await,
        Event::Lag(kind, seconds) => {
            let calls = Calls::to(WATCHED[kind]).verb(Verb::Watch);
            cluster.server.faults().delay_watches(calls, Duration::from_secs(seconds.into()));
        }
        Event::CutWatches => cluster.server.faults().cut_watches(Calls::all()),
        Event::Wait(seconds) => tokio::time::sleep(Duration::from_secs(seconds.into())).await,
    }
}

async fn ends_in_a_recount(events: &[Event]) -> Result<(), TestCaseError> {
    let cluster = Cluster::start().await;
    let client = cluster.server.in_memory_client();
    let controller = run(&cluster);
    for event in events {
        happen(&client, &cluster, event).await;
    }
    // The caches catch up, and then the quotas come to rest.
    tokio::time::sleep(Duration::from_secs(120)).await;
    for which in 0..3 {
        let quota = cluster.peek("resourcequotas", &format!("default/q{which}"));
        if !quota.is_null() {
            prop_assert_eq!(
                amounts(&quota["status"]["used"]),
                recount(&cluster, &quota["spec"]),
                "{:#}",
                quota
            );
            prop_assert_eq!(amounts(&quota["status"]["hard"]), amounts(&quota["spec"]["hard"]));
        }
    }
    controller.stop().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn once_events_stop_used_equals_a_recount(events in proptest::collection::vec(event(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(ends_in_a_recount(&events))?;
    }
}
