//! The situations of upstream's `TestLegacyServiceAccountTokenCleanUp`: by table, and with a server whose time is paused.

use std::time::Duration;

use jiff::civil::Date;
use serde_json::{Value, json};
use steersman_api::{ObjectKey, ResourceVersion, Time};
use steersman_apiserver::{Calls, Verb};
use steersman_controller::options::OptionSet;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::testing::{self, Cluster, eventually, settle};

use super::plan::{Observed, Step, Token, date, plan};
use super::{LegacyTokenCleanerOptions, construct};

const DAY: i64 = 24 * 60 * 60;
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn now() -> Time {
    serde_json::from_value(json!("2026-06-15T12:00:00Z")).unwrap()
}

fn days_ago(days: i64) -> Time {
    Time::from_seconds(now().seconds() - days * DAY)
}

fn day(text: &str) -> Date {
    date(text).unwrap()
}

/// A token that was created two years ago, and not used since its use is tracked.
fn token(name: &str) -> Token {
    Token {
        key: ObjectKey::new("ns", name),
        uid: name.into(),
        version: ResourceVersion(1),
        created: Some(days_ago(730)),
        last_used: None,
        invalid_since: None,
    }
}

/// A round of which no pod uses a token, and whose uses have been tracked for three years.
fn round(tokens: Vec<Token>) -> Observed {
    let used = [("ns".into(), Some(["mounted".to_owned()].into()))].into();
    Observed { tracked_since: day("2023-06-15"), tokens, used, is_over: false }
}

fn steps(observed: &Observed) -> Vec<Step> {
    match plan(observed, YEAR, now()) {
        Plan::Done { requeue_after: None } => Vec::new(),
        Plan::Act(Batch { steps, pace: Pace::Together(1), on_failure: OnFailure::PlanAgain }) => steps,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_date_is_ten_characters_of_a_day_that_exists() {
    assert_eq!(date("2024-02-29"), Some(Date::constant(2024, 2, 29)));
    for text in ["", "2023-02-29", "2024-13-01", "2024-2-29", "24-02-29", "2024-02-29T00", "+024-02-29", "x"]
    {
        assert_eq!(date(text), None, "{text:?}");
    }
}

#[test]
fn a_token_that_was_unused_for_the_period_is_marked_and_then_deleted() {
    let mark = |token: &Token| Some(Step::Mark(token.clone(), day("2026-06-15")));
    let delete = |token: &Token| Some(Step::Delete(token.clone()));
    let none = |_: &Token| None;
    for (name, token, expected) in [
        ("never used", token("a"), &mark as &dyn Fn(&Token) -> Option<Step>),
        ("of unknown age", Token { created: None, ..token("a") }, &mark),
        ("as old as the period", Token { created: Some(days_ago(365)), ..token("a") }, &none),
        (
            "a second older",
            Token { created: Some(Time::from_seconds(days_ago(365).seconds() - 1)), ..token("a") },
            &mark,
        ),
        ("used yesterday", Token { last_used: Some(day("2026-06-14")), ..token("a") }, &none),
        ("used a year ago", Token { last_used: Some(day("2025-06-15")), ..token("a") }, &none),
        ("used a day earlier", Token { last_used: Some(day("2025-06-14")), ..token("a") }, &mark),
        ("used by a pod", token("mounted"), &none),
        ("marked yesterday", Token { invalid_since: Some(day("2026-06-14")), ..token("a") }, &none),
        ("marked a year ago", Token { invalid_since: Some(day("2025-06-15")), ..token("a") }, &none),
        ("marked a day earlier", Token { invalid_since: Some(day("2025-06-14")), ..token("a") }, &delete),
        (
            "marked, and used by a pod",
            Token { invalid_since: Some(day("2025-06-14")), ..token("mounted") },
            &none,
        ),
    ] {
        let expected: Vec<Step> = expected(&token).into_iter().collect();
        assert_eq!(steps(&round(vec![token])), expected, "{name}");
    }
}

#[test]
fn nothing_is_decided_before_uses_were_tracked_for_the_period() {
    for (since, expected) in [("2025-06-15", 0), ("2025-06-14", 1), ("2026-06-15", 0)] {
        let observed = Observed { tracked_since: day(since), ..round(vec![token("a")]) };
        assert_eq!(steps(&observed).len(), expected, "{since}");
    }
}

#[test]
fn only_the_pods_of_stale_tokens_are_listed_and_a_failed_list_spares_its_namespace() {
    let in_namespace =
        |namespace: &str, name: &str| Token { key: ObjectKey::new(namespace, name), ..token(name) };
    let used = Token { last_used: Some(day("2026-06-14")), ..in_namespace("busy", "a") };
    let tokens = vec![in_namespace("b", "x"), in_namespace("a", "y"), in_namespace("b", "z"), used];
    let mut observed = Observed { used: Default::default(), ..round(tokens) };
    assert_eq!(steps(&observed), [Step::ListPods("a".into()), Step::ListPods("b".into())]);
    observed.used = [("a".into(), None), ("b".into(), Some(["z".to_owned()].into()))].into();
    assert_eq!(steps(&observed), [Step::Mark(in_namespace("b", "x"), day("2026-06-15"))]);
    observed.is_over = true;
    assert_eq!(steps(&observed), []);
}

async fn create_account(cluster: &Cluster, secrets: &[&str]) {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    let meta = json!({"name": "robot", "namespace": "default"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "secrets": secrets});
    cluster.create(&account).await;
}

async fn create_secret(cluster: &Cluster, name: &str, labels: Value) {
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let meta = json!({"name": name, "namespace": "default", "annotations": annotations, "labels": labels});
    let kind = "kubernetes.io/service-account-token";
    cluster.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind})).await;
}

