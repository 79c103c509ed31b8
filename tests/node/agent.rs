//! `steersman node` as a process.

use std::fs::OpenOptions;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cgroups::Cgroups;
use crate::web::{MANIFEST, Web};
use support::real::{RealServer, free_ports, spawn_for_good};
use support::until;

/// The agent of one node, which may be stopped and started again. It is killed when this process ends, however it does.
pub struct Agent {
    /// The node's name.
    pub node: String,
    /// The port that it serves.
    pub port: u16,
    folder: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Agent {
    /// Writes what it reads, in an empty folder; `cgroups` has the group for all that it makes.
    pub fn new(
        node: &str,
        folder: &Path,
        server: &RealServer,
        endpoint: &str,
        cgroups: &Cgroups,
        web: &Web,
    ) -> Self {
        let [port] = free_ports();
        server.certificate("node", &format!("/O=system:nodes/CN=system:node:{node}"));
        let configuration = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": { "enabled": false }, "webhook": { "enabled": true },
                "x509": { "clientCAFile": server.folder().join("ca.crt") },
            },
            "authorization": { "mode": "Webhook" },
            "port": port, "healthzPort": 0,
            "containerRuntimeEndpoint": endpoint,
            "cgroupDriver": cgroups.driver(), "cgroupRoot": format!("/{}", cgroups.root),
            "failCgroupV1": false, "failSwapOn": false, "makeIPTablesUtilChains": false,
            "evictionHard": { "nodefs.available": "100Mi", "imagefs.available": "100Mi" },
            "clusterDNS": ["10.0.0.10"], "clusterDomain": "cluster.test",
            "podLogsDir": folder.join("logs"),
            "staticPodPath": folder.join("manifests"), "fileCheckFrequency": "1s",
            "staticPodURL": web.url(MANIFEST), "httpCheckFrequency": "1s",
            "containerLogMaxSize": "4Ki", "containerLogMaxFiles": 3, "containerLogMonitorInterval": "3s",
        });
        let write = |name: &str, text: serde_json::Value| {
            std::fs::write(folder.join(name), text.to_string()).expect("a file must be written");
        };
        write("config.json", configuration);
        write("kubeconfig.json", server.kubeconfig_of("node"));
        for name in ["logs", "manifests", "root"] {
            std::fs::create_dir(folder.join(name)).expect("a folder must be made");
        }
        Self { node: node.to_owned(), port, folder: folder.to_owned(), child: Mutex::default() }
    }

    /// Starts it.
    pub fn start(&self) {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).expect("a log file");
        let mut command = self.command(&self.folder.join("config.json"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        *self.child.lock() = Some(spawn_for_good(command));
    }

    /// Starts another one with some settings changed, which must not get as far as running pods; what it says on standard
    /// error until it ends by itself.
    pub async fn refused(&self, changes: &[(&str, serde_json::Value)]) -> String {
        let text = std::fs::read(self.folder.join("config.json")).expect("it was written");
        let mut configuration: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
        configuration["port"] = json!(free_ports::<1>()[0]);
        for (name, value) in changes {
            configuration[*name] = value.clone();
        }
        let (path, log) = (self.folder.join("refused.json"), self.folder.join("refused.log"));
        std::fs::write(&path, configuration.to_string()).expect("a file must be written");
        let mut command = self.command(&path);
        let output = std::fs::File::create(&log).expect("a log file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let mut child = spawn_for_good(command);
        until("it ends", || child.try_wait().expect("its end can be waited for").is_some()).await;
        let status = child.wait().expect("it has ended");
        assert!(!status.success(), "{status}");
        std::fs::read_to_string(log).expect("the log must be there")
    }

    fn command(&self, configuration: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(env!("CARGO_BIN_EXE_steersman")).arg("node");
        command.arg("--config").arg(configuration);
        command.arg("--kubeconfig").arg(self.folder.join("kubeconfig.json"));
        command.arg("--root-dir").arg(self.root()).arg("--cert-dir").arg(self.folder.join("pki"));
        command.args(["--hostname-override", &self.node, "--node-ip", &node_ip().to_string()]);
        command.args(["--node-labels", "test.steersman.dev/here=yes"]);
        command
    }

    /// Kills it with SIGKILL, and waits for its end.
    pub fn kill(&self) {
        if let Some(mut child) = self.child.lock().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and waits for that.
    pub async fn stop(&self) {
        let child = self.child.lock().take();
        let Some(mut child) = child else { return };
        kill_process(Pid::from_child(&child), Signal::TERM).expect("the agent must still run");
        until("the agent ends", || child.try_wait().expect("its end can be waited for").is_some()).await;
    }

    /// `--root-dir`.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// `podLogsDir`.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// What it has itself known to the API server by: a certificate of its node.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig.json")
    }

    /// `staticPodPath`.
    pub fn manifests(&self) -> PathBuf {
        self.folder.join("manifests")
    }

    /// The errors in its log that name that.
    pub fn errors_of(&self, what: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        log.lines().filter(|line| line.starts_with('E') && line.contains(what)).map(str::to_owned).collect()
    }

    /// What it wrote to its log, last.
    pub fn log_end(&self) -> String {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let end: Vec<_> = log.lines().rev().take(40).collect();
        end.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("agent.log")
    }
}

/// An address of this machine that is no loopback, which a node may not have. Nothing is sent.
fn node_ip() -> IpAddr {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket must be had");
    // 192.0.2.0/24 is for documentation; where there is no route to it, the bridge of pods serves.
    for target in [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(10, 88, 0, 2)] {
        if socket.connect((target, 9)).is_ok() {
            return socket.local_addr().expect("it is connected").ip();
        }
    }
    panic!("this machine must have an address besides the loopback");
}
