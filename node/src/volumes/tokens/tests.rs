use std::collections::VecDeque;

use k8s_openapi::api::authentication::v1::TokenRequestStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;

/// Gives out `token-1`, `token-2`, ...; fails as often as told.
struct Scripted {
    now: Arc<Mutex<Timestamp>>,
    asked: Mutex<Vec<(String, TokenRequest)>>,
    failures: Mutex<VecDeque<String>>,
    /// Seconds that a token is good for, where the request does not say.
    life: i64,
}

#[async_trait]
impl TokenSource for Scripted {
    async fn request(
        &self,
        namespace: &str,
        account: &str,
        request: &TokenRequest,
    ) -> Result<TokenRequest, String> {
        if let Some(failure) = self.failures.lock().pop_front() {
            return Err(failure);
        }
        let mut asked = self.asked.lock();
        asked.push((format!("{namespace}/{account}"), request.clone()));
        let mut answer = request.clone();
        let life = *answer.spec.get_or_insert_default().expiration_seconds.get_or_insert(self.life);
        let expires = *self.now.lock() + jiff::SignedDuration::from_secs(life);
        answer.status = Some(TokenRequestStatus {
            token: Some(format!("token-{}", asked.len())),
            expiration_timestamp: Some(Time(expires)),
        });
        Ok(answer)
    }
}

struct Bench {
    source: Arc<Scripted>,
    manager: TokenManager,
}

impl Bench {
    fn new() -> Self {
        let now = Arc::new(Mutex::new(Timestamp::UNIX_EPOCH));
        let source = Arc::new(Scripted {
            now: Arc::clone(&now),
            asked: Mutex::default(),
            failures: Mutex::default(),
            life: 3600,
        });
        let manager = TokenManager::new(source.clone(), Arc::new(move || *now.lock()));
        Self { source, manager }
    }

    fn pass(&self, seconds: i64) {
        *self.source.now.lock() += jiff::SignedDuration::from_secs(seconds);
    }

    async fn token(&self, pod: &str) -> Result<String, String> {
        self.manager.token(&self::pod(pod), "", Some(3607)).await
    }
}

fn pod(uid: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": format!("pod-{uid}"), "namespace": "default", "uid": uid },
        "spec": { "serviceAccountName": "robot", "containers": [] },
    }))
    .unwrap()
}

#[tokio::test]
async fn a_token_is_asked_for_once_bound_to_its_pod() {
    let bench = Bench::new();
    assert_eq!(bench.token("1").await.as_deref(), Ok("token-1"));
    assert_eq!(bench.token("1").await.as_deref(), Ok("token-1"));
    let vault = bench.manager.token(&pod("1"), "vault", None).await;
    assert_eq!(vault.as_deref(), Ok("token-2"));
    let asked = bench.source.asked.lock().clone();
    assert_eq!(asked[0].0, "default/robot");
    let spec = serde_json::to_value(&asked[0].1.spec).unwrap();
    assert_eq!(
        spec,
        json!({
            "expirationSeconds": 3607,
            "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "pod-1", "uid": "1" },
        })
    );
    assert_eq!(asked[1].1.spec.as_ref().unwrap().audiences.as_deref(), Some(&["vault".to_owned()][..]));
}

#[tokio::test]
async fn a_token_is_replaced_once_four_fifths_of_its_life_are_over() {
    let bench = Bench::new();
    bench.token("1").await.unwrap();
    bench.pass(2870);
    assert_eq!(bench.token("1").await.as_deref(), Ok("token-1"));
    bench.pass(20);
    assert_eq!(bench.token("1").await.as_deref(), Ok("token-2"));
}

#[test]
fn the_moment_of_replacement_is_upstreams() {
    let day = 24 * 60 * 60;
    let second = |second| Timestamp::from_second(second).unwrap();
    for (life, age, jitter, expected) in [
        (1000, 799, 0, false),
        (1000, 801, 0, true),
        (1000, 795, 10, true),
        (1000, 1001, 0, true),
        (100 * day, day - 1, 0, false),
        (100 * day, day + 1, 0, true),
        (100 * day, day - 5, 10, true),
    ] {
        let kept = Kept { token: String::new(), expires: second(life), seconds: Some(life) };
        let needed = needs_replacement(&kept, second(age), Duration::from_secs(jitter));
        assert_eq!(needed, expected, "life {life}, age {age}, jitter {jitter}");
    }
    let ageless = Kept { token: String::new(), expires: second(10), seconds: None };
    assert!(!needs_replacement(&ageless, second(9), Duration::ZERO));
}

#[tokio::test]
async fn an_old_token_serves_to_its_end_when_no_other_is_to_be_had() {
    let bench = Bench::new();
    bench.token("1").await.unwrap();
    bench.pass(3000);
    bench.source.failures.lock().extend(["away".to_owned(), "away".to_owned()]);
    assert_eq!(bench.token("1").await.as_deref(), Ok("token-1"));
    bench.pass(1000);
    let refused = bench.token("1").await.unwrap_err();
    assert_eq!(refused, "token of default/robot expired and refresh failed: away");
    assert_eq!(bench.token("1").await.as_deref(), Ok("token-2"));
}

#[tokio::test]
async fn a_first_token_that_is_refused_is_an_error_in_the_servers_words() {
    let bench = Bench::new();
    bench.source.failures.lock().push_back("serviceaccounts \"robot\" not found".to_owned());
    let refused = bench.token("1").await.unwrap_err();
    assert_eq!(refused, "failed to fetch token: serviceaccounts \"robot\" not found");
    assert!(NoTokens.request("", "", &TokenRequest::default()).await.is_err());
}

#[tokio::test]
async fn tokens_are_forgotten_with_their_pod_and_after_their_end() {
    let bench = Bench::new();
    for pod in ["1", "2", "3"] {
        bench.token(pod).await.unwrap();
    }
    bench.manager.forget("1");
    assert_eq!(bench.manager.len(), 2);
    bench.pass(4000);
    bench.token("2").await.unwrap();
    assert_eq!(bench.manager.len(), 1);
    bench.manager.forget("2");
    assert!(bench.manager.is_empty());
}
