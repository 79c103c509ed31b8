use serde_json::json;

use super::*;
use crate::{
    Clients,
    testing::{Reply, Scripted, answer},
};

/// A server whose group `example.com` gets the kind `Late` with its third answer, and whose `sick.io` never answers.
fn server() -> Scripted {
    let mut asked = 0;
    Scripted::new(move |request| {
        let document = if request.uri().path() == "/api" {
            json!({"kind": "APIVersions", "versions": []})
        } else {
            asked += 1;
            let resource = |version: &str, name: &str, kind: &str| {
                json!({"resource": name, "scope": "Cluster", "verbs": [],
                       "responseKind": {"group": "example.com", "version": version, "kind": kind}})
            };
            let mut v1 = vec![resource("v1", "widgets", "Widget")];
            if asked >= 3 {
                v1.push(resource("v1", "lates", "Late"));
            }
            let v2 = vec![resource("v2beta1", "widgets", "Widget"), resource("v2beta1", "gadgets", "Gadget")];
            json!({"kind": "APIGroupDiscoveryList", "items": [
                {"metadata": {"name": "example.com"}, "versions": [
                    {"version": "v1", "freshness": "Current", "resources": v1},
                    {"version": "v2beta1", "freshness": "Current", "resources": v2},
                ]},
                {"metadata": {"name": "sick.io"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
            ]})
        };
        answer(200, document.to_string())
    })
}

fn mapper(service: &Scripted) -> RestMapper {
    RestMapper::new(Clients::over(service.clone()).watch_client())
}

/// Number of discoveries that the server has answered.
fn asked(service: &Scripted) -> usize {
    service.seen().iter().filter(|seen| seen.path == "/apis").count()
}

#[tokio::test(start_paused = true)]
async fn kinds_and_resources_are_mapped_to_each_other() {
    let mapper = mapper(&server());
    let v2 = GroupVersionKind::new("example.com", "v2beta1", "Widget");
    assert_eq!(
        mapper.resource_for(&v2).await.unwrap().gvr,
        GroupVersionResource::new("example.com", "v2beta1", "widgets")
    );
    let preferred = async |kind| mapper.preferred_for("example.com", kind).await.unwrap().gvr.version.clone();
    assert_eq!(preferred("Widget").await, "v1");
    assert_eq!(preferred("Gadget").await, "v2beta1");
    let gadgets = GroupVersionResource::new("example.com", "v2beta1", "gadgets");
    assert_eq!(mapper.resource_at(&gadgets).await.unwrap().gvk.kind, "Gadget");
}

#[tokio::test(start_paused = true)]
async fn refreshes_that_wait_for_the_same_discovery_share_the_next_one() {
    let service = server();
    let mapper = mapper(&service);
    let all = futures::future::join_all((0..10).map(|_| mapper.refresh())).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(asked(&service), 2, "the first discovery began before the other calls");
    mapper.refresh().await.unwrap();
    assert_eq!(asked(&service), 3);
}

#[tokio::test(start_paused = true)]
async fn misses_ask_the_server_at_most_once_in_an_interval() {
    let service = server();
    let mapper = mapper(&service);
    let late = GroupVersionKind::new("example.com", "v1", "Late");
    let ask = || mapper.resource_for(&late);
    let outcomes = futures::future::join_all((0..10).map(|_| ask())).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::NoMatch(_)))));
    assert_eq!(asked(&service), 1);
    tokio::time::advance(REFRESH_INTERVAL - Duration::from_millis(1)).await;
    ask().await.unwrap_err();
    assert_eq!(asked(&service), 1);
    tokio::time::advance(Duration::from_millis(1)).await;
    ask().await.unwrap_err();
    assert_eq!(asked(&service), 2);
    ask().await.unwrap_err();
    mapper.reset().await;
    assert_eq!(ask().await.unwrap().gvr.resource, "lates");
    ask().await.unwrap();
    assert_eq!(asked(&service), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_sick_group_may_have_is_not_said_to_be_absent() {
    let mapper = mapper(&server());
    for group in ["sick.io", "absent.io"] {
        let outcomes = [
            mapper.resource_for(&GroupVersionKind::new(group, "v1", "Thing")).await,
            mapper.preferred_for(group, "Thing").await,
            mapper.resource_at(&GroupVersionResource::new(group, "v1", "things")).await,
        ];
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert_eq!(matches!(error, Error::GroupSick { .. }), group == "sick.io", "{error}");
            assert_eq!(matches!(error, Error::NoMatch(_)), group == "absent.io", "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_is_not_asked_without_pause_either() {
    let service = Scripted::new(|_| Reply::Answer(503, &[], String::new()));
    let mapper = mapper(&service);
    let late = GroupVersionKind::new("example.com", "v1", "Late");
    assert!(matches!(mapper.resource_for(&late).await, Err(Error::Discover(_))));
    let error = mapper.resource_for(&late).await.unwrap_err();
    assert!(
        matches!(error, Error::Discover(_)),
        "that it was not asked again does not mean that there is none: {error}"
    );
    assert_eq!(asked(&service), 1);
    mapper.refresh().await.unwrap_err();
    assert_eq!(asked(&service), 2);
}
