//! A real API server: etcd and kube-apiserver as processes. They end with the test's process, and their files are removed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::OnceCell;

use super::{TemporaryFolder, shipped_role};

/// The token of an administrator.
pub const TOKEN: &str = "administrator";
/// The token of the service account to which Kubernetes's own roles give the rights of the job controller.
pub const JOB_CONTROLLER_TOKEN: &str = "job-controller";
/// Likewise, of the Deployment controller.
pub const DEPLOYMENT_CONTROLLER_TOKEN: &str = "deployment-controller";
/// Likewise, of the controllers of CertificateSigningRequests.
pub const CERTIFICATE_CONTROLLER_TOKEN: &str = "certificate-controller";
/// Likewise, of the namespace controller.
pub const NAMESPACE_CONTROLLER_TOKEN: &str = "namespace-controller";
/// Likewise, of the ClusterRole aggregation controller.
pub const AGGREGATION_CONTROLLER_TOKEN: &str = "clusterrole-aggregation-controller";

/// The token of kube-controller-manager's own user.
pub const MANAGER_TOKEN: &str = "kube-controller-manager";

/// Makes pods need the service account of their namespace, as in any cluster.
const ADMITS_SERVICE_ACCOUNTS: &str = "--enable-admission-plugins=ServiceAccount";

/// Makes the API server log who made each request, and what it decided, but not what the request contained.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
";

/// The folder that holds the programs, where the environment names one.
#[allow(clippy::disallowed_methods, reason = "that is how envtest's users choose a real server")]
pub fn assets() -> Option<PathBuf> {
    std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// How long is waited for what must come: a minute, or as many as `TEST_PATIENCE` says, for machines that are slow.
#[allow(clippy::disallowed_methods, reason = "only who starts the tests knows what machine it is")]
pub fn patience() -> Duration {
    let minutes = std::env::var("TEST_PATIENCE").ok().and_then(|minutes| minutes.parse().ok());
    Duration::from_secs(60) * minutes.unwrap_or(1)
}

/// The server that the tests of this process share.
pub async fn shared(assets: &Path) -> Arc<RealServer> {
    static SHARED: OnceCell<Arc<RealServer>> = OnceCell::const_new();
    Arc::clone(SHARED.get_or_init(async || Arc::new(RealServer::start(assets).await)).await)
}

/// etcd and kube-apiserver at work.
pub struct RealServer {
    folder: TemporaryFolder,
    assets: PathBuf,
    port: u16,
    etcd_port: u16,
    for_nodes: bool,
    audited: bool,
    /// Further flags of the API server.
    flags: &'static [&'static str],
    etcd: Mutex<Option<Child>>,
    api_server: Mutex<Option<Child>>,
}

impl RealServer {
    /// Starts both and waits until they are ready.
    ///
    /// # Panics
    /// When they do not come up [in time](patience); the message holds the end of the log.
    pub async fn start(assets: &Path) -> Self {
        Self::start_as(assets, false, false, &[]).await
    }

