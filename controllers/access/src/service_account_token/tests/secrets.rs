//! Secrets: by table, and with a server whose time is paused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_api::{ResourceVersion, Status};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_client::Clients;
use steersman_controller::options::OptionSet;
use steersman_controller::plan::Plan;
use steersman_controller::testing::{Cluster, Running, context, eventually, settle};
use steersman_informer::{SharedInformerFactory, factory};
use steersman_kinds::content_digest::ContentDigest;
use steersman_kinds::secret::TokenContents;
use tower::{ServiceExt, service_fn};

use super::super::plan::{Account, Missing, Observed, Step, plan};
use super::super::secrets::{missing_of, remove_reference};
use super::super::{ServiceAccountOptions, construct};

#[test]
fn a_secret_lacks_an_absent_token_or_namespace_and_another_authority() {
    let digest = |text: &str| Some(ContentDigest::of(text.as_bytes()));
    let all = TokenContents { ca: digest("CA"), has_namespace: true, has_token: true };
    let missing = |ca, namespace, token| Missing { ca, namespace, token };
    for (name, contents, wanted, expected) in [
        ("full", all, digest("CA"), missing(false, false, false)),
        ("empty", TokenContents::default(), digest("CA"), missing(true, true, true)),
        ("another authority", all, digest("CB"), missing(true, false, false)),
        ("no authority wanted", all, None, missing(false, false, false)),
        (
            "no namespace",
            TokenContents { has_namespace: false, ..all },
            digest("CA"),
            missing(false, true, false),
        ),
        ("no token", TokenContents { has_token: false, ..all }, digest("CA"), missing(false, false, true)),
    ] {
        assert_eq!(Missing::of(contents, wanted), expected, "{name}");
        assert_eq!(Missing::of(contents, wanted).is_none(), expected == missing(false, false, false));
    }
    let encoded = |text: &str| STANDARD.encode(text);
    for (data, ca, expected) in [
        (
            json!({"ca.crt": encoded("CA"), "namespace": encoded("n"), "token": encoded("t")}),
            "CA",
            [false; 3],
        ),
        (json!({"ca.crt": encoded("CB"), "namespace": "", "token": encoded("t")}), "CA", [true, true, false]),
        (Value::Null, "CA", [true; 3]),
        (Value::Null, "", [false, true, true]),
    ] {
        let Missing { ca, namespace, token } = missing_of(&json!({"data": data}), ca);
        assert_eq!([ca, namespace, token], expected, "{data}");
    }
}

#[test]
fn what_becomes_of_a_secret_depends_on_it_and_on_its_account() {
    let lacks = Missing { token: true, ..Missing::default() };
    let version = ResourceVersion(7);
    let cached = |missing, account| Observed::Cached { version, missing, account };
    let found = || Account::Found("u".into());
    for (observed, expected) in [
        (Observed::Settled, None),
        (Observed::Gone { has_account: false }, None),
        (Observed::Gone { has_account: true }, Some(Step::Unlink)),
        (cached(lacks, Account::Unknown), Some(Step::ReadAccount)),
        (cached(Missing::default(), Account::Unknown), Some(Step::ReadAccount)),
        (cached(lacks, Account::Gone), Some(Step::Delete)),
        (cached(Missing::default(), Account::Gone), Some(Step::Delete)),
        (cached(Missing::default(), found()), None),
        (cached(lacks, found()), Some(Step::Fill(version, "u".into()))),
    ] {
        assert_eq!(plan(&observed), expected.map_or(Plan::done(), Plan::step), "{observed:?}");
    }
}

#[test]
fn only_the_references_to_one_secret_are_removed() {
    let mut account = json!({"secrets": [{"name": "a"}, {"name": "b"}, {"name": "a"}]});
    assert!(remove_reference(&mut account, "a"));
    assert_eq!(account["secrets"], json!([{"name": "b"}]));
    assert!(!remove_reference(&mut account, "a"));
    assert!(!remove_reference(&mut json!({}), "a"));
}

fn options() -> OptionSet {
    let file = "src/service_account_token/testdata/rsa-pkcs1.pem";
    let key_file = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    OptionSet::default().with(ServiceAccountOptions { key_file, ..ServiceAccountOptions::default() })
}

fn run(cluster: &Cluster) -> Running {
    cluster.run_with(construct, options())
}

/// Runs the controller with caches whose field selectors the API server ignores.
fn run_without_selectors(cluster: &Cluster) -> Running {
    let server = cluster.server.in_memory();
    let service = service_fn(move |mut request: Request<Body>| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let kept: Vec<_> = query.split('&').filter(|part| !part.starts_with("fieldSelector=")).collect();
        *request.uri_mut() = format!("{path}?{}", kept.join("&")).parse().unwrap();
        server.clone().oneshot(request)
    });
    let (mut context, writers) = context(&cluster.server, options());
    let client = Clients::over(service).watch_client();
    context.informers = SharedInformerFactory::new(client, factory::Options::default());
    cluster.run_in((context, writers), construct)
}

async fn create_account(cluster: &Cluster, name: &str, secrets: &[&str]) -> String {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    let meta = json!({"name": name, "namespace": "default"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "secrets": secrets});
    cluster.create(&account).await;
    let account = cluster.peek("serviceaccounts", &format!("default/{name}"));
    account["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn create_secret(cluster: &Cluster, name: &str, account: &str, uid: Option<&str>) {
    let mut annotations = json!({"kubernetes.io/service-account.name": account});
    if let Some(uid) = uid {
        annotations["kubernetes.io/service-account.uid"] = uid.into();
    }
    let meta =
        json!({"name": name, "namespace": "default", "annotations": annotations, "labels": {"my": "own"}});
    let kind = "kubernetes.io/service-account-token";
    cluster.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind})).await;
}

