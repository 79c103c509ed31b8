//! The agent: made, and run until it is told to stop.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use super::cgroup_driver;
use super::error::Error;
use super::options::{Connections, Options};
use super::serving::{Registries, Serving};
use super::settings::{check_machine, reserved, swap_warning};
use crate::blocking::blocking;
use crate::cgroups::{CgroupTree, hold};
use crate::events::{EventType, Events};
use crate::images::RuntimeImages;
use crate::machine::{CgroupVersion, Facts, Machine};
use crate::node_status::NodeStatus;
use crate::node_status::events::node_reference;
use crate::root_dir::RootDir;
use crate::volumes::{Rights, can_be_kept_from_swap, share};

/// What is said of a machine whose control groups are of the first version.
const CGROUP_V1: &str = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please \
                         migrate to cgroup v2. More information at \
                         https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1";

/// How long an agent that does not start has to write why.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// Between two tries to reach a runtime that does not answer at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// The node agent: registers its node, and runs the pods that its sources tell of.
///
/// It keeps nothing of pods but what the runtime, the API server and folders on disk have: one that is started again goes
/// on where the last one ended, and containers run on in between.
pub struct Agent {
    pub(super) options: Options,
    pub(super) connections: Connections,
    pub(super) registry: Registry,
    pub(super) machine: Machine,
    pub(super) facts: Facts,
    pub(super) root: RootDir,
}

impl Agent {
    /// Measures the machine and makes the node's folders. All metrics will be in `registry`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(options: Options, connections: Connections, registry: Registry) -> Result<Self, Error> {
        for path in [&options.root_dir, &options.configuration.pod_logs_dir, &options.container_log_links] {
            folder(path)?;
        }
        let machine = Machine::this();
        let facts = machine.facts(&options.root_dir)?;
        check_machine(&options.configuration, &facts)?;
        set_up_kernel(&options)?;
        let root = RootDir::new(options.root_dir.clone());
        folder(&root.pods())?;
        if options.volume_rights == Rights::All
            && let Err(error) = share(&options.root_dir)
        {
            tracing::warn!(%error, "Mounts that containers make are not seen by others");
        }
        Ok(Self { options, connections, registry, machine, facts, root })
    }

    /// Runs until `stop`. Waits for the runtime first, if that does not answer yet. Containers run on afterwards.
    ///
    /// # Errors
    /// A part can't be set up as the configuration asks; see [`Error`].
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        let Some(runtime_name) = stop.run_until_cancelled(self.meet_runtime()).await else { return Ok(()) };
        let mut assembled = self.assemble(&runtime_name?)?;
        let (host, metrics) = (self.host(&assembled), assembled.server_metrics.clone());
        let registries = Registries { all: &self.registry, probes: &assembled.probe_registry };
        let serving = Serving::bind(&self.options, &self.connections, host, metrics, registries).await?;
        let settled = settle(Arc::clone(&assembled.images), assembled.node_status.clone());
        if stop.run_until_cancelled(settled).await.is_none() {
            return Ok(());
        }
        // Those that pods need to the end stop after the workers.
        let (mut background, last) = (JoinSet::new(), CancellationToken::new());
        if let Some(writers) = assembled.writers.take() {
            background.spawn(writers.run(last.clone()).instrument(info_span!("events")));
        }
        let (tree, events) = (assembled.tree.clone(), Arc::clone(&assembled.parts.events));
        let started = async {
            self.warn_of_unmet_guarantees(&events);
            self.warn_of_swap(&events).await;
            if let Some((tree, _)) = tree {
                self.hold_daemons(&tree, &events).await?;
            }
            self.start(assembled, serving, &mut background, &last, stop).await
        };
        let ended = started.await;
        if ended.is_err() {
            last.cancel();
            let written = timeout(LAST_EVENTS, async { while background.join_next().await.is_some() {} });
            if written.await.is_err() {
                tracing::warn!("Some events were not written in time");
            }
        }
        ended
    }

    /// Writes an event on the Node for each setting whose guarantee this version does not give: users of the cluster do not
    /// read this agent's log.
    fn warn_of_unmet_guarantees(&self, events: &Events) {
        let node = node_reference(&self.options.node_name);
        for setting in &self.options.unmet_guarantees {
            events.event(&node, EventType::Warning, "UnsupportedSetting", setting);
        }
    }

    /// Tells of a machine on whose disk secrets may come to lie. For agents that mount.
    async fn warn_of_swap(&self, events: &Events) {
        if self.options.volume_rights != Rights::All {
            return;
        }
        let (swap, root) = (self.facts.swap, self.root.path().to_owned());
        let warning = blocking(move || swap_warning(swap, || can_be_kept_from_swap(&root))).await;
        if let Some(warning) = warning {
            let node = node_reference(&self.options.node_name);
            events.event(&node, EventType::Warning, "PossibleMemoryBackedVolumesOnDisk", warning);
        }
    }

    /// Holds the host's daemons to what is reserved for them. For nodes that keep groups for pods.
    async fn hold_daemons(&self, tree: &Arc<CgroupTree>, events: &Events) -> Result<(), Error> {
        let node = node_reference(&self.options.node_name);
        // Who keeps none for pods need not care.
        if self.facts.cgroup_version == CgroupVersion::V1 {
            events.event(&node, EventType::Warning, "CgroupV1", CGROUP_V1);
        }
        Ok(hold(tree, reserved(&self.options.configuration), events, &node).await?)
    }

    /// Waits for the runtime, and follows what it says of its cgroup driver. Answers with its name.
    pub(super) async fn meet_runtime(&mut self) -> Result<String, Error> {
        let name = self.runtime_name().await;
        if let Some(driver) = cgroup_driver::told_by(&*self.connections.runtime, &self.registry).await? {
            self.options.configuration.cgroup_driver = driver;
        }
        Ok(name)
    }

    /// The name that ids of containers begin with.
    async fn runtime_name(&self) -> String {
        loop {
            match self.connections.runtime.version("0.1.0").await {
                Ok(version) => {
                    let (name, version) = (version.runtime_name, version.runtime_version);
                    tracing::info!(name, version, "Container runtime initialized");
                    return name;
                }
                Err(error) => tracing::error!(%error, "The container runtime does not answer yet"),
            }
            tokio::time::sleep(RUNTIME_RETRY).await;
        }
    }
}

/// Gives the kernel the settings that nodes need, or checks them where the configuration protects them.
fn set_up_kernel(options: &Options) -> Result<(), Error> {
    match &options.kernel {
        None => {}
        Some(kernel) if options.configuration.protect_kernel_defaults => kernel.check_sysctls()?,
        Some(kernel) => kernel.set_sysctls(),
    }
    Ok(())
}

/// What must be so before the first pod comes: what is known of pulled images, and of this node.
async fn settle(images: Arc<RuntimeImages>, node_status: NodeStatus) {
    while let Err(error) = images.settle().await {
        tracing::error!(%error, "The runtime's images can't be listed yet");
        tokio::time::sleep(RUNTIME_RETRY).await;
    }
    node_status.observe_initial().await;
}

/// Makes a folder, where it is missing.
fn folder(path: &Path) -> Result<(), Error> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(path);
    made.map_err(|source| Error::Folder { path: path.to_owned(), source })
}