/// What an API server says that has tracked uses for years.
async fn say_tracked_since(cluster: &Cluster, since: &str) {
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let meta = json!({"name": name, "namespace": "kube-system"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"since": since}});
    cluster.create(&map).await;
}

#[tokio::test(start_paused = true)]
async fn a_round_marks_and_deletes_what_is_unused_and_spares_the_rest() {
    let cluster = Cluster::start().await;
    say_tracked_since(&cluster, "2020-01-01").await;
    create_account(&cluster, &["unused", "marked", "badly-marked", "mounted", "used", "unclear"]).await;
    let invalid = |since: &str| json!({"kubernetes.io/legacy-token-invalid-since": since});
    let used = |at: &str| json!({"kubernetes.io/legacy-token-last-used": at});
    let today = cluster.server.clock().now().to_string()[..10].to_owned();
    for (name, labels) in [
        ("unused", json!({})),
        ("marked", invalid("2021-01-01")),
        ("badly-marked", invalid("yesterday")),
        ("mounted", invalid("2021-01-01")),
        ("used", used(&today)),
        ("unclear", used("lately")),
        ("manual", json!({})),
    ] {
        create_secret(&cluster, name, labels).await;
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
        },
    });
    cluster.create(&pod).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let calls = cluster.server.record();
    let period = LegacyTokenCleanerOptions { clean_up_period: Duration::from_secs(5) };
    let running = cluster.run_with(construct, OptionSet::default().with(period));
    let label = |name: &str| {
        let secret = cluster.peek("secrets", &format!("default/{name}"));
        secret["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"].clone()
    };
    eventually("the round is over", || {
        let deleted = cluster.peek("secrets", "default/marked").is_null();
        (deleted && label("unused") == today && label("badly-marked") == today).then_some(())
    })
    .await;
    settle().await;
    for name in ["used", "unclear", "manual"] {
        assert!(cluster.peek("secrets", &format!("default/{name}")).is_object() && label(name).is_null());
    }
    assert_eq!(label("mounted"), "2021-01-01");
    let writes = [Verb::Patch, Verb::Delete].map(|verb| calls.count(&Calls::to("secrets").verb(verb)));
    assert_eq!(writes, [2, 1]);
    running.stop().await;
}

#[tokio::test]
async fn a_period_of_zero_is_refused() {
    let server = steersman_apiserver::TestServer::start().await;
    let options = LegacyTokenCleanerOptions { clean_up_period: Duration::ZERO };
    let (context, _writers) = testing::context(&server, OptionSet::default().with(options));
    let error = construct(&context).err().unwrap().to_string();
    assert!(error.starts_with("--legacy-service-account-token-clean-up-period "), "{error}");
}