    /// One that nodes may join: it knows clients by certificates of its own authority ([`certificate`](Self::certificate)),
    /// holds nodes to what is theirs, and shows itself to their ports.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_for_nodes(assets: &Path) -> Self {
        Self::start_as(assets, true, false, &[]).await
    }

    /// As [`start_for_nodes`](Self::start_for_nodes), and pods need the service account of their namespace: it is a new cluster
    /// that lacks nothing but its controllers.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_fresh(assets: &Path) -> Self {
        Self::start_as(assets, true, false, &[ADMITS_SERVICE_ACCOUNTS]).await
    }

    /// One that logs each request; see [`audit_log`](Self::audit_log). It has these further flags.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_audited(assets: &Path, flags: &'static [&'static str]) -> Self {
        Self::start_as(assets, false, true, flags).await
    }

    async fn start_as(assets: &Path, for_nodes: bool, audited: bool, flags: &'static [&'static str]) -> Self {
        let folder = TemporaryFolder::create();
        let [port, etcd_port, peer_port] = free_ports();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a file must be written");
        };
        let mut tokens = format!("{TOKEN},administrator,administrator,system:masters\n");
        for controller in [
            JOB_CONTROLLER_TOKEN,
            DEPLOYMENT_CONTROLLER_TOKEN,
            CERTIFICATE_CONTROLLER_TOKEN,
            NAMESPACE_CONTROLLER_TOKEN,
            AGGREGATION_CONTROLLER_TOKEN,
        ] {
            tokens += &format!("{controller},system:serviceaccount:kube-system:{controller},{controller}\n");
        }
        tokens += &format!("{MANAGER_TOKEN},system:kube-controller-manager,manager\n");
        tokens += &shipped_role::token_lines();
        write("tokens.csv", &tokens);
        write("audit.yaml", if audited { AUDIT_POLICY } else { shipped_role::AUDIT_POLICY });
        run("openssl", &["genrsa", "-out", "sa.key", "2048"], folder.path());
        let server = Self {
            assets: assets.to_owned(),
            port,
            etcd_port,
            for_nodes,
            audited,
            flags,
            etcd: Mutex::new(None),
            api_server: Mutex::new(None),
            folder,
        };
        if for_nodes {
            let ca =
                "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=test-ca -keyout ca.key -out ca.crt";
            run("openssl", &ca.split(' ').collect::<Vec<_>>(), server.folder());
            server.certificate("toward-nodes", "/O=system:masters/CN=kube-apiserver-kubelet-client");
        }
        let url = |port| format!("http://127.0.0.1:{port}");
        let etcd = server.spawn(
            "etcd",
            &[
                "--data-dir=etcd".to_owned(),
                "--unsafe-no-fsync".to_owned(),
                format!("--listen-client-urls={}", url(etcd_port)),
                format!("--advertise-client-urls={}", url(etcd_port)),
                format!("--listen-peer-urls={}", url(peer_port)),
                format!("--initial-advertise-peer-urls={}", url(peer_port)),
                format!("--initial-cluster=default={}", url(peer_port)),
            ],
        );
        *server.etcd.lock() = Some(etcd);
        server.start_api_server().await;
        if shipped_role::audit_folder().is_some() {
            shipped_role::apply(&server.assets.join("kubectl"), server.folder(), &server.kubeconfig());
        }
        server
    }

    /// Its folder, which has `ca.crt` where nodes may join.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes `NAME.crt` and `NAME.key` for a client, in the [`folder`](Self::folder).
    pub fn certificate(&self, name: &str, subject: &str) {
        std::fs::write(self.folder().join("client.ext"), "extendedKeyUsage=clientAuth\n")
            .expect("a file must be written");
        let request =
            format!("req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr");
        run("openssl", &request.split(' ').collect::<Vec<_>>(), self.folder());
        let sign = format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile client.ext -out {name}.crt"
        );
        run("openssl", &sign.split(' ').collect::<Vec<_>>(), self.folder());
    }

    /// A kubeconfig of the client that has that certificate.
    pub fn kubeconfig_of(&self, name: &str) -> serde_json::Value {
        let mut kubeconfig = self.kubeconfig();
        let path = |suffix: &str| self.folder().join(format!("{name}.{suffix}"));
        kubeconfig["users"][0]["user"] =
            json!({ "client-certificate": path("crt"), "client-key": path("key") });
        kubeconfig
    }

    async fn start_api_server(&self) {
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            "--cert-dir=certs".to_owned(),
            format!("--secure-port={}", self.port),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-account-key-file=sa.key".to_owned(),
            "--service-account-signing-key-file=sa.key".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/16,fd00::/108".to_owned(),
            "--token-auth-file=tokens.csv".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        if !self.flags.contains(&ADMITS_SERVICE_ACCOUNTS) {
            flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        if self.for_nodes {
            flags.extend(
                [
                    "--authorization-mode=Node,RBAC",
                    "--enable-admission-plugins=NodeRestriction",
                    "--enable-bootstrap-token-auth",
                    "--client-ca-file=ca.crt",
                    "--kubelet-client-certificate=toward-nodes.crt",
                    "--kubelet-client-key=toward-nodes.key",
                    "--kubelet-preferred-address-types=InternalIP",
                ]
                .map(str::to_owned),
            );
        } else {
            flags.push("--authorization-mode=RBAC".to_owned());
        }
        if self.audited || shipped_role::audit_folder().is_some() {
            flags.push("--audit-policy-file=audit.yaml".to_owned());
            flags.push(format!("--audit-log-path={}", self.audit_log_path().display()));
        }
        flags.extend(self.flags.iter().map(|&flag| flag.to_owned()));
        let child = self.spawn("kube-apiserver", &flags);
        *self.api_server.lock() = Some(child);
        let client = kube::Client::try_from(self.config()).expect("the configuration must make a client");
        let ready = async {
            loop {
                let request = http::Request::get("/readyz").body(Vec::new()).expect("it is a request");
                if client.request_text(request).await.is_ok() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(patience(), ready).await.is_err() {
            let log =
                std::fs::read_to_string(self.folder.path().join("kube-apiserver.log")).unwrap_or_default();
            let end: Vec<_> = log.lines().rev().take(5).collect();
            panic!("kube-apiserver is not ready in time: {end:#?}");
        }
    }

    /// The requests that the API server has logged, each as an `audit.k8s.io/v1` Event.
    ///
    /// # Panics
    /// If the server was not started by [`start_audited`](Self::start_audited).
    pub fn audit_log(&self) -> Vec<serde_json::Value> {
        let log = std::fs::read_to_string(self.audit_log_path()).expect("the server must log requests");
        // The last line may be incomplete.
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn audit_log_path(&self) -> PathBuf {
        shipped_role::audit_folder().map_or_else(
            || self.folder().join("audit.log"),
            |folder| shipped_role::audit_log(&folder, self.port),
        )
    }

    /// Kills the API server, waits, and starts it again at the same port.
    pub async fn restart(&self, away: Duration) {
        stop(&mut self.api_server.lock());
        tokio::time::sleep(away).await;
        self.start_api_server().await;
    }

    /// Writes an object to etcd, as an older API server has left it there. The key is relative to `/registry`.
    ///
    /// # Panics
    /// If etcd refuses it.
    pub async fn store(&self, key: &str, object: &serde_json::Value) {
        let base64 = |bytes: String| serde_json::to_value(k8s_openapi::ByteString(bytes.into_bytes()));
        let put = json!({
            "key": base64(format!("/registry/{key}")).expect("base64 is JSON"),
            "value": base64(object.to_string()).expect("base64 is JSON"),
        });
        let url = format!("http://127.0.0.1:{}", self.etcd_port).parse().expect("it is a URL");
        let client = kube::Client::try_from(kube::Config::new(url)).expect("it must make a client");
        let request = http::Request::post("/v3/kv/put").body(put.to_string().into_bytes());
        client.request_text(request.expect("it is a request")).await.expect("etcd must store it");
    }

    /// How kube clients reach it.
    pub fn config(&self) -> kube::Config {
        let url = format!("https://127.0.0.1:{}", self.port);
        let mut config = kube::Config::new(url.parse().expect("it is a URL"));
        config.accept_invalid_certs = true;
        config.auth_info.token = Some(TOKEN.to_owned().into());
        config.default_retry = false;
        config
    }

    /// A kubeconfig for other programs.
    pub fn kubeconfig(&self) -> serde_json::Value {
        let server = format!("https://127.0.0.1:{}", self.port);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": { "server": server, "insecure-skip-tls-verify": true } }],
            "users": [{ "name": "test", "user": { "token": TOKEN } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        })
    }

    /// A program that ends when this process does, however it ends.
    fn spawn(&self, program: &str, arguments: &[String]) -> Child {
        let log =
            std::fs::File::create(self.folder.path().join(format!("{program}.log"))).expect("a log file");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(self.assets.join(program)).args(arguments);
        command.current_dir(self.folder()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        spawn_for_good(command)
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        stop(&mut self.api_server.lock());
        stop(&mut self.etcd.lock());
    }
}

/// Starts a program from a thread that lives as long as this process: the signal that ends the program comes at the end of
/// the thread that started it, and those of tests end early.
pub fn spawn_for_good(mut command: Command) -> Child {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(command.spawn());
        loop {
            std::thread::park();
        }
    });
    receiver.recv().expect("the thread must answer").expect("setpriv (util-linux) must start")
}

fn stop(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn run(program: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program} must start: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Ports that were free a moment ago.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] = std::array::from_fn(|_| {
        TcpListener::bind("127.0.0.1:0").expect("a port of the loopback must be free")
    });
    listeners.map(|listener| listener.local_addr().expect("it is bound").port())
}
