//! The secure port of the controller manager: who is served, and what.
//!
//! With `STEERSMAN_TEST_MANAGER`, the tests show that kube-controller-manager answers the same.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio_rustls::rustls::NamedGroup;

use support::https::Https;
use support::manager::Manager;
use support::real::{RealServer, assets, free_ports};
use support::{Cluster, eventually};

/// A manager with a secure port, which asks the API server about users.
struct Secure {
    port: u16,
    _manager: Manager,
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Secure {
    async fn start(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), flags).await
    }

    async fn start_in(folder: tempfile::TempDir, flags: &[&str]) -> Self {
        let cluster = Cluster::start().await;
        let kubeconfig = cluster.kubeconfig().display().to_string();
        let reviews = [
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
        ];
        let flags = [&reviews.each_ref().map(|flag| &**flag)[..], flags].concat();
        let (port, manager) = start_manager(&cluster.kubeconfig(), &flags).await;
        Self { port, _manager: manager, cluster, folder }
    }

    fn client(&self) -> Https {
        Https::at(self.port)
    }

    /// The token of a new service account.
    async fn token(&self, name: &str) -> String {
        let client = self.cluster.client();
        let accounts = Api::<ServiceAccount>::namespaced(client, &self.cluster.namespace);
        let account = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let made = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        made.status.unwrap().token.unwrap()
    }

    /// Lets a service account request paths.
    async fn let_get(&self, account: &str, paths: &[&str]) {
        let name = format!("{account}-of-{}", self.cluster.namespace);
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name },
            "rules": [{ "nonResourceURLs": paths, "verbs": ["get"] }],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [
                { "kind": "ServiceAccount", "namespace": self.cluster.namespace, "name": account },
            ],
        });
        let (apply, client) = (PatchParams::apply("test").force(), self.cluster.client());
        Api::<ClusterRole>::all(client.clone()).patch(&name, &apply, &Patch::Apply(role)).await.unwrap();
        Api::<ClusterRoleBinding>::all(client).patch(&name, &apply, &Patch::Apply(binding)).await.unwrap();
    }
}

/// Starts the manager under test, which runs one controller, and waits until its secure port answers.
async fn start_manager(kubeconfig: &Path, flags: &[&str]) -> (u16, Manager) {
    let [port] = free_ports();
    let at = format!("--secure-port={port}");
    let all = [&["--controllers=ttl", "--bind-address=127.0.0.1", &at][..], flags].concat();
    let manager = Manager::start(kubeconfig, &all);
    eventually("the secure port answers", || async {
        Https::at(port).try_send("GET", "/healthz", "").await.filter(|answer| answer.status == 200)
    })
    .await;
    (port, manager)
}

/// An authority, and certificates that it signs, PEM.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn client(&self, name: &str, group: &str) -> (String, String) {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Writes the authority's certificate to a file.
    fn write(&self, folder: &Path, name: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, &self.pem).unwrap();
        path.display().to_string()
    }
}

/// Writes a new serving certificate and its key, and returns the paths and the certificate, DER.
fn serving_pair(folder: &Path, name: &str) -> ([PathBuf; 2], Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let paths = ["crt", "key"].map(|extension| folder.join(format!("{name}.{extension}")));
    std::fs::write(&paths[1], made.signing_key.serialize_pem()).unwrap();
    std::fs::write(&paths[0], made.cert.pem()).unwrap();
    (paths, made.cert.der().to_vec())
}

fn status(reason: &str, message: &str, code: u16) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    if reason == "Forbidden" {
        status["details"] = json!({});
    }
    status
}

