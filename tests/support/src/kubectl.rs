//! kubectl as a process.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;
use tokio::time::timeout;

use super::{patience, real};

/// kubectl with a cluster and a namespace.
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
}

impl Kubectl {
    /// The kubectl of the folder of Kubernetes' binaries. `None`, with a message, if there is none.
    #[allow(clippy::print_stdout, reason = "a test says what it skips")]
    pub fn find(kubeconfig: &Path, namespace: &str) -> Option<Self> {
        let folders = real::assets().into_iter().chain(home());
        let Some(binary) = folders.map(|folder| folder.join("kubectl")).find(|path| path.exists()) else {
            println!("no kubectl is at hand: not run");
            return None;
        };
        Some(Self { binary, kubeconfig: kubeconfig.to_owned(), namespace: namespace.to_owned() })
    }

    /// Runs a command, whose words are separated by blanks, and returns its output.
    ///
    /// # Panics
    /// If the command fails, or does not end within [`patience`].
    pub async fn run(&self, command: &str) -> String {
        self.run_with(command, String::new()).await
    }

    /// Applies an object.
    pub async fn apply(&self, object: &Value) {
        self.run_with("apply -f -", object.to_string()).await;
    }

    /// An object as JSON, such as `job/four`.
    pub async fn get(&self, object: &str) -> Value {
        let json = self.run(&format!("get {object} -o json")).await;
        serde_json::from_str(&json).expect("kubectl must write JSON")
    }

    /// Starts a command that the test does not wait for.
    pub fn start(&self, command: &str) -> Running {
        let output = tempfile::NamedTempFile::new().expect("a temporary file must be had");
        let reopen = || output.reopen().expect("the file was just made");
        let mut process = self.command(command);
        process.stdin(Stdio::null()).stdout(reopen()).stderr(reopen());
        Running { child: process.spawn().expect("kubectl must start"), output }
    }

    async fn run_with(&self, command: &str, input: String) -> String {
        let mut process = self.command(command);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = tokio::task::spawn_blocking(move || {
            let mut child = process.spawn().expect("kubectl must start");
            let mut stdin = child.stdin.take().expect("the input is a pipe");
            // A command that does not read its input may have ended.
            let _ = stdin.write_all(input.as_bytes());
            drop(stdin);
            child.wait_with_output()
        });
        let output = timeout(patience(), run).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {command} takes too long"));
        let output = output.expect("the task must end").expect("kubectl must end");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {command}: {said}{failed}");
        said
    }

    fn command(&self, command: &str) -> Command {
        let mut process = Command::new(&self.binary);
        process.arg("--kubeconfig").arg(&self.kubeconfig).arg("--namespace").arg(&self.namespace);
        process.args(command.split_whitespace());
        process
    }
}

/// A command under way. It is killed when this is dropped.
pub struct Running {
    child: Child,
    output: tempfile::NamedTempFile,
}

impl Running {
    /// What the command has written so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.output.path()).unwrap_or_default()
    }

    /// How the command ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("its end can be waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where tests of this project keep Kubernetes' binaries.
#[allow(clippy::disallowed_methods, reason = "only the environment knows the home folder")]
fn home() -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/kubernetes-assets"))
}
