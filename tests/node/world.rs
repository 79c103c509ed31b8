//! One cluster for all tests: an API server, a node with its agent, and the runtime's own view.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use steersman_node::cri;

use crate::agent::Agent;
use crate::cgroups::Cgroups;
use crate::left;
use crate::sysctls::Sysctls;
use crate::web::Web;
use support::real::{self, RealServer};
use support::{TemporaryFolder, eventually, patience};

/// What the tests share.
pub struct World {
    pub server: RealServer,
    pub agent: Agent,
    /// A registry and manifests for it.
    pub web: Web,
    /// To see what the agent made; nothing is changed by it but at the very end.
    pub runtime: cri::Client,
    pub kubectl: PathBuf,
    /// An administrator's.
    pub kubeconfig: PathBuf,
    /// All that the agent makes is in one of them.
    pub cgroups: Cgroups,
    /// Common to all namespaces of this run, and to no other's.
    pub prefix: String,
    folder: TemporaryFolder,
    _sysctls: Sysctls,
}

impl World {
    /// # Errors
    /// What this machine lacks.
    #[allow(clippy::disallowed_methods, reason = "that is how a runtime is named")]
    pub async fn start() -> Result<Self, &'static str> {
        let assets = real::assets().ok_or("KUBEBUILDER_ASSETS is not set")?;
        let endpoint =
            std::env::var("CONTAINER_RUNTIME_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
        let endpoint = endpoint.ok_or("CONTAINER_RUNTIME_ENDPOINT is not set")?;
        if !rustix::process::geteuid().is_root() {
            return Err("containers need root");
        }
        let sysctls = Sysctls::now();
        let server = RealServer::start_for_nodes(&assets).await;
        let folder = TemporaryFolder::create();
        let prefix = format!("node-test-{}", std::process::id());
        let cgroups = Cgroups::new(format!("steersman-{prefix}"));
        left::make_cgroup(&cgroups);
        let kubeconfig = folder.path().join("admin.json");
        std::fs::write(&kubeconfig, server.kubeconfig().to_string()).expect("a file must be written");
        let web = Web::start().await;
        let agent = Agent::new(&prefix, folder.path(), &server, &endpoint, &cgroups, &web);
        agent.start();
        let endpoint = endpoint.parse().expect("the runtime's endpoint must be good");
        let runtime =
            cri::Client::new(&endpoint, cri::ClientConfig::default()).expect("a client must be made");
        let kubectl = assets.join("kubectl");
        let world = Self {
            server,
            agent,
            web,
            runtime,
            kubectl,
            kubeconfig,
            cgroups,
            prefix,
            folder,
            _sysctls: sysctls,
        };
        world.until_ready().await;
        Ok(world)
    }

    /// An administrator's client, with that namespace as its own.
    pub fn client(&self, namespace: &str) -> kube::Client {
        let mut config = self.server.config();
        namespace.clone_into(&mut config.default_namespace);
        kube::Client::try_from(config).expect("the configuration must make a client")
    }

    /// The node.
    pub async fn node(&self) -> Node {
        let nodes = Api::<Node>::all(self.client("default"));
        nodes.get(&self.agent.node).await.expect("the node must be there")
    }

    async fn until_ready(&self) {
        let nodes = Api::<Node>::all(self.client("default"));
        let ready = eventually("the node is ready", || async {
            let node = nodes.get(&self.agent.node).await.ok()?;
            let conditions = node.status?.conditions?;
            conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True").then_some(())
        });
        if tokio::time::timeout(patience(), ready).await.is_err() {
            panic!("the node is not ready; its agent's log ends with\n{}", self.agent.log_end());
        }
    }

    /// Stops the agent, and takes away what it may have left.
    pub async fn end(&self, failed: bool) {
        if failed {
            println!("the agent's log ends with\n{}", self.agent.log_end());
        }
        self.agent.kill();
        left::remove(self).await;
        if failed {
            let kept = std::env::temp_dir().join(format!("{}.log", self.prefix));
            let _ = std::fs::copy(self.folder.path().join("agent.log"), &kept);
            println!("the agent's whole log: {}", kept.display());
        }
    }
}
