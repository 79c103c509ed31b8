//! Tokens of accounts against scripted answers, under paused time.

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    Clients,
    fault::surely_not_done,
    service::box_body,
    testing::{Reply, Scripted, Seen, answer, request},
};

/// An API server that grants tokens, and the requests that reached it.
struct Bench {
    /// Takes the requests that have the credentials of the process.
    own: Scripted,
    /// Takes the others.
    anonymous: Scripted,
    clients: Clients,
}

impl Bench {
    /// `own` answers calls for accounts and tokens, and `others` all others.
    fn new(own: Scripted, others: Scripted) -> Self {
        let anonymous = BaseService::new(others.clone().map_response(box_body));
        let clients = Clients::over(own.clone()).with_accounts_over("kube-system", anonymous, None);
        Self { own, anonymous: others, clients }
    }

    /// Sends a write as an account; returns the outcome's status and the token of the last request.
    async fn write(&self, account: &str) -> Result<(u16, String), kube::Error> {
        let sender = self.clients.acting_as(account).sender("ignored");
        let write = request(Method::POST, "/api/v1/namespaces/a/pods").map(|_| bytes::Bytes::new());
        let status = sender.send(write).await?.status().as_u16();
        let seen = self.anonymous.seen().pop().unwrap();
        Ok((status, seen.headers[AUTHORIZATION].to_str().unwrap().to_owned()))
    }

    fn paths(&self) -> Vec<String> {
        self.own.seen().iter().map(|seen: &Seen| seen.path.clone()).collect()
    }
}

/// Grants `token` for this many seconds.
fn grant(token: &str, seconds: u64) -> Reply {
    answer(201, json!({"spec": {"expirationSeconds": seconds}, "status": {"token": token}}).to_string())
}

fn refuse(code: u16, reason: &str) -> Reply {
    let status: Value =
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason});
    answer(code, status.to_string())
}

/// Any path of the account `name` in `kube-system`.
fn token_of(name: &str) -> String {
    format!("/api/v1/namespaces/kube-system/serviceaccounts/{name}/token")
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_account_share_its_token_and_others_have_their_own() {
    let own = Scripted::in_turn([grant("one", 3600), grant("two", 3600)]);
    let bench = Bench::new(own, Scripted::in_turn([]));
    for (account, token) in [("a", "one"), ("a", "one"), ("b", "two"), ("a", "one")] {
        assert_eq!(bench.write(account).await.unwrap(), (200, format!("Bearer {token}")));
    }
    assert_eq!(bench.paths(), [token_of("a"), token_of("b")]);
    let agent = bench.anonymous.seen()[0].headers[http::header::USER_AGENT].clone();
    assert!(agent.to_str().unwrap().ends_with("kubernetes/system:serviceaccount:kube-system:a"), "{agent:?}");
    let body: Value = serde_json::from_slice(&bench.own.seen()[0].body).unwrap();
    assert_eq!(body["spec"]["expirationSeconds"], 3600);
}

#[tokio::test(start_paused = true)]
async fn leases_watches_and_clients_without_an_account_keep_the_credentials_of_the_process() {
    let bench = Bench::new(Scripted::in_turn([]), Scripted::in_turn([]));
    let acting = bench.clients.acting_as("a");
    for client in
        [acting.watch_client(), acting.lease_client("leader-election"), bench.clients.component("x")]
    {
        client.send(request(Method::GET, "/api/v1/pods")).await.unwrap();
    }
    assert_eq!((bench.own.seen().len(), bench.anonymous.seen().len()), (3, 0));
    // Without service accounts, to act as one changes nothing.
    let plain = Clients::over(bench.own.clone());
    plain.acting_as("a").component("x").send(request(Method::GET, "/api/v1/pods")).await.unwrap();
    let agent = bench.own.seen()[3].headers[http::header::USER_AGENT].clone();
    assert!(agent.to_str().unwrap().ends_with("kubernetes/x"), "{agent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_account_is_created_and_its_namespace_too() {
    const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";
    let token = token_of("a");
    let missing = || refuse(404, "NotFound");
    for (script, paths) in [
        (vec![missing(), answer(201, "{}"), grant("t", 600)], vec![&*token, ACCOUNTS, &token]),
        // Another process was quicker.
        (vec![missing(), refuse(409, "AlreadyExists"), grant("t", 600)], vec![&token, ACCOUNTS, &token]),
        (
            vec![missing(), missing(), answer(201, "{}"), answer(201, "{}"), grant("t", 600)],
            vec![&token, ACCOUNTS, "/api/v1/namespaces", ACCOUNTS, &token],
        ),
        (
            vec![missing(), missing(), refuse(403, "Forbidden"), answer(201, "{}"), grant("t", 600)],
            vec![&token, ACCOUNTS, "/api/v1/namespaces", ACCOUNTS, &token],
        ),
    ] {
        let bench = Bench::new(Scripted::in_turn(script), Scripted::in_turn([]));
        assert_eq!(bench.write("a").await.unwrap().1, "Bearer t");
        assert_eq!(bench.paths(), paths);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_token_nothing_is_sent_and_the_next_request_asks_again() {
    for reply in [refuse(403, "Forbidden"), answer(201, "{}"), grant("", 600), grant("a\nb", 600)] {
        let bench = Bench::new(Scripted::in_turn([reply, grant("t", 600)]), Scripted::in_turn([]));
        let error = bench.write("a").await.unwrap_err();
        assert!(surely_not_done(&error), "{error}");
        assert!(error.to_string().contains("no token for service account kube-system/a"), "{error}");
        assert_eq!(bench.anonymous.seen().len(), 0);
        assert_eq!(bench.write("a").await.unwrap().1, "Bearer t");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_replaced_before_it_expires() {
    for (granted, replaced_after) in [(3600, 2880), (600, 480), (0, 480), (7200, 5760)] {
        let own = Scripted::in_turn([grant("one", granted), grant("two", granted)]);
        let bench = Bench::new(own, Scripted::in_turn([]));
        bench.write("a").await.unwrap();
        tokio::time::advance(Duration::from_secs(replaced_after) - Duration::from_millis(1)).await;
        assert_eq!(bench.write("a").await.unwrap().1, "Bearer one", "{granted}");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(bench.write("a").await.unwrap().1, "Bearer two", "{granted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cant_be_replaced_serves_until_it_expires() {
    let own = Scripted::in_turn([
        grant("one", 1000),
        refuse(500, "InternalError"),
        refuse(500, "InternalError"),
        refuse(500, "InternalError"),
    ]);
    let bench = Bench::new(own, Scripted::in_turn([]));
    bench.write("a").await.unwrap();
    tokio::time::advance(Duration::from_secs(800)).await;
    for _ in 0..3 {
        assert_eq!(bench.write("a").await.unwrap().1, "Bearer one");
    }
    assert_eq!(bench.own.seen().len(), 2, "a failed replacement is not repeated at once");
    tokio::time::advance(RETRY_AFTER).await;
    assert_eq!(bench.write("a").await.unwrap().1, "Bearer one");
    tokio::time::advance(Duration::from_secs(190)).await;
    bench.write("a").await.unwrap_err();
    assert_eq!(bench.own.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced() {
    let own = Scripted::in_turn([grant("one", 3600), grant("two", 3600)]);
    let bench = Bench::new(own, Scripted::in_turn([refuse(401, "Unauthorized")]));
    assert_eq!(bench.write("a").await.unwrap(), (401, "Bearer one".to_owned()));
    assert_eq!(bench.write("a").await.unwrap(), (200, "Bearer two".to_owned()));
    assert_eq!(bench.write("a").await.unwrap().1, "Bearer two");
}
