//! A runtime in memory, for tests, standalone mode and load tests.
//!
//! It keeps the CRI's contract as containerd does: names may be used once at a time, containers start once, sandboxes
//! have addresses, stopping has its grace, events are told. Nothing runs: how containers start and end is said by
//! annotations, on the pod (`key` for all its containers, `key.<container>` for one) or on the container itself, which
//! goes first. A value marked "list" may be a list with commas: the first for attempt 0, the next for attempt 1, the
//! last for all that follow. A malformed value fails the call that creates what it is for. Keys begin with
//! `simulated.steersman.io/`; durations are written `1m30s` or `500ms`.
//!
//! | key | value | default | meaning |
//! |---|---|---|---|
//! | `start-delay` | duration, list | `0s` | how long StartContainer takes |
//! | `create-error` | text | | CreateContainer fails, saying this |
//! | `start-error` | text | | StartContainer fails, saying this; the container exits with 128, `StartError` |
//! | `exit-after` | duration or `never`, list | `never` | how long it runs by itself |
//! | `exit-code` | number, list | `0` | how it then ends |
//! | `exit-reason` | text, list | `Completed`, or `Error` unless 0 | with which reason, such as `OOMKilled` |
//! | `termination-message` | text | | written to the mounted termination log whenever it ends |
//! | `stop-delay` | duration or `never`, list | `0s` | how long it takes to end on SIGTERM; `never` ignores it |
//! | `stop-code` | number, list | `143` | how it ends on SIGTERM; on SIGKILL it is 137 |
//! | `log` | text | | lines that it writes to stdout when it starts, where [`Logs::Written`] |
//! | `log-interval` | duration, list | | writes them again and again |
//! | `exec-delay` | duration, list | `0s` | how long a command takes, unless [told otherwise](SimulatedRuntime::on_exec) |
//! | `exec-code` | number, list | `0` | how it ends |
//! | `exec-stdout`, `exec-stderr` | text | | what it writes |
//! | `cpu-millis` | number, list | `0` | thousandths of a core it is said to use |
//! | `memory-bytes` | number, list | `0` | memory it is said to use |
//! | `sandbox-delay` | duration, list | `0s` | how long RunPodSandbox takes |
//! | `sandbox-error` | text | | RunPodSandbox fails, saying this |
//! | `sandbox-exit-after` | duration or `never`, list | `never` | when the sandbox is no longer ready, by itself |
//! | `sandbox-ip` | address or `none`, list | one of the range | the sandbox's address |
//!
//! The runtime reads annotations when it creates what they are for. `steersman standalone` serves `metrics.k8s.io` from the pods'
//! annotations as they are ([`SimulatedUsage`]), so that the usage of a running container can be changed.
//!
//! A crash loop is `exit-after: 1s` and `exit-code: 1`; one that gets over it is `exit-after: 1s,1s,never`. Those of
//! sandboxes go by the sandbox's attempt, and stand on the pod.
//!
//! There is no streaming: `exec`, `attach` and `port_forward` are `Unimplemented`, unless
//! [somebody else streams](SimulatedRuntime::stream_from); `checkpoint_container` always is.

mod address_pool;
mod behaviour;
mod clock;
mod container;
mod faults;
mod ids;
mod image_service;
mod images;
mod log_file;
mod runtime_service;
mod sandbox;
mod state;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

pub use address_pool::PodCidr;
pub use behaviour::{PREFIX, SimulatedUsage};
pub use faults::Fault;
pub use images::Pull;

use self::address_pool::AddressPool;
use self::clock::Clock;
use self::container::Exit;
use self::faults::Faults;
use self::images::Images;
use self::state::State;
use super::{Calls, Deadline, Metrics, Operation, Result};
use crate::cri::v1;

/// The runtime's name in the ids of its containers, and in the versions that its nodes report.
pub const NAME: &str = "simulated";

