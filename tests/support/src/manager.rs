//! A controller manager as a process: `steersman controller-manager`, or upstream's.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{real, shipped_role};

/// The program that a test runs as its manager.
enum Program {
    /// `steersman controller-manager`.
    Steersman,
    /// The kube-controller-manager at this path.
    Upstream(PathBuf),
}

/// The program `steersman` of the same build as the running test. Cargo sets `CARGO_BIN_EXE_steersman` only for the test files, not
/// for this crate. It puts their programs into the folder `deps` beside `steersman`.
fn steersman() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let folder = test.parent().and_then(Path::parent).expect("cargo puts tests into the folder `deps`");
    folder.join("steersman")
}

impl Program {
    /// The kube-controller-manager that `STEERSMAN_TEST_MANAGER` names, which shows whether a test describes what
    /// Kubernetes does. Without the variable: steersman.
    #[allow(
        clippy::disallowed_methods,
        reason = "only who starts the tests knows whether upstream is to be tested"
    )]
    fn under_test() -> Self {
        let path = std::env::var_os("STEERSMAN_TEST_MANAGER").filter(|path| !path.is_empty());
        path.map_or(Self::Steersman, |path| Self::Upstream(path.into()))
    }

    fn command(&self, address: &str) -> Command {
        match self {
            Self::Steersman => {
                let mut command = Command::new(steersman());
                command.args(["controller-manager", "--http-address", address, "--secure-port=0"]);
                command
            }
            Self::Upstream(path) => {
                let mut command = Command::new(path);
                command.arg("--secure-port=0");
                command
            }
        }
    }
}

/// A manager at work. It is killed when this is dropped.
pub struct Manager {
    child: Child,
    /// Where it serves its metrics and health. Upstream's manager serves none here.
    pub address: String,
    is_steersman: bool,
    log: tempfile::NamedTempFile,
}

impl Manager {
    /// Whether the tests run upstream's manager in place of steersman.
    pub fn is_upstream() -> bool {
        matches!(Program::under_test(), Program::Upstream(_))
    }

    /// One that does not ask for leadership, with these further flags.
    pub fn start(kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::start_candidate(kubeconfig, &[&["--leader-elect=false"], flags].concat())
    }

    /// One that stands as a candidate, unless the flags say otherwise.
    pub fn start_candidate(kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::run(&Program::under_test(), kubeconfig, flags)
    }

    /// The kube-controller-manager of the folder `assets`, which does not ask for leadership, with these further flags.
    pub fn start_upstream(assets: &Path, kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::start_upstream_candidate(assets, kubeconfig, &[&["--leader-elect=false"], flags].concat())
    }

    /// Likewise, one that stands as a candidate, unless the flags say otherwise.
    pub fn start_upstream_candidate(assets: &Path, kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::run(&Program::Upstream(assets.join("kube-controller-manager")), kubeconfig, flags)
    }

    fn run(program: &Program, kubeconfig: &Path, flags: &[&str]) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let log = tempfile::NamedTempFile::new().expect("a temporary file must be had");
        let mut command = program.command(&address);
        let folder = kubeconfig.parent().expect("a kubeconfig is in a folder");
        let kubeconfig = match program {
            Program::Steersman => shipped_role::kubeconfig(kubeconfig, real::TOKEN, flags),
            Program::Upstream(_) => kubeconfig.to_owned(),
        };
        command.arg("--kubeconfig").arg(kubeconfig).arg("--controller-start-interval=0s").args(flags);
        command.current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen().expect("it was just made"));
        let child = command.spawn().expect("the manager must start");
        let is_steersman = matches!(program, Program::Steersman);
        Self { child, address, is_steersman, log }
    }

    /// Whether it is not upstream's.
    pub fn is_steersman(&self) -> bool {
        self.is_steersman
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the manager must still run");
    }

    /// Kills it at once, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits for that.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        super::eventually("the manager ends", || {
            std::future::ready(self.child.try_wait().expect("its end can be waited for"))
        })
        .await
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// What it answers to a GET, if it answers.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        let stream = tokio::net::TcpStream::connect(&self.address).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.ok()?;
        let request = http::Request::get(path)
            .header(http::header::HOST, &self.address)
            .body(http_body_util::Empty::<hyper::body::Bytes>::new())
            .ok()?;
        let exchange = async {
            let response = sender.send_request(request).await.ok()?;
            let status = response.status().as_u16();
            let body = http_body_util::BodyExt::collect(response.into_body()).await.ok()?.to_bytes();
            Some((status, String::from_utf8_lossy(&body).into_owned()))
        };
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(connection);
        tokio::time::timeout(std::time::Duration::from_secs(10), exchange).await.ok()?
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let end: Vec<_> = log.lines().rev().take(30).collect();
            let end: Vec<_> = end.into_iter().rev().collect();
            println!("the end of the manager's log:\n{}", end.join("\n"));
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback must be free");
    listener.local_addr().expect("it is bound").port()
}
