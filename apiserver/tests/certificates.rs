//! Clients with certificates.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::request::Builder;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use serde_json::Value;
use steersman_apiserver::{Options, Server};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

const SOON: Duration = Duration::from_secs(60);
const NAMESPACES: &str = "/api/v1/namespaces";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn start(folder: &Path) -> Server {
    let options = Options::new(folder);
    Server::start(options).await.unwrap()
}

/// A certificate of the server's authority for a user in `system:masters`, with its key.
fn certificate(
    server: &Server,
    user: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let [_, key] = server.authority_files();
    let key = KeyPair::from_pem(&std::fs::read_to_string(key).unwrap()).unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "steersman-ca");
    let issuer = Issuer::new(authority, key);
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let signed = params.signed_by(&key, &issuer).unwrap();
    (signed.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

/// TLS for a client that trusts the server and shows a certificate.
fn tls(
    server: &Server,
    (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.ca().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.unwrap().with_root_certificates(roots);
    Arc::new(builder.with_client_auth_cert(vec![certificate], key).unwrap())
}

/// One connection.
struct Client {
    sender: SendRequest<Full<Bytes>>,
    resumed: bool,
    _driving: JoinSet<()>,
}

impl Client {
    async fn connect(server: &Server, tls: &Arc<ClientConfig>) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.unwrap();
        let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let mut driving = JoinSet::new();
        driving.spawn(async move {
            // How it ended shows in the answers.
            let _ = connection.await;
        });
        Self { sender, resumed, _driving: driving }
    }

    /// The answer to a request for this path with this token, or without a token if that is empty.
    async fn get(&mut self, path: &str, token: &str) -> (u16, Value) {
        let mut request = Request::get(path);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request, "").await
    }

    async fn send(&mut self, request: Builder, body: &'static str) -> (u16, Value) {
        let request = request.header("host", "localhost").body(Full::from(body)).unwrap();
        let answer = self.sender.send_request(request);
        let answer = timeout(SOON, answer).await.expect("an answer must come").unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

#[tokio::test]
async fn a_client_with_a_certificate_of_another_authority_is_answered_and_its_token_counts() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, foreign) = (start(one.path()).await, start(other.path()).await);
    let token = std::fs::read_to_string(one.path().join("pki/admin.token")).unwrap();
    let expired = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2000, 1, 1);
    let for_servers = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    for (why, shown) in [
        ("foreign", certificate(&foreign, "ann", |_| {})),
        ("expired", certificate(&server, "ann", expired)),
        ("for servers", certificate(&server, "ann", for_servers)),
    ] {
        let mut client = Client::connect(&server, &tls(&server, shown)).await;
        for path in ["/version", "/healthz", NAMESPACES] {
            let (code, answer) = client.get(path, "").await;
            assert_eq!((code, &answer["message"]), (401, &"Unauthorized".into()), "{why}: {path}");
        }
        assert_eq!(client.get(NAMESPACES, "wrong").await.0, 401, "{why}");
        assert_eq!(client.get(NAMESPACES, token.trim()).await.0, 200, "{why}");
    }
}

#[tokio::test]
async fn a_certificate_that_expires_counts_neither_on_an_open_connection_nor_in_a_resumed_session() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let shortly = |params: &mut CertificateParams| {
        let end = u64::try_from(jiff::Timestamp::now().as_second() + 3).unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(end);
    };
    let tls = tls(&server, certificate(&server, "ann", shortly));
    let mut open = Client::connect(&server, &tls).await;
    assert_eq!(open.get(NAMESPACES, "").await.0, 200);
    let mut resumed = Client::connect(&server, &tls).await;
    assert!(resumed.resumed, "the server must resume sessions, or nothing is shown");
    assert_eq!(resumed.get(NAMESPACES, "").await.0, 200);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(open.get(NAMESPACES, "").await.0, 401, "on an open connection");
    let mut later = Client::connect(&server, &tls).await;
    assert!(later.resumed, "the session must be resumed once more, or nothing is shown");
    assert_eq!(later.get(NAMESPACES, "").await.0, 401, "in a resumed session");
}

#[tokio::test]
async fn a_certificate_names_user_groups_and_credential() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let mut client = Client::connect(&server, &tls(&server, certificate(&server, "ann", |_| {}))).await;
    let review = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}"#;
    let request = Request::post(WHO).header("content-type", "application/json");
    let (code, answer) = client.send(request, review).await;
    assert_eq!(code, 201, "{answer}");
    let user = &answer["status"]["userInfo"];
    assert_eq!(user["username"], "ann");
    assert_eq!(user["groups"], serde_json::json!(["system:masters", "system:authenticated"]));
    let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert!(credential.starts_with("X509SHA256=") && credential.len() == 11 + 64, "{credential}");
}