/// Calls that [`SimulatedRuntime::calls`] remembers.
const REMEMBERED: usize = 4096;

/// Answers commands: given a container's status and the command, what comes of it; `None` leaves it to the annotations.
pub type ExecHandler = dyn Fn(&v1::ContainerStatus, &[String]) -> Option<v1::ExecSyncResponse> + Send + Sync;

/// Where containers' logs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// Nowhere: no file is made.
    Discarded,
    /// To the log path of the container in the log directory of its sandbox, which must be there.
    Written,
}

/// What [`SimulatedRuntime::new`] may be told.
#[derive(Debug, Clone)]
pub struct SimulatedConfig {
    /// The range of sandboxes' addresses; by default 10.88.0.0/16.
    pub pod_cidr: PodCidr,
    /// Images at hand from the beginning; by default none.
    pub images: Vec<String>,
    /// What comes of pulling an image of which nothing else is said; by default it is at hand at once.
    pub pull: Pull,
    /// Where logs go; by default nowhere.
    pub logs: Logs,
    /// `--runtime-request-timeout`; by default 2 minutes.
    pub timeout: Duration,
    /// Where calls are counted; by default in families of its own.
    pub metrics: Metrics,
    /// What the wall clock shows as the runtime begins; from there on stamps follow tokio's clock. By default the
    /// machine's.
    pub wall: Timestamp,
}

impl Default for SimulatedConfig {
    fn default() -> Self {
        Self {
            pod_cidr: PodCidr::default(),
            images: Vec::new(),
            pull: Pull::AT_ONCE,
            logs: Logs::Discarded,
            timeout: Deadline::DEFAULT,
            metrics: Metrics::new(),
            wall: Timestamp::now(),
        }
    }
}

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub operation: Operation,
    /// What it was about: ids of container and sandbox, uid and name of the pod, name of the container, or image.
    pub targets: Vec<String>,
    /// When it began.
    pub at: Instant,
}

/// The runtime. A clone is the same one: it outlives an agent that is started again, as long as one is kept.
///
/// All follows tokio's clock, paused or not. Its one task ends with the last clone, as do its streams of events.
#[derive(Clone)]
pub struct SimulatedRuntime(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    calls: Calls,
    faults: Arc<Faults>,
    made: Mutex<VecDeque<Call>>,
    /// The task that [drives](Shared::drive) time; aborted when this is dropped.
    _tasks: JoinSet<()>,
}

struct Shared {
    state: Mutex<State>,
    wake: Arc<Notify>,
}

impl Shared {
    /// Does what is due first, so that nobody sees a state that is past.
    fn with<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.advance(now);
        act(&mut state, now)
    }

    /// Does what is due when it is due, for the sake of events, logs and those who wait.
    async fn drive(self: Arc<Self>) {
        loop {
            match self.with(|state, _| state.next_due()) {
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.wake.notified() => {}
                },
                None => self.wake.notified().await,
            }
        }
    }
}