#[tokio::test]
async fn users_are_served_what_they_may_request() {
    let secure = Secure::start(&[]).await;
    let (anyone, [poor, rich]) = (secure.client(), ["poor", "rich"]);
    let [of_poor, of_rich] = [secure.token(poor).await, secure.token(rich).await];
    secure.let_get(rich, &["/metrics", "/nowhere", "/configz"]).await;

    let answer = anyone.get("/healthz").await;
    assert_eq!((answer.status, &*answer.text), (200, "ok"));
    assert_eq!(answer.headers["cache-control"], "no-cache, private");
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");

    let refused = anyone.get("/metrics").await;
    let forbidden = |user: &str, what: &str| format!("forbidden: User \"{user}\" cannot {what}");
    let expected = status("Forbidden", &forbidden("system:anonymous", "get path \"/metrics\""), 403);
    assert_eq!(refused.status, 403);
    assert_eq!(serde_json::from_str::<Value>(&refused.text).unwrap(), expected);
    assert!(refused.text.starts_with(r#"{"kind":"Status","apiVersion":"v1","metadata":{},"#), "{refused:?}");
    assert_eq!(refused.headers["content-type"], "application/json");
    assert_eq!(refused.headers["x-content-type-options"], "nosniff");
    assert_eq!(refused.headers["content-length"], refused.text.len().to_string());
    let head = anyone.send("HEAD", "/metrics", "").await;
    assert_eq!((head.status, &*head.text), (403, ""));
    let nowhere = anyone.get("/a%20b?x=1").await;
    assert!(nowhere.text.contains(r#"cannot get path \"/a b\""#), "{nowhere:?}");
    let for_people = anyone.header("user-agent", "curl/8").get("/metrics").await;
    assert!(for_people.text.starts_with("{\n  \"kind\": \"Status\",\n"), "{for_people:?}");
    assert!(for_people.text.ends_with("\n  \"details\": {},\n  \"code\": 403\n}"), "{for_people:?}");

    let unknown = anyone.token("unknown").get("/healthz").await;
    assert_eq!(unknown.status, 401);
    let expected = status("Unauthorized", "Unauthorized", 401);
    assert_eq!(serde_json::from_str::<Value>(&unknown.text).unwrap(), expected);

    let user = format!("system:serviceaccount:{}:{poor}", secure.cluster.namespace);
    let poor = anyone.token(&of_poor).get("/metrics").await;
    let expected = status("Forbidden", &forbidden(&user, "get path \"/metrics\""), 403);
    assert_eq!((poor.status, serde_json::from_str::<Value>(&poor.text).unwrap()), (403, expected));

    let rich = anyone.token(&of_rich);
    let metrics = rich.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(metrics.text.contains("\nkubernetes_build_info{"), "{}", metrics.text);
    for sample in [
        // The unknown token and two users' tokens; what these two, and anyone but for health, may request.
        r#"apiserver_delegated_authn_request_total{code="201"} 3"#,
        r#"apiserver_delegated_authn_request_duration_seconds_bucket{code="201",le="0.25"}"#,
        r#"apiserver_delegated_authz_request_total{code="201"} "#,
        r#"authenticated_user_requests{username="other"} "#,
        r#"authentication_attempts{result="error"} 1"#,
        r#"authentication_attempts{result="success"} "#,
        r#"authorization_attempts_total{result="allowed"} "#,
        r#"authorization_attempts_total{result="no-opinion"} 5"#,
    ] {
        assert!(metrics.text.contains(&format!("\n{sample}")), "{sample} is missing: {}", metrics.text);
    }
    let configz = rich.get("/configz").await;
    assert!(configz.text.starts_with(r#"{"kubecontrollermanager.config.k8s.io":{"#), "{}", configz.text);
    assert_eq!((rich.get("/nowhere").await.status, rich.get("/elsewhere").await.status), (404, 403));
    let put = rich.send("PUT", "/metrics", "").await;
    assert!(put.status == 403 && put.text.contains(r#"cannot put path \"/metrics\""#), "{put:?}");
}

#[tokio::test]
async fn masters_may_see_and_set_everything() {
    let authority = Authority::new("clients");
    let folder = tempfile::tempdir().unwrap();
    let client_ca = format!("--client-ca-file={}", authority.write(folder.path(), "ca.crt"));
    let secure = Secure::start_in(folder, &[&client_ca]).await;
    let admin = secure.client().identity(&authority.client("admin", "system:masters"));
    let bob = secure.client().identity(&authority.client("bob", "team")).get("/metrics").await;
    assert!(bob.status == 403 && bob.text.contains(r#"User \"bob\" cannot get"#), "{bob:?}");
    let stranger = Authority::new("clients").client("admin", "system:masters");
    assert_eq!(secure.client().identity(&stranger).get("/healthz").await.status, 401);

    let statusz = admin.get("/statusz").await;
    assert!(statusz.text.starts_with("\nkube-controller-manager statusz\nWarning: This endpoint is not"));
    assert!(statusz.text.contains("1.36.3\nEmulation version"), "{}", statusz.text);
    let form = |kind: &str| format!("application/json;v=v1beta1;g=config.k8s.io;as={kind}");
    let statusz = admin.header("accept", &form("Statusz")).get("/statusz").await;
    assert_eq!(statusz.headers["content-type"], "application/json;g=config.k8s.io;v=v1beta1;as=Statusz");
    let statusz: Value = serde_json::from_str(&statusz.text).unwrap();
    assert_eq!(
        (&statusz["kind"], &statusz["apiVersion"]),
        (&json!("Statusz"), &json!("config.k8s.io/v1beta1"))
    );
    assert_eq!((&statusz["binaryVersion"], &statusz["emulationVersion"]), (&json!("1.36.3"), &json!("1.36")));
    assert_eq!(admin.header("accept", "application/json").get("/statusz").await.status, 406);

    let flagz = admin.get("/flagz").await;
    assert!(flagz.text.starts_with("\nkube-controller-manager flagz\nWarning: This endpoint is not"));
    let flagz = admin.header("accept", &form("Flagz")).get("/flagz").await;
    let flagz: Value = serde_json::from_str(&flagz.text).unwrap();
    let flags = &flagz["flags"];
    assert_eq!(
        (&flags["leader-elect"], &flags["secure-port"]),
        (&json!("false"), &json!(secure.port.to_string()))
    );

    let set = |verbosity| admin.send("PUT", "/debug/flags/v", verbosity);
    let answer = set("6").await;
    assert_eq!((answer.status, &*answer.text), (200, "successfully set klog.logging.verbosity to 6\n"));
    let answer = set("x").await;
    assert_eq!((answer.status, &*answer.text), (400, "strconv.ParseUint: parsing \"x\": invalid syntax\n"));
    let answer = admin.get("/debug/flags/v").await;
    assert_eq!((answer.status, &*answer.text), (406, "unsupported http method\n"));

    // Upstream has no such page.
    if !Manager::is_upstream() {
        let page = admin.get("/debug/controllers").await;
        assert_eq!(page.status, 200);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(page.headers["cache-control"], "no-cache, private");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        let json = admin.header("accept", "application/json").get("/debug/controllers").await;
        let report: Value = serde_json::from_str(&json.text).unwrap();
        assert!(report["controllers"].as_array().unwrap().len() > 40, "{report:#}");
        let refused = secure.client().get("/debug/controllers").await;
        assert_eq!(refused.status, 403);
    }

    let slis = admin.get("/metrics/slis").await;
    assert!(slis.text.contains("kubernetes_healthcheck{name="), "{slis:?}");
    assert!(slis.text.contains(r#",status="success",type="healthz"}"#), "{slis:?}");
    let nowhere = admin.get("/nowhere").await;
    assert_eq!((nowhere.status, &*nowhere.text), (404, "404 page not found\n"));
}

#[tokio::test]
async fn proxies_name_users_in_headers() {
    let (proxies, clients) = (Authority::new("proxies"), Authority::new("clients"));
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        format!("--client-ca-file={}", clients.write(folder.path(), "clients.crt")),
        format!("--requestheader-client-ca-file={}", proxies.write(folder.path(), "proxies.crt")),
        "--requestheader-allowed-names=front-proxy".to_owned(),
    ];
    let secure = Secure::start_in(folder, &flags.each_ref().map(|flag| &**flag)).await;
    let named = |identity: &(String, String), user: &str, group: &str| {
        let client = secure.client().identity(identity);
        let client = client.header("x-remote-user", user).header("x-remote-group", group);
        async move { client.get("/configz").await }
    };
    let proxy = proxies.client("front-proxy", "proxies");
    assert_eq!(named(&proxy, "alice", "system:masters").await.status, 200);
    let bob = named(&proxy, "bob", "team").await;
    assert!(bob.status == 403 && bob.text.contains(r#"User \"bob\" cannot"#), "{bob:?}");
    // Whoever is no proxy is not believed: a proxy of another name, a client, and one who shows nothing.
    assert_eq!(named(&proxies.client("other", "proxies"), "alice", "system:masters").await.status, 401);
    let carol = named(&clients.client("carol", "team"), "alice", "system:masters").await;
    assert!(carol.status == 403 && carol.text.contains(r#"User \"carol\" cannot"#), "{carol:?}");
    let nobody = secure.client().header("x-remote-user", "alice").header("x-remote-group", "system:masters");
    let nobody = nobody.get("/configz").await;
    assert!(nobody.status == 403 && nobody.text.contains(r#"User \"system:anonymous\""#), "{nobody:?}");
}

#[tokio::test]
async fn without_an_api_server_for_reviews_all_users_are_anonymous() {
    let cluster = Cluster::start().await;
    let flags = ["--authorization-always-allow-paths=/healthz,/configz*"];
    let (port, _manager) = start_manager(&cluster.kubeconfig(), &flags).await;
    let client = Https::at(port);
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.token("any").get("/configz").await.status, 200);
    let metrics = client.token("any").get("/metrics").await;
    assert!(metrics.status == 403 && metrics.text.contains("system:anonymous"), "{metrics:?}");
}

#[tokio::test]
async fn certificates_are_given_chosen_by_name_and_read_again_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let ([certificate, key], first) = serving_pair(folder.path(), "first.example");
    let ([named, its_key], other) = serving_pair(folder.path(), "other.example");
    let flags = [
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
        format!("--tls-sni-cert-key={},{}:*.other.example", named.display(), its_key.display()),
    ];
    let secure = Secure::start_in(folder, &flags.each_ref().map(|flag| &**flag)).await;
    let shown = async |name: &str| {
        let stream = secure.client().connect_as(name).await.ok()?;
        Some(stream.get_ref().1.peer_certificates()?.first()?.to_vec())
    };
    assert_eq!(shown("localhost").await.as_ref(), Some(&first));
    assert_eq!(shown("a.other.example").await.as_ref(), Some(&other));
    let ([new, its_key], second) = serving_pair(secure.folder.path(), "second.example");
    std::fs::rename(its_key, key).unwrap();
    std::fs::rename(new, certificate).unwrap();
    eventually("the new certificate is shown", async || {
        (shown("localhost").await.as_ref() == Some(&second)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_certificate_is_generated_and_kept_where_a_folder_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let flag = format!("--cert-dir={}", folder.path().join("certificates").display());
    let secure = Secure::start_in(folder, &[&flag]).await;
    let written = secure.folder.path().join("certificates/kube-controller-manager.crt");
    let written = std::fs::read_to_string(written).unwrap();
    let (_, pem) = x509_parser::pem::parse_x509_pem(written.as_bytes()).unwrap();
    let certificate = pem.parse_x509().unwrap();
    let names = format!("{:?}", certificate.subject_alternative_name().unwrap().unwrap().value);
    assert!(names.contains("localhost") && names.contains("[127, 0, 0, 1]"), "{names}");
    let stream = secure.client().connect().await.unwrap();
    assert_eq!(stream.get_ref().1.peer_certificates().unwrap()[0].as_ref(), &*pem.contents);
}

#[tokio::test]
async fn old_tls_and_http_2_are_refused_where_flags_say_so() {
    let secure = Secure::start(&["--tls-min-version=VersionTLS13", "--disable-http2-serving"]).await;
    let old = Https { old_tls: true, ..secure.client() };
    assert!(old.try_send("GET", "/healthz", "").await.is_none());
    assert_eq!(secure.client().get("/healthz").await.status, 200);
}

#[tokio::test]
async fn key_exchanges_that_the_flag_leaves_out_are_refused() {
    let secure = Secure::start(&["--tls-curve-preferences=29,24"]).await;
    let curves =
        [(NamedGroup::X25519, Some(200)), (NamedGroup::secp384r1, Some(200)), (NamedGroup::secp256r1, None)];
    for ((curve, expected), old_tls) in curves.into_iter().flat_map(|curve| [(curve, false), (curve, true)]) {
        let client = Https { key_exchange: Some(curve), old_tls, ..secure.client() };
        let answer = client.try_send("GET", "/healthz", "").await;
        assert_eq!(answer.map(|answer| answer.status), expected, "{curve:?}, only TLS 1.2: {old_tls}");
    }
}

#[tokio::test]
async fn half_requests_and_idle_connections_keep_nobody_out() {
    let secure = Secure::start(&[]).await;
    let mut halves = Vec::new();
    for _ in 0..300 {
        let mut half = secure.client().connect().await.unwrap();
        half.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").await.unwrap();
        halves.push(half);
    }
    assert_eq!(secure.client().get("/healthz").await.status, 200);
    if Manager::is_upstream() {
        return;
    }
    // Ours closes them soon; upstream's waits for 32 seconds.
    let closed = async {
        for half in &mut halves {
            while half.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
        }
    };
    tokio::time::timeout(Duration::from_secs(25), closed).await.expect("they must be closed");
}

/// Its connections are known ones, and it asks for answers that it does not take.
#[tokio::test]
async fn a_client_without_rights_keeps_nobody_out() {
    let secure = Secure::start(&[]).await;
    let client = Https { http_2: true, ..secure.client() };
    let token = format!("Bearer {}", secure.token("poor").await);
    let (mut served, mut answers) = (JoinSet::new(), Vec::new());
    let flood = async {
        for _ in 0..300 {
            let stream = TokioIo::new(client.connect().await.unwrap());
            let mut http_2 = http2::Builder::new(TokioExecutor::new());
            let (mut sender, connection) =
                http_2.initial_stream_window_size(0).handshake::<_, Empty<Bytes>>(stream).await.unwrap();
            served.spawn(connection);
            let request = http::Request::get("https://localhost/healthz").header("authorization", &token);
            let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
            assert_eq!(answer.status(), 200);
            answers.push((sender, answer));
        }
        secure.client().get("/healthz").await.status
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), flood).await.expect("there must be room"), 200);
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_start() {
    let cluster = Cluster::start().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let flags = ["--bind-address=127.0.0.1", &format!("--secure-port={}", address.port())];
    let mut manager = Manager::start(&cluster.kubeconfig(), &flags);
    assert_eq!(manager.ended().await.code(), Some(1));
    let log = manager.log();
    let line = log.lines().find(|line| line.contains(&format!("listen on {address}")));
    assert!(line.is_some_and(|line| line.to_lowercase().contains("address already in use")), "{log}");
}

#[tokio::test]
async fn the_clusters_settings_are_looked_up() {
    let Some(assets) = assets() else {
        return println!("skipped: the embedded API server publishes no settings for authentication");
    };
    let server = RealServer::start_for_nodes(&assets).await;
    server.certificate("admin", "/O=system:masters/CN=admin");
    server.certificate("bob", "/O=team/CN=bob");
    let kubeconfig = server.folder().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig().to_string()).unwrap();
    let flag = format!("--authentication-kubeconfig={}", kubeconfig.display());
    let (port, _manager) = start_manager(&kubeconfig, &[&flag]).await;
    let identity = |name: &str| {
        let read = |extension| std::fs::read_to_string(server.folder().join(format!("{name}.{extension}")));
        (read("crt").unwrap(), read("key").unwrap())
    };
    let client = Https::at(port);
    eventually("the authority of client certificates is known", async || {
        (client.identity(&identity("admin")).get("/configz").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(client.identity(&identity("bob")).get("/configz").await.status, 403);
}

/// Starts the program by a link of upstream's name, with the flags of the manifest that `kubeadm init phase control-plane
/// controller-manager` of Kubernetes 1.36.3 writes, but other paths and another port, and asks what its probes ask.
#[tokio::test]
async fn the_manifest_that_kubeadm_writes_runs_with_its_probes() {
    let Some(assets) = assets() else {
        return println!("skipped: kubeadm's files stand for a real API server");
    };
    let server = RealServer::start_for_nodes(&assets).await;
    let folder = tempfile::tempdir().unwrap();
    let pki = folder.path().join("pki");
    std::fs::create_dir(&pki).unwrap();
    for (from, to) in
        [("ca.crt", "ca.crt"), ("ca.key", "ca.key"), ("ca.crt", "front-proxy-ca.crt"), ("sa.key", "sa.key")]
    {
        std::fs::copy(server.folder().join(from), pki.join(to)).unwrap();
    }
    server.certificate("manager", "/CN=system:kube-controller-manager");
    let kubeconfig = folder.path().join("controller-manager.conf");
    std::fs::write(&kubeconfig, server.kubeconfig_of("manager").to_string()).unwrap();

    let manifest = include_str!("testdata/kubeadm-kube-controller-manager.yaml");
    let manifest: Value = serde_saphyr::from_str(manifest).unwrap();
    let container = &manifest["spec"]["containers"][0];
    let command: Vec<&str> =
        container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let [program, flags @ ..] = &*command else { panic!("{command:?}") };
    let link = folder.path().join(program);
    let upstream = assets.join("kube-controller-manager");
    let target = if Manager::is_upstream() { &*upstream } else { Path::new(env!("CARGO_BIN_EXE_steersman")) };
    std::os::unix::fs::symlink(target, &link).unwrap();
    let [port] = free_ports();
    let flags =
        flags.iter().map(|flag| flag.replace("/etc/kubernetes", &folder.path().display().to_string()));
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let child = std::process::Command::new(&link)
        .args(flags)
        .arg(format!("--secure-port={port}"))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let _killed = Killed(child);

    for probe in ["startupProbe", "livenessProbe"] {
        let asked = &container[probe]["httpGet"];
        assert_eq!((&asked["scheme"], &asked["host"]), (&json!("HTTPS"), &json!("127.0.0.1")), "{probe}");
        let path = asked["path"].as_str().unwrap();
        eventually(probe, || async {
            Https::at(port).try_send("GET", path, "").await.filter(|answer| answer.status == 200)
        })
        .await;
    }
    let lease = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(
        kube::Client::try_from(server.config()).unwrap(),
        "kube-system",
    );
    eventually("the manager leads", async || lease.get_opt("kube-controller-manager").await.unwrap()).await;
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log.contains("without effect"), "{log}");
}

/// A process that is killed when this is dropped.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
