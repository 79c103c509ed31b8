//! Who is served.

use std::thread::ThreadId;

use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};

use super::*;

fn unauthorized() -> (u16, String) {
    (401, "Unauthorized".to_owned())
}

#[tokio::test]
async fn without_credentials_there_is_health_and_nothing_else() {
    let node = Node::start().await;
    assert_eq!(node.ask(request("GET", "/healthz", "")).await, (200, "ok".into()));
    for path in [
        "/healthz/syncloop",
        "/pods",
        "/runningpods/",
        "/metrics",
        "/configz",
        "/containerLogs/ns/p/c",
        "/logs/",
        "/invented",
        "/healthz/../pods",
        "/healthz%2f..%2fpods",
        "//healthz",
    ] {
        assert_eq!(node.ask(request("GET", path, "")).await, unauthorized(), "{path}");
    }
    assert_eq!(node.ask(request("POST", "/run/ns/p/c?cmd=ls", "")).await, unauthorized());
    assert_eq!(node.reviewer.asked(), Vec::<String>::new(), "nobody is asked about nobody");
}

#[tokio::test]
async fn exec_without_credentials_is_refused() {
    let node = Node::start().await;
    for path in [
        "/exec/ns/p/c?command=sh&output=1",
        "/exec/ns/p/u/c?output=1",
        "/attach/ns/p/c?output=1",
        "/portForward/ns/p",
    ] {
        let mut request = request("POST", path, "");
        request.headers_mut().insert("connection", "Upgrade".parse().unwrap());
        request.headers_mut().insert("upgrade", "SPDY/3.1".parse().unwrap());
        assert_eq!(node.ask(request).await, unauthorized(), "{path}");
    }
    let streamed = |call: &crate::runtime::simulated::Call| {
        use crate::runtime::Operation::{Attach, Exec, PortForward};
        matches!(call.operation, Exec | Attach | PortForward)
    };
    assert!(!node.runtime.calls().iter().any(streamed), "the runtime was not asked");
}

#[tokio::test]
async fn a_client_certificate_names_the_user() {
    let node = Node::start().await;
    node.reviewer.allow("carol", "pods");
    let identity = node.authority.client("carol", "team");
    let answer = node.ask_as(client_config(Some(identity)), request("GET", "/pods", "")).await;
    assert_eq!(answer.0, 200, "{answer:?}");
    assert_eq!(node.reviewer.asked(), ["carol get node-1/pods"]);
}

#[tokio::test]
async fn a_client_certificate_of_another_authority_is_refused() {
    let node = Node::start().await;
    let stranger = Authority::new();
    for identity in [
        stranger.client("alice", "system:masters"),
        node.authority.expired("alice"),
        node.authority.server("alice"),
    ] {
        let ask = |token| {
            let config = client_config(Some((identity.0.clone(), identity.1.clone_key())));
            node.ask_as(config, request("GET", "/pods", token))
        };
        assert_eq!(ask("").await, unauthorized());
        assert_eq!(node.reviewer.asked(), Vec::<String>::new());
        // A token besides counts for itself.
        assert_eq!(ask("good").await.0, 200);
        node.reviewer.asked();
    }
}

#[tokio::test]
async fn a_token_names_the_user_who_may_or_may_not() {
    let node = Node::start().await;
    assert_eq!(node.get("/pods").await.0, 200);
    let forbidden = "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    assert_eq!(node.ask(request("GET", "/pods", "other")).await, (403, forbidden.into()));
    assert_eq!(
        node.reviewer.asked(),
        ["token good", "alice get node-1/pods", "token other", "bob get node-1/pods", "bob get node-1/proxy",]
    );
    // All that is remembered.
    assert_eq!(node.get("/pods").await.0, 200);
    assert_eq!(node.ask(request("GET", "/pods", "other")).await.0, 403);
    assert_eq!(node.reviewer.asked(), Vec::<String>::new());
    // Nobody's token is asked about each time.
    for _ in 0..2 {
        assert_eq!(node.ask(request("GET", "/pods", "unknown")).await, unauthorized());
        assert_eq!(node.ask(request("GET", "/pods", "broken")).await, unauthorized());
    }
    assert_eq!(node.reviewer.asked(), ["token unknown", "token broken", "token unknown", "token broken"]);
}