impl SimulatedRuntime {
    /// One without sandboxes.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(config: SimulatedConfig) -> Self {
        let wake = Arc::new(Notify::new());
        let mut images = Images::new(config.pull);
        for name in &config.images {
            images.add(name);
        }
        let state = State::new(
            Clock::new(config.wall),
            AddressPool::new(config.pod_cidr),
            images,
            config.logs,
            wake.clone(),
        );
        let shared = Arc::new(Shared { state: Mutex::new(state), wake });
        let mut tasks = JoinSet::new();
        tasks.spawn(shared.clone().drive());
        Self(Arc::new(Inner {
            shared,
            calls: Calls::new(config.metrics, config.timeout),
            faults: Arc::new(Faults::new()),
            made: Mutex::default(),
            _tasks: tasks,
        }))
    }

    /// The next `times` calls of `operation` meet `fault`; `u32::MAX` times are all. Faults are met in the order of
    /// their setting.
    pub fn inject(&self, operation: Operation, times: u32, fault: Fault) {
        self.0.faults.add(operation, None, times, fault);
    }

    /// As [`inject`](Self::inject), but only calls that are about `target`; see [`Call::targets`].
    pub fn inject_for(&self, target: &str, operation: Operation, times: u32, fault: Fault) {
        self.0.faults.add(operation, Some(target), times, fault);
    }

    /// No faults any more. Calls that hang end with `Unavailable`.
    pub fn clear_faults(&self) {
        self.0.faults.clear();
    }

    /// Sets a condition of the runtime, such as `NetworkReady`.
    pub fn set_condition(&self, condition: v1::RuntimeCondition) {
        self.0.shared.with(|state, _| {
            match state.conditions.iter_mut().find(|known| known.r#type == condition.r#type) {
                Some(known) => *known = condition,
                None => state.conditions.push(condition),
            }
        });
    }

    /// Has the runtime tell this of how it is configured. At first its cgroup driver is `cgroupfs`.
    pub fn set_runtime_config(&self, config: v1::RuntimeConfigResponse) {
        self.0.shared.with(|state, _| state.config = config);
    }

    /// Puts an image at hand.
    pub fn add_image(&self, name: &str) {
        self.0.shared.with(|state, _| state.images.add(name));
    }

    /// Says what comes of pulling an image.
    pub fn set_pull(&self, name: &str, pull: Pull) {
        self.0.shared.with(|state, _| state.images.set_pull(name, pull));
    }

    /// Has `handler` answer commands from now on. It must not call the runtime.
    pub fn on_exec(
        &self,
        handler: impl Fn(&v1::ContainerStatus, &[String]) -> Option<v1::ExecSyncResponse> + Send + Sync + 'static,
    ) {
        self.0.shared.with(|state, _| state.exec = Some(Arc::new(handler)));
    }

    /// Has `exec`, `attach` and `port_forward` say from now on that their streams are to be had at `url`.
    pub fn stream_from(&self, url: impl Into<String>) {
        let url = url.into();
        self.0.shared.with(|state, _| state.streaming = Some(url));
    }

    /// Ends a running container as if by itself; without a `reason` it is `Completed` or `Error`.
    pub fn exit_container(&self, container_id: &str, code: i32, reason: Option<&str>) {
        let exit = Exit { code, reason: reason.map(str::to_owned), ..Exit::default() };
        self.0.shared.with(|state, now| state.end(container_id, now, exit));
    }

    /// The latest calls, oldest first; at most 4096.
    pub fn calls(&self) -> Vec<Call> {
        self.0.made.lock().iter().cloned().collect()
    }

    /// Where calls are counted.
    pub fn metrics(&self) -> &Metrics {
        self.0.calls.metrics()
    }

    /// What every call goes through: it is remembered, counted and timed, and meets its fault.
    async fn call<T: Send>(
        &self,
        operation: Operation,
        deadline: Deadline,
        targets: Vec<String>,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.remember(operation, targets.clone());
        let faults = &self.0.faults;
        let met = async {
            let lost = faults.meet(operation, &targets).await?;
            let answer = work.await?;
            lost.map_or(Ok(answer), Err)
        };
        self.0.calls.run(operation, deadline, met).await
    }

    fn remember(&self, operation: Operation, targets: Vec<String>) {
        let mut made = self.0.made.lock();
        if made.len() == REMEMBERED {
            made.pop_front();
        }
        made.push_back(Call { operation, targets, at: Instant::now() });
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        self.0.shared.with(act)
    }

    /// What a call about a sandbox or container is about.
    fn targets(&self, id: &str) -> Vec<String> {
        self.with(|state, _| state.targets(id))
    }
}

impl fmt::Debug for SimulatedRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimulatedRuntime").field(&*self.0.shared.state.lock()).finish()
    }
}

/// Sleeps, unless there is nothing to wait for.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}