#[tokio::test(start_paused = true)]
async fn secrets_of_other_types_stay_as_they_are_even_if_the_cache_shows_them() {
    let cluster = Cluster::start().await;
    create_account(&cluster, "robot", &[]).await;
    for (name, account) in [("without-account", "nobody"), ("of-account", "robot")] {
        let annotations = json!({"kubernetes.io/service-account.name": account});
        let meta = json!({"name": name, "namespace": "default", "annotations": annotations});
        cluster
            .create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"}))
            .await;
    }
    let secrets =
        || ["without-account", "of-account"].map(|name| cluster.peek("secrets", &format!("default/{name}")));
    let before = secrets();
    let running = run_without_selectors(&cluster);
    create_secret(&cluster, "token", "robot", None).await;
    filled(&cluster, "token").await;
    settle().await;
    assert_eq!(secrets(), before);
    cluster.delete("ServiceAccount", "default/robot").await;
    goes(&cluster, "token").await;
    settle().await;
    assert_eq!(secrets(), before);
    running.stop().await;
}

async fn filled(cluster: &Cluster, name: &str) -> Value {
    eventually(&format!("{name} is filled"), || {
        let secret = cluster.peek("secrets", &format!("default/{name}"));
        secret["data"]["token"].is_string().then_some(secret)
    })
    .await
}

async fn goes(cluster: &Cluster, name: &str) {
    eventually(&format!("{name} is deleted"), || {
        cluster.peek("secrets", &format!("default/{name}")).is_null().then_some(())
    })
    .await;
}

fn decoded(secret: &Value, key: &str) -> String {
    String::from_utf8(STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_secret_gets_its_token_once_and_keeps_it() {
    let cluster = Cluster::start().await;
    let running = run(&cluster);
    let uid = create_account(&cluster, "robot", &[]).await;
    create_secret(&cluster, "token", "robot", None).await;
    let secret = filled(&cluster, "token").await;
    assert_eq!(decoded(&secret, "namespace"), "default");
    assert_eq!(decoded(&secret, "ca.crt"), "the API server's CA");
    let annotations = &secret["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/service-account.uid"], uid);
    assert_eq!(secret["metadata"]["labels"], json!({"my": "own"}));

    let patch = json!({"data": {"ca.crt": null, "namespace": null, "extra": STANDARD.encode("x")}});
    cluster.patch("Secret", "default/token", patch).await;
    settle().await;
    let again = cluster.peek("secrets", "default/token");
    assert_eq!(decoded(&again, "ca.crt"), "the API server's CA");
    assert_eq!(
        (&again["data"]["token"], decoded(&again, "extra")),
        (&secret["data"]["token"], "x".to_owned())
    );

    cluster.patch("Secret", "default/token", json!({"data": {"token": null}})).await;
    let renewed = filled(&cluster, "token").await;
    assert_eq!(renewed["data"], again["data"], "RSA signs the same claims alike");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_without_its_account_is_deleted_and_so_are_those_of_a_deleted_account() {
    let cluster = Cluster::start().await;
    create_secret(&cluster, "early", "nobody", None).await;
    let running = run(&cluster);
    goes(&cluster, "early").await;
    let uid = create_account(&cluster, "robot", &[]).await;
    create_secret(&cluster, "other-uid", "robot", Some("of-an-earlier-robot")).await;
    goes(&cluster, "other-uid").await;

    create_secret(&cluster, "same-uid", "robot", Some(&uid)).await;
    create_secret(&cluster, "no-uid", "robot", None).await;
    for name in ["same-uid", "no-uid"] {
        filled(&cluster, name).await;
    }
    cluster.delete("ServiceAccount", "default/robot").await;
    for name in ["same-uid", "no-uid"] {
        goes(&cluster, name).await;
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_account_loses_its_reference_to_a_deleted_secret_whoever_writes_at_that_time() {
    let cluster = Cluster::start().await;
    create_account(&cluster, "robot", &["token", "other"]).await;
    create_secret(&cluster, "token", "robot", None).await;
    let running = run(&cluster);
    filled(&cluster, "token").await;
    let updates = Calls::to("serviceaccounts").verb(Verb::Update);
    let conflict = Status::failure(409, "Conflict", "another write came first");
    cluster.server.faults().fail(3, updates, Failure::Status(conflict.into()));
    cluster.delete("Secret", "default/token").await;
    eventually("the reference is removed", || {
        let account = cluster.peek("serviceaccounts", "default/robot");
        (account["secrets"] == json!([{"name": "other"}])).then_some(())
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_whose_state_the_cache_has_not_seen_gets_no_second_token() {
    let cluster = Cluster::start().await;
    create_account(&cluster, "robot", &[]).await;
    let running = run(&cluster);
    settle().await;
    let calls = cluster.server.record();
    create_secret(&cluster, "token", "robot", None).await;
    filled(&cluster, "token").await;
    settle().await;
    assert_eq!(calls.count(&Calls::to("secrets").verb(Verb::Update)), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn other_secrets_are_neither_read_nor_written() {
    let cluster = Cluster::start().await;
    let running = run(&cluster);
    let annotations = json!({"kubernetes.io/service-account.name": "nobody"});
    let meta = json!({"name": "opaque", "namespace": "default", "annotations": annotations});
    let calls = cluster.server.record();
    cluster.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"})).await;
    settle().await;
    assert!(cluster.peek("secrets", "default/opaque").is_object());
    assert_eq!(calls.count(&Calls::to("secrets").verb(Verb::Get)), 0);
    running.stop().await;
}
