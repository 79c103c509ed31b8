//! What the agent's own code works with.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::start_failures::StartFailures;
use crate::allocation::Resizes;
use crate::cgroups::PodCgroups;
use crate::environment::PodEnvironment;
use crate::events::Events;
use crate::kuberuntime::manager::Kuberuntime;
use crate::machine::Family;
use crate::node_status::LiveNode;
use crate::objects::Objects;
use crate::pleg::PlegHandle;
use crate::pod_config::MirrorClient;
use crate::pod_manager::PodManager;
use crate::pod_workers::{self, States};
use crate::probes::ProbeManager;
use crate::root_dir::RootDir;
use crate::status_manager::StatusManager;
use crate::sync_loop::RuntimeState;
use crate::volumes::VolumeManager;

/// One node's parts, as syncs, housekeeping and the server use them.
pub(super) struct Parts {
    /// Pods as their sources told.
    pub(super) pods: PodManager,
    /// What pod workers know of them.
    pub(super) states: States,
    /// What is measured of them.
    pub(super) worker_metrics: pod_workers::Metrics,
    /// What they were allocated.
    pub(super) resizes: Resizes,
    /// Their statuses.
    pub(super) statuses: StatusManager,
    /// Why their containers could not be started.
    pub(super) failures: StartFailures,
    /// Their probes.
    pub(super) probes: ProbeManager,
    /// Their volumes.
    pub(super) volumes: VolumeManager,
    /// Their control groups.
    pub(super) cgroups: Arc<dyn PodCgroups>,
    /// What their containers are run with.
    pub(super) environment: PodEnvironment,
    /// The config maps and secrets that they refer to.
    pub(super) objects: Arc<dyn Objects>,
    /// What runs them.
    pub(super) runtime: Arc<Kuberuntime>,
    /// How long that may take to show one pod.
    pub(super) inspect_timeout: Duration,
    /// Has it asked what it has.
    pub(super) relists: PlegHandle,
    /// Whether that is well.
    pub(super) runtime_state: RuntimeState,
    /// This node.
    pub(super) node: LiveNode,
    /// The family of addresses that it prefers.
    pub(super) ip_family: Family,
    /// Where events go.
    pub(super) events: Events,
    /// Shows static pods on the API server; absent where there is none.
    pub(super) mirrors: Option<MirrorClient>,
    /// Where pods' folders are.
    pub(super) root: RootDir,
    /// Told of each pod of which nothing is left but its sandbox.
    pub(super) ended: Notify,
    /// Whether somebody is told of statuses.
    pub(super) on_api_server: bool,
}
