//! What a pod needs done is done here, by calls of the runtime (`kubeGenericRuntimeManager` upstream).
//!
//! [`Kuberuntime`] decides nothing: [`compute_pod_actions`](super::compute_pod_actions), the back-off and the tables in
//! [`garbage`] do. Calls for different pods share no lock that is held while anything is waited for, so a call that hangs
//! holds up its own pod alone.
//!
//! | part | does |
//! |---|---|
//! | `list` | what the PLEG lists and inspects |
//! | `sync` | a pod's actions, stage by stage; `sandbox`, `start`, `post_start`, `resize` are its stages |
//! | `kill` | stops containers and whole pods |
//! | `remove` | takes ended containers away with their logs |
//! | `garbage` | what is left over of pods that run, and of those that are gone |

mod convert;
pub mod garbage;
mod kill;
mod kill_pod;
mod list;
mod metrics;
mod post_start;
mod records;
mod remove;
mod resize;
mod sandbox;
mod spec;
mod start;
mod sync;
mod termination_message;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arcstr::ArcStr;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::task::{JoinSet, spawn_blocking};

pub use self::kill_pod::RunningPod;
pub(crate) use self::list::pod_ips;
pub use self::metrics::Metrics;
pub use self::sync::SyncInputs;

use self::garbage::Policy;
use self::kill::Killer;
use self::records::{Records, uid};
use super::actions::resize::is_in_progress;
use super::back_off::{self, CrashLoopBackOff};
use super::container_config::NodeFacts;
use super::helper::RuntimeHelper;
use super::log_path::{LEGACY_CONTAINER_LOGS_DIRECTORY, POD_LOGS_DIRECTORY};
use crate::allocation::Store;
use crate::cgroups::PodCgroups;
use crate::container::PodStatus;
use crate::events::Events;
use crate::images::ImageManager;
use crate::lifecycle::HookRunner;
use crate::root_dir::RootDir;
use crate::runtime::{ImageService, RuntimeService};

/// Tells the time of the day.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Told of a pod whose sandbox was made and has its network, so that its status may say so before images are pulled. It must
/// not block.
pub type SandboxReady = Arc<dyn Fn(&Pod) + Send + Sync>;

/// What [`Kuberuntime::new`] puts together.
pub struct Parts {
    /// Runs sandboxes and containers.
    pub runtime: Arc<dyn RuntimeService>,
    /// Knows the images, for the users that they name.
    pub image_service: Arc<dyn ImageService>,
    /// Gets the images.
    pub images: Arc<dyn ImageManager>,
    /// The rest of the node.
    pub helper: Arc<dyn RuntimeHelper>,
    /// The pods' own control groups, for changes of resources.
    pub cgroups: Arc<dyn PodCgroups>,
    /// Told of sandboxes.
    pub sandbox_ready: SandboxReady,
    /// Takes the events.
    pub events: Events,
    /// What pods and their containers were given.
    pub actuated: Store,
    /// Takes the counts.
    pub metrics: Metrics,
    /// Stamps are compared with it; [`machine_clock`] but in tests.
    pub clock: WallClock,
    /// The settings.
    pub options: Options,
}

/// The machine's clock.
pub fn machine_clock() -> WallClock {
    Arc::new(Timestamp::now)
}

/// The settings of a [`Kuberuntime`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The runtime's name, as its version call tells it: what ids of containers begin with.
    pub runtime_name: ArcStr,
    /// Where the node keeps its pods' folders.
    pub root: RootDir,
    /// `podLogsDir`: where the logs of all pods are. Default `/var/log/pods`.
    pub pod_logs: PathBuf,
    /// Where links to the logs of all containers are, for collectors of the old way; they are left out where this folder
    /// is not there. Default `/var/log/containers`.
    pub container_log_links: PathBuf,
    /// `crashLoopBackOff.maxContainerRestartPeriod`: the longest wait between two starts of a container. Default 5 min.
    pub max_container_restart_period: Duration,
    /// What is kept of dead containers. Default the kubelet's: the newest one of each container.
    pub garbage: Policy,
    /// The machine, and what of the node's settings goes into the configuration of containers.
    pub node: NodeFacts,
}

impl Options {
    /// The defaults for a runtime of this name, with the node's folders at `root`.
    pub fn new(runtime_name: impl Into<ArcStr>, root: RootDir, node: NodeFacts) -> Self {
        Self {
            runtime_name: runtime_name.into(),
            root,
            pod_logs: POD_LOGS_DIRECTORY.into(),
            container_log_links: LEGACY_CONTAINER_LOGS_DIRECTORY.into(),
            max_container_restart_period: back_off::MAX,
            garbage: Policy::default(),
            node,
        }
    }
}

/// Carries out what pods need done.
///
/// Any number of pods at a time; of one pod, its worker makes one call at a time ([`sync_pod`](Self::sync_pod) or
/// [`kill_pod`](Self::kill_pod)). A sync under an [`Interrupt`](crate::interrupt::Interrupt) leaves nothing behind that the
/// next inspection of the pod does not show, but for a hook after a container's start, which goes on and is taken into
/// account by the next sync.
pub struct Kuberuntime {
    runtime: Arc<dyn RuntimeService>,
    image_service: Arc<dyn ImageService>,
    images: Arc<dyn ImageManager>,
    helper: Arc<dyn RuntimeHelper>,
    cgroups: Arc<dyn PodCgroups>,
    sandbox_ready: SandboxReady,
    events: Events,
    metrics: Metrics,
    clock: WallClock,
    options: Options,
    killer: Arc<Killer>,
    back_off: Mutex<CrashLoopBackOff>,
    /// What is known of pods besides their status; shared with the hooks that run.
    records: Arc<Records>,
    /// The hooks after the start that run; ended when this is dropped.
    hooks: Mutex<JoinSet<()>>,
}

impl Kuberuntime {
    /// Puts it together; asks and starts nothing.
    pub fn new(parts: Parts) -> Self {
        let hooks =
            HookRunner::new(Arc::clone(&parts.runtime), Arc::clone(&parts.events), parts.metrics.clone());
        let killer = Killer {
            runtime: Arc::clone(&parts.runtime),
            events: Arc::clone(&parts.events),
            hooks,
            stopping: Mutex::default(),
        };
        Self {
            runtime: parts.runtime,
            image_service: parts.image_service,
            images: parts.images,
            helper: parts.helper,
            cgroups: parts.cgroups,
            sandbox_ready: parts.sandbox_ready,
            events: parts.events,
            metrics: parts.metrics,
            clock: parts.clock,
            back_off: Mutex::new(CrashLoopBackOff::new(parts.options.max_container_restart_period)),
            options: parts.options,
            killer: Arc::new(killer),
            records: Arc::new(Records::new(parts.actuated)),
            hooks: Mutex::default(),
        }
    }

    /// Whether anything of a pod that runs has not yet what the pod was allocated; `pod` is as allocated.
    pub fn is_resize_in_progress(&self, pod: &Pod, status: &PodStatus) -> bool {
        is_in_progress(pod, status, &self.records.given(&uid(pod)))
    }

    /// Forgets what is remembered of a pod that has ended for good.
    pub fn forget(&self, pod: &Uid) {
        self.records.forget(pod);
    }
}

impl fmt::Debug for Kuberuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kuberuntime").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Does work that blocks, mostly with files, where it holds up nobody. Work that was begun goes on if this is dropped.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The program is ending: nobody waits for this any more.
            Err(_) => std::future::pending().await,
        },
    }
}
