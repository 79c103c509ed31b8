//! A runtime under test, and short words for what the cases do with it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::cri::{Client, ClientConfig, v1};
use crate::runtime::simulated::{Logs, PREFIX, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{ImageService, RuntimeService};

pub(super) const IMAGE: &str = "docker.io/library/busybox:1.36";
/// Marks what a case made, so that nothing else is touched.
const OWNER: &str = "contract.steersman.io/case";
/// Longer than a real runtime needs for anything here.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Subject {
    pub(super) runtime: Arc<dyn RuntimeService>,
    pub(super) images: Arc<dyn ImageService>,
    /// Unique on the machine.
    owner: String,
    /// Where sandboxes have their logs.
    pub(super) logs: TempDir,
}

/// What runs in a container: for a real runtime a shell script, for the simulated one annotations to the same effect.
#[derive(Clone, Copy)]
pub(super) struct Program {
    script: &'static str,
    annotations: &'static [(&'static str, &'static str)],
}

/// Runs until SIGTERM, then exits with 7. Commands in it write and exit with 4.
pub(super) const POLITE: Program = Program {
    script: "trap 'exit 7' TERM; touch /tmp/up; sleep 3600 & wait",
    annotations: &[
        ("stop-code", "7"),
        ("exec-stdout", "out\n"),
        ("exec-stderr", "err\n"),
        ("exec-code", "4"),
    ],
};
pub(super) const STUBBORN: Program =
    Program { script: "trap '' TERM; touch /tmp/up; sleep 3600", annotations: &[("stop-delay", "never")] };
/// Commands in it take half a minute.
pub(super) const SLOW_COMMANDS: Program =
    Program { script: "sleep 3600", annotations: &[("exec-delay", "30s")] };
pub(super) const SUCCEEDS: Program = Program { script: "exit 0", annotations: &[("exit-after", "0s")] };
pub(super) const FAILS: Program =
    Program { script: "exit 3", annotations: &[("exit-after", "0s"), ("exit-code", "3")] };
/// Writes a line every now and then.
pub(super) const TALKS: Program = Program {
    script: "while true; do echo hello; sleep 0.1; done",
    annotations: &[("log", "hello"), ("log-interval", "100ms")],
};

impl Subject {
    pub(super) fn simulated() -> Self {
        let config =
            SimulatedConfig { images: vec![IMAGE.into()], logs: Logs::Written, ..Default::default() };
        let runtime = SimulatedRuntime::new(config);
        Self::new(Arc::new(runtime.clone()), Arc::new(runtime))
    }

    #[allow(clippy::disallowed_methods, reason = "that is how the users of CRI tools name a runtime")]
    pub(super) fn real() -> Option<Self> {
        let endpoint = std::env::var("CONTAINER_RUNTIME_ENDPOINT").ok().filter(|value| !value.is_empty())?;
        let client = Client::new(&endpoint.parse().unwrap(), ClientConfig::default()).unwrap();
        Some(Self::new(Arc::new(client.clone()), Arc::new(client)))
    }