#[tokio::test]
async fn a_user_may_by_the_narrow_right_or_the_wide_one() {
    let node = Node::start().await;
    node.reviewer.allow("bob", "proxy");
    assert_eq!(node.ask(request("GET", "/configz", "other")).await.0, 200);
    let forbidden = "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[metrics])\n";
    assert_eq!(node.ask(request("GET", "/metrics", "other")).await, (403, forbidden.into()));
}

#[tokio::test]
async fn a_review_that_fails_is_told_apart_from_a_refusal() {
    let node = Node::start().await;
    let identity = node.authority.client("unlucky", "team");
    let answer = node.ask_as(client_config(Some(identity)), request("GET", "/metrics", "")).await;
    let message = "Authorization error (user=unlucky, verb=get, resource=nodes, subresource=metrics)";
    assert_eq!(answer, (500, message.into()));
}

#[tokio::test]
async fn anonymous_users_are_reviewed_where_they_are_let_in() {
    let node = Node::start_with(|_, auth| auth.anonymous = true).await;
    let refused = node.ask(request("GET", "/pods", "")).await;
    assert!(refused.0 == 403 && refused.1.starts_with("Forbidden (user=system:anonymous, "), "{refused:?}");
    assert_eq!(node.ask(request("GET", "/pods", "unknown")).await, unauthorized());
    node.reviewer.allow("system:anonymous", "metrics");
    assert_eq!(node.ask(request("GET", "/metrics", "")).await.0, 200);
}

#[tokio::test]
async fn always_allow_asks_nobody_but_who_it_is() {
    let node = Node::start_with(|_, auth| auth.authorization = Authorization::AlwaysAllow).await;
    assert_eq!(node.ask(request("GET", "/pods", "")).await, unauthorized());
    assert_eq!(node.ask(request("GET", "/pods", "other")).await.0, 200);
    assert_eq!(node.reviewer.asked(), ["token other"]);
}

/// Counts how often certificates are verified, and on which threads.
#[derive(Debug)]
struct Counting {
    verifier: Arc<dyn ClientCertVerifier>,
    threads: Mutex<Vec<ThreadId>>,
}

impl ClientCertVerifier for Counting {
    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.threads.lock().push(std::thread::current().id());
        self.verifier.verify_client_cert(certificate, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        unreachable!("handshakes have a verifier of their own")
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        unreachable!("handshakes have a verifier of their own")
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[tokio::test]
async fn a_certificate_is_verified_once_a_connection_and_not_on_the_threads_that_serve() {
    let authority = Authority::new();
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let counting = Arc::new(Counting { verifier: verifier.build().unwrap(), threads: Mutex::default() });
    let client_ca = Arc::new(ClientCa::with_verifier(counting.clone()));
    let node = Node::start_with(|_, auth| auth.client_ca = Some(client_ca.clone())).await;
    node.reviewer.allow("carol", "pods");
    for (identity, status) in
        [(authority.client("carol", "team"), 200), (Authority::new().client("carol", "team"), 401)]
    {
        counting.threads.lock().clear();
        let mut config = client_config(Some(identity));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = node.connect(config).await.unwrap();
        let (mut sender, connection) =
            http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { _ = connection.await });
        for _ in 0..5 {
            let request = Request::get("https://node-1/pods").body(Empty::new()).unwrap();
            let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
            assert_eq!(answer.status(), status);
        }
        let threads = counting.threads.lock().clone();
        assert_eq!(threads.len(), 1, "verifications");
        assert!(!threads.contains(&std::thread::current().id()), "verified on the thread that serves");
    }
}
