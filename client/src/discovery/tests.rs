use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::{
    Clients,
    testing::{Reply, Scripted, answer},
};

fn gv(api_version: &str) -> GroupVersion {
    GroupVersion::parse(api_version)
}

/// Answers by path, and with 404 for other paths. Without an aggregated answer, a request for one gets the legacy
/// list.
fn server(answers: impl IntoIterator<Item = (&'static str, Result<Value, u16>)>) -> Scripted {
    let answers: BTreeMap<_, _> = answers.into_iter().collect();
    Scripted::new(move |request| match answers.get(request.uri().path()) {
        Some(Ok(document)) => answer(200, document.to_string()),
        Some(Err(status)) => answer(*status, r#"{"kind":"Status","status":"Failure","message":"ill"}"#),
        None => answer(404, ""),
    })
}

async fn ask(service: Scripted, last: &Discovered) -> Result<Discovered, Error> {
    Discovered::ask(&Clients::over(service).watch_client(), last).await
}

fn aggregated(items: Value) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

fn aggregated_core() -> Value {
    aggregated(json!([{"versions": [{"version": "v1", "freshness": "Current", "resources": [{
        "resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "scope": "Namespaced",
        "singularResource": "pod", "verbs": ["get", "list"], "shortNames": ["po"], "categories": ["all"],
        "subresources": [
            {"subresource": "eviction", "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}, "verbs": ["create"]},
            {"subresource": "status", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "verbs": ["get"]},
        ],
    }]}]}]))
}

fn widgets(version: &str, freshness: &str, resources: &[&str]) -> Value {
    let resources: Vec<Value> = resources
        .iter()
        .map(|name| {
            json!({"resource": name, "scope": "Cluster", "verbs": ["get"],
                   "responseKind": {"group": "example.com", "version": version, "kind": name.to_uppercase()}})
        })
        .collect();
    json!({"version": version, "freshness": freshness, "resources": resources})
}

fn with_widgets(versions: &[Value]) -> Scripted {
    let named = aggregated(json!([{"metadata": {"name": "example.com"}, "versions": versions}]));
    server([("/api", Ok(aggregated_core())), ("/apis", Ok(named))])
}

fn legacy_core() -> [(&'static str, Result<Value, u16>); 2] {
    let list = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get", "list"],
         "shortNames": ["po"], "categories": ["all"]},
        {"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
         "kind": "Eviction", "verbs": ["create"]},
        {"name": "pods/status", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
    ]});
    [("/api", Ok(json!({"kind": "APIVersions", "versions": ["v1"]}))), ("/api/v1", Ok(list))]
}

fn legacy_groups() -> (&'static str, Result<Value, u16>) {
    let version = |group: &str, version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let groups = json!({"kind": "APIGroupList", "groups": [
        {"name": "sick.io", "versions": [version("sick.io", "v1")], "preferredVersion": version("sick.io", "v1")},
        {"name": "batch", "versions": [version("batch", "v1beta1"), version("batch", "v1")],
         "preferredVersion": version("batch", "v1")},
    ]});
    ("/apis", Ok(groups))
}

fn legacy_list(resources: &[&str]) -> Value {
    let resources: Vec<Value> = resources
        .iter()
        .map(|name| json!({"name": name, "singularName": "", "namespaced": true, "kind": name.to_uppercase(), "verbs": []}))
        .collect();
    json!({"kind": "APIResourceList", "resources": resources})
}

fn names(discovered: &Discovered) -> BTreeSet<String> {
    let name = |resource: &Arc<Resource>| format!("{}/{}", resource.gvr, resource.gvr.version);
    discovered.resources().map(name).collect()
}

#[tokio::test]
async fn both_forms_of_discovery_tell_the_same() {
    let none = ("/apis", Ok(json!({"kind": "APIGroupList", "groups": []})));
    let new = server([("/api", Ok(aggregated_core())), none.clone()]);
    let old = server(legacy_core().into_iter().chain([none]));
    let new = ask(new, &Discovered::default()).await.unwrap();
    assert_eq!(new, ask(old, &Discovered::default()).await.unwrap());

    let pods = new.resources().next().unwrap();
    assert_eq!(pods.gvk, GroupVersionKind::new("", "v1", "Pod"));
    assert_eq!(pods.scope, Scope::Namespaced);
    assert!(pods.supports("list") && !pods.supports("watch"));
    assert_eq!(pods.subresource("eviction").unwrap().gvk, GroupVersionKind::new("policy", "v1", "Eviction"));
    assert_eq!(pods.subresource("status").unwrap().gvk, pods.gvk);
    assert_eq!(pods.api_resource().api_version, "v1");
    assert!(new.sick.is_empty());
}

#[tokio::test]
async fn aggregated_discovery_takes_two_requests() {
    let service = with_widgets(&[widgets("v1", "Current", &["a"])]);
    ask(service.clone(), &Discovered::default()).await.unwrap();
    let seen = service.seen();
    assert_eq!(seen.len(), 2);
    let accept = seen[0].headers[ACCEPT].to_str().unwrap();
    assert!(
        accept.starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"),
        "{accept}"
    );
}

#[tokio::test]
async fn a_group_that_fails_is_reported_beside_the_rest() {
    let well = |path| (path, Ok(legacy_list(&["jobs"])));
    let service = server(legacy_core().into_iter().chain([
        legacy_groups(),
        ("/apis/sick.io/v1", Err(503)),
        well("/apis/batch/v1"),
        ("/apis/batch/v1beta1", Ok(json!("nonsense"))),
    ]));
    let found = ask(service, &Discovered::default()).await.unwrap();
    assert_eq!(names(&found), ["jobs.batch/v1".to_owned(), "pods/v1".to_owned()].into());
    assert_eq!(found.sick.keys().collect::<Vec<_>>(), [&gv("batch/v1beta1"), &gv("sick.io/v1")]);
    assert_eq!(found.sick[&gv("sick.io/v1")].remedy, Remedy::Nothing);
    assert!(found.sick[&gv("batch/v1beta1")].reason.contains("can't be decoded"));
}

#[tokio::test]
async fn a_group_that_falls_ill_keeps_its_last_good_answer() {
    let healthy = |sick: Result<Value, u16>| {
        server(legacy_core().into_iter().chain([
            legacy_groups(),
            ("/apis/sick.io/v1", sick),
            ("/apis/batch/v1", Ok(legacy_list(&["jobs", "cronjobs"]))),
            ("/apis/batch/v1beta1", Ok(legacy_list(&["cronjobs"]))),
        ]))
    };
    let mut found = ask(healthy(Ok(legacy_list(&["things"]))), &Discovered::default()).await.unwrap();
    assert!(found.sick.is_empty());
    let all = names(&found);
    // Twice: a replaced response is still good the second time.
    for _ in 0..2 {
        found = ask(healthy(Err(503)), &found).await.unwrap();
        assert_eq!(names(&found), all);
        assert_eq!(found.sick[&gv("sick.io/v1")].remedy, Remedy::LastGood);
    }
    found = ask(healthy(Ok(legacy_list(&["others"]))), &found).await.unwrap();
    assert!(found.sick.is_empty() && names(&found).contains("others.sick.io/v1"));

    let preferred: Vec<String> =
        found.preferred_resources().map(|r| format!("{}/{}", r.gvr, r.gvr.version)).collect();
    assert_eq!(preferred, ["pods/v1", "others.sick.io/v1", "jobs.batch/v1", "cronjobs.batch/v1"]);
}

#[tokio::test]
async fn a_stale_version_of_an_aggregated_document_is_ill() {
    let ill = with_widgets(&[widgets("v1", "Stale", &[]), widgets("v2", "Stale", &["c"])]);
    let first = ask(ill, &Discovered::default()).await.unwrap();
    let nothing = &first.sick[&gv("example.com/v1")];
    assert_eq!(nothing.remedy, Remedy::Nothing);
    assert_eq!(nothing.reason, "stale GroupVersion discovery: example.com/v1");
    assert_eq!(first.sick[&gv("example.com/v2")].remedy, Remedy::Outdated);
    assert!(names(&first).contains("c.example.com/v2"));

    let good = ask(with_widgets(&[widgets("v1", "Current", &["a", "b"])]), &first).await.unwrap();
    assert!(good.sick.is_empty());
    let stale = ask(with_widgets(&[widgets("v1", "Stale", &["a"])]), &good).await.unwrap();
    assert_eq!(stale.sick[&gv("example.com/v1")].remedy, Remedy::LastGood);
    assert_eq!(names(&stale), names(&good));
}

#[tokio::test]
async fn what_is_known_survives_a_server_that_does_not_answer_at_all() {
    let known = ask(with_widgets(&[widgets("v1", "Current", &["a"])]), &Discovered::default()).await.unwrap();
    let down = server([("/api", Err(500)), ("/apis", Err(503))]);
    let still = ask(down.clone(), &known).await.unwrap();
    assert_eq!(names(&still), names(&known));
    assert_eq!(still.sick.len(), 2);
    assert_eq!(still.down.iter().map(|error| error.path).collect::<Vec<_>>(), ["/api", "/apis"]);
    let error = ask(down, &Discovered::default()).await.unwrap_err();
    assert_eq!(error.path, "/api");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_does_not_answer_in_time_is_ill() {
    let service = Scripted::new(|request| match request.uri().path() {
        "/api" => answer(200, aggregated_core().to_string()),
        "/apis" => answer(200, legacy_groups().1.unwrap().to_string()),
        "/apis/sick.io/v1" => Reply::Hang,
        _ => answer(200, legacy_list(&["jobs"]).to_string()),
    });
    let found = ask(service, &Discovered::default()).await.unwrap();
    assert!(found.sick[&gv("sick.io/v1")].reason.contains("no answer within"));
    assert!(names(&found).contains("jobs.batch/v1"));
}