    fn new(runtime: Arc<dyn RuntimeService>, images: Arc<dyn ImageService>) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let owner = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        Self { runtime, images, owner, logs: TempDir::new().unwrap() }
    }

    /// Runs a case, and takes away what it made, come what may.
    pub(super) async fn run(self, case: impl AsyncFnOnce(&Subject)) {
        let outcome = AssertUnwindSafe(case(&self)).catch_unwind().await;
        let left = self.runtime.list_pod_sandbox(&self.own_sandboxes()).await.unwrap();
        for sandbox in left {
            self.runtime.stop_pod_sandbox(&sandbox.id).await.unwrap();
            self.runtime.remove_pod_sandbox(&sandbox.id).await.unwrap();
        }
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        assert_eq!(self.runtime.list_pod_sandbox(&self.own_sandboxes()).await.unwrap(), []);
        assert_eq!(self.runtime.list_containers(&self.own_containers()).await.unwrap(), []);
    }

    fn labels(&self, more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let more = more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        more.chain([(OWNER.to_owned(), self.owner.clone())]).collect()
    }

    pub(super) fn own_sandboxes(&self) -> v1::PodSandboxFilter {
        v1::PodSandboxFilter { label_selector: self.labels(&[]), ..Default::default() }
    }

    pub(super) fn own_containers(&self) -> v1::ContainerFilter {
        v1::ContainerFilter { label_selector: self.labels(&[]), ..Default::default() }
    }

    pub(super) fn sandbox_config(&self, name: &str) -> v1::PodSandboxConfig {
        v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: name.into(),
                uid: format!("uid-of-{name}-{}", self.owner),
                namespace: "steersman-contract".into(),
                attempt: 0,
            }),
            hostname: name.into(),
            log_directory: self.logs.path().display().to_string(),
            labels: self.labels(&[("pod", name)]),
            annotations: BTreeMap::from([("note".into(), "kept".into())]),
            linux: Some(v1::LinuxPodSandboxConfig {
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    pub(super) fn container_config(&self, name: &str, program: Program) -> v1::ContainerConfig {
        let annotations =
            program.annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).into()));
        v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: name.into(), attempt: 0 }),
            image: Some(image(IMAGE)),
            command: vec!["sh".into(), "-c".into(), program.script.into()],
            labels: self.labels(&[("container", name)]),
            annotations: annotations.collect(),
            log_path: format!("{name}.log"),
            linux: Some(v1::LinuxContainerConfig {
                resources: Some(v1::LinuxContainerResources { cpu_shares: 256, ..Default::default() }),
                security_context: Some(v1::LinuxContainerSecurityContext {
                    namespace_options: Some(namespaces()),
                    ..Default::default()
                }),
            }),
            ..Default::default()
        }
    }

    pub(super) async fn sandbox(&self, name: &str) -> String {
        self.runtime.run_pod_sandbox(&self.sandbox_config(name), "").await.unwrap()
    }

    pub(super) async fn created(&self, sandbox: &str, name: &str, program: Program) -> String {
        let config = self.container_config(name, program);
        let pod = self.sandbox_status(sandbox).await.metadata.unwrap().name;
        self.runtime.create_container(sandbox, &config, &self.sandbox_config(&pod)).await.unwrap()
    }

    pub(super) async fn started(&self, sandbox: &str, name: &str, program: Program) -> String {
        let id = self.created(sandbox, name, program).await;
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    /// Started, and as far as its script goes before it waits.
    pub(super) async fn up(&self, sandbox: &str, name: &str, program: Program) -> String {
        let id = self.started(sandbox, name, program).await;
        let command = ["test", "-e", "/tmp/up"].map(str::to_owned);
        let simulated = self.runtime.version("0.1.0").await.unwrap().runtime_name == "simulated";
        let ready = async || {
            let answer = self.runtime.exec_sync(&id, &command, Duration::ZERO).await.unwrap();
            simulated || answer.exit_code == 0
        };
        eventually("the script has begun", ready).await;
        id
    }

    pub(super) async fn sandbox_status(&self, id: &str) -> v1::PodSandboxStatus {
        self.runtime.pod_sandbox_status(id).await.unwrap().status.unwrap()
    }

    pub(super) async fn status(&self, id: &str) -> v1::ContainerStatus {
        self.runtime.container_status(id).await.unwrap().status.unwrap()
    }

    pub(super) async fn exited(&self, id: &str) -> v1::ContainerStatus {
        let exited = async || self.status(id).await.state() == v1::ContainerState::ContainerExited;
        eventually("the container has exited", exited).await;
        self.status(id).await
    }
}

pub(super) fn image(name: &str) -> v1::ImageSpec {
    v1::ImageSpec { image: name.into(), ..Default::default() }
}

/// As the kubelet asks for: the network is the pod's, processes are the container's own.
pub(super) fn namespaces() -> v1::NamespaceOption {
    v1::NamespaceOption { pid: v1::NamespaceMode::Container.into(), ..Default::default() }
}

/// Waits for a condition, looking again and again.
pub(super) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not in time: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
