//! All that the simulated runtime knows, and how time changes it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::Instant;

use super::address_pool::AddressPool;
use super::behaviour::{Address, ContainerBehaviour, SandboxBehaviour};
use super::clock::Clock;
use super::container::{Container, Exit, Life};
use super::images::{Images, named};
use super::log_file::LogFile;
use super::sandbox::{Sandbox, is_on_host_network};
use super::{ExecHandler, Logs, ids};
use crate::cri::v1;
use crate::runtime::{Code, Error, Result};

/// What is due at a time. A container or sandbox that is gone by then, or a container that runs no more, has nothing due.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Exit { container: String, exit: Exit },
    Log { container: String },
    SandboxExit { sandbox: String },
}

/// Timers of the same time go off in the order of their setting.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: Instant,
    set: u64,
    due: Due,
}

/// Every method takes the time it happens at. What was due before has been [done](State::advance).
pub(super) struct State {
    pub(super) clock: Clock,
    pub(super) addresses: AddressPool,
    pub(super) images: Images,
    pub(super) conditions: Vec<v1::RuntimeCondition>,
    pub(super) config: v1::RuntimeConfigResponse,
    pub(super) exec: Option<Arc<ExecHandler>>,
    /// Where streams are to be had.
    pub(super) streaming: Option<String>,
    pub(super) sandboxes: BTreeMap<String, Sandbox>,
    pub(super) containers: BTreeMap<String, Container>,
    /// Who has a name that may be used once at a time, by that name.
    names: BTreeMap<String, String>,
    timers: BinaryHeap<Reverse<Timer>>,
    /// What ids and timers are numbered with.
    counter: u64,
    logs: Logs,
    events: broadcast::Sender<v1::ContainerEventResponse>,
    /// Told of each timer.
    wake: Arc<Notify>,
}

impl State {
    pub(super) fn new(
        clock: Clock,
        addresses: AddressPool,
        images: Images,
        logs: Logs,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            clock,
            addresses,
            images,
            conditions: ["RuntimeReady", "NetworkReady"]
                .map(|kind| v1::RuntimeCondition { r#type: kind.into(), status: true, ..Default::default() })
                .to_vec(),
            config: v1::RuntimeConfigResponse {
                linux: Some(v1::LinuxRuntimeConfiguration {
                    cgroup_driver: v1::CgroupDriver::Cgroupfs.into(),
                }),
            },
            exec: None,
            streaming: None,
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            names: BTreeMap::new(),
            timers: BinaryHeap::new(),
            counter: 0,
            logs,
            // As many as containerd holds for a slow reader.
            events: broadcast::Sender::new(1000),
            wake,
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<v1::ContainerEventResponse> {
        self.events.subscribe()
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse(timer)| timer.at)
    }

    /// Does all that is due by `now`, each thing at its own time.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.next_due().is_some_and(|at| at <= now) {
            let Some(Reverse(Timer { at, due, .. })) = self.timers.pop() else { return };
            match due {
                Due::Exit { container, exit } => self.end(&container, at, exit),
                Due::Log { container } => self.log(&container, at),
                Due::SandboxExit { sandbox } => {
                    if let Some(sandbox) = self.sandboxes.get_mut(&sandbox).filter(|sandbox| sandbox.ready) {
                        sandbox.ready = false;
                        let id = sandbox.id.clone();
                        self.tell(&id, &id, v1::ContainerEventType::ContainerStoppedEvent, at);
                    }
                }
            }
        }
    }

    fn set_timer(&mut self, at: Instant, due: Due) {
        self.counter += 1;
        self.timers.push(Reverse(Timer { at, set: self.counter, due }));
        self.wake.notify_one();
    }

    fn next_id(&mut self) -> String {
        self.counter += 1;
        ids::nth(self.counter)
    }

    fn reserve(&mut self, name: String, id: &str) -> Result<()> {
        if let Some(owner) = self.names.get(&name) {
            return Err(unknown(format!(
                "failed to reserve name {name:?}: name {name:?} is reserved for {owner:?}"
            )));
        }
        self.names.insert(name, id.to_owned());
        Ok(())
    }

    // Sandboxes.

    pub(super) fn sandbox(&self, id: &str) -> Result<&Sandbox> {
        self.sandboxes.get(id).ok_or_else(|| not_found("sandbox", id))
    }

    pub(super) fn run_sandbox(
        &mut self,
        config: &v1::PodSandboxConfig,
        behaviour: &SandboxBehaviour,
        runtime_handler: &str,
        now: Instant,
    ) -> Result<String> {
        let metadata = config.metadata.clone().unwrap_or_default();
        let id = self.next_id();
        let name = pod_name(&metadata, metadata.attempt);
        self.reserve(name.clone(), &id)?;
        let (address, pooled) = match behaviour.address {
            _ if is_on_host_network(config) => (None, false),
            Address::Missing => (None, false),
            Address::Fixed(address) => (Some(address), false),
            Address::Pool => {
                let Some(address) = self.addresses.take() else {
                    self.names.remove(&name);
                    return Err(unknown(format!(
                        "failed to setup network for sandbox {id:?}: no IP addresses available in range set"
                    )));
                };
                (Some(address), true)
            }
        };
        let sandbox = Sandbox {
            id: id.clone(),
            name,
            containers: Vec::new(),
            config: config.clone(),
            runtime_handler: runtime_handler.into(),
            created: now,
            ready: true,
            address,
            pooled,
        };
        self.sandboxes.insert(id.clone(), sandbox);
        if let Some(after) = behaviour.exit_after {
            self.set_timer(now + after, Due::SandboxExit { sandbox: id.clone() });
        }
        self.tell(&id, &id, v1::ContainerEventType::ContainerCreatedEvent, now);
        self.tell(&id, &id, v1::ContainerEventType::ContainerStartedEvent, now);
        Ok(id)
    }

    /// Nothing where it is absent, or stopped already.
    pub(super) fn stop_sandbox(&mut self, id: &str, now: Instant) {
        for container in self.containers_of(id) {
            self.end(&container, now, Exit::killed());
        }
        let Some(sandbox) = self.sandboxes.get_mut(id) else { return };
        let was_ready = std::mem::take(&mut sandbox.ready);
        if let Some(address) = sandbox.address.take().filter(|_| sandbox.pooled) {
            self.addresses.give_back(address);
        }
        if was_ready {
            self.tell(id, id, v1::ContainerEventType::ContainerStoppedEvent, now);
        }
    }

    pub(super) fn remove_sandbox(&mut self, id: &str, now: Instant) {
        self.stop_sandbox(id, now);
        for container in self.containers_of(id) {
            self.remove_container(&container, now);
        }
        if let Some(sandbox) = self.sandboxes.remove(id) {
            self.names.remove(&sandbox.name);
            self.tell(id, id, v1::ContainerEventType::ContainerDeletedEvent, now);
        }
    }

    fn containers_of(&self, sandbox: &str) -> Vec<String> {
        self.sandboxes.get(sandbox).map(|sandbox| sandbox.containers.clone()).unwrap_or_default()
    }

    // Containers.

    pub(super) fn container(&self, id: &str) -> Result<&Container> {
        self.containers.get(id).ok_or_else(|| not_found("container", id))
    }

    fn container_mut(&mut self, id: &str) -> Result<&mut Container> {
        self.containers.get_mut(id).ok_or_else(|| not_found("container", id))
    }

    /// Its status; nothing where it is gone.
    pub(super) fn container_status(&self, id: &str) -> Result<v1::ContainerStatus> {
        let container = self.container(id)?;
        let directory = self.sandboxes.get(&container.sandbox).map_or("", |s| &s.config.log_directory);
        Ok(container.status(self.clock, directory))
    }

    pub(super) fn container_statuses(&self, sandbox: &str) -> Vec<v1::ContainerStatus> {
        self.containers_of(sandbox).iter().filter_map(|id| self.container_status(id).ok()).collect()
    }

    pub(super) fn create_container(
        &mut self,
        sandbox: &str,
        config: &v1::ContainerConfig,
        now: Instant,
    ) -> Result<String> {
        let found = self.sandbox(sandbox)?;
        if !found.ready {
            return Err(unknown(format!("sandbox container {sandbox:?} is not running")));
        }
        let behaviour = ContainerBehaviour::new(config, &found.config.annotations)?;
        if let Some(message) = behaviour.create_error {
            return Err(unknown(message));
        }
        let metadata = config.metadata.clone().unwrap_or_default();
        let name = format!("{}_{}", metadata.name, pod_name(&found.metadata(), metadata.attempt));
        let reference = named(config.image.as_ref().unwrap_or(&v1::ImageSpec::default()))?.to_owned();
        let image = self.images.find(&reference).cloned().ok_or_else(|| not_found("image", &reference))?;

        let id = self.next_id();
        self.reserve(name.clone(), &id)?;
        let container = Container {
            id: id.clone(),
            reserved: name,
            sandbox: sandbox.into(),
            config: config.clone(),
            behaviour,
            image,
            created: now,
            life: Life::Created,
            log: None,
            asked_to_stop: false,
            ended: watch::Sender::new(false),
        };
        self.containers.insert(id.clone(), container);
        if let Some(sandbox) = self.sandboxes.get_mut(sandbox) {
            sandbox.containers.push(id.clone());
        }
        self.tell(sandbox, &id, v1::ContainerEventType::ContainerCreatedEvent, now);
        Ok(id)
    }

    /// How long it takes to start; an error where it cannot.
    pub(super) fn start_delay(&self, id: &str) -> Result<Duration> {
        let container = self.container(id)?;
        if container.life != Life::Created {
            return Err(unknown(format!(
                "failed to set starting state for container {id:?}: container is in {} state",
                container.state().as_str_name()
            )));
        }
        if !self.sandbox(&container.sandbox)?.ready {
            return Err(unknown(format!("sandbox container {:?} is not running", container.sandbox)));
        }
        Ok(container.behaviour.start_delay)
    }

    pub(super) fn start(&mut self, id: &str, now: Instant) -> Result<()> {
        // Much may have happened since the delay began.
        self.start_delay(id)?;
        let log = self.open_log(id)?;
        let container = self.container_mut(id)?;
        let behaviour = container.behaviour.clone();
        if let Some(message) = behaviour.start_error {
            self.end(id, now, Exit::not_started(&message));
            return Err(unknown(message));
        }
        container.life = Life::Running { since: now };
        container.log = log;
        let sandbox = container.sandbox.clone();
        self.tell(&sandbox, id, v1::ContainerEventType::ContainerStartedEvent, now);
        if behaviour.log.is_some() {
            self.set_timer(now, Due::Log { container: id.into() });
        }
        if let Some(after) = behaviour.exit_after {
            let exit =
                Exit { code: behaviour.exit_code, reason: behaviour.exit_reason, message: String::new() };
            self.set_timer(now + after, Due::Exit { container: id.into(), exit });
        }
        self.advance(now);
        Ok(())
    }

    /// Sends SIGTERM. Answers with what turns true when the container has ended; `None` where it does not run.
    pub(super) fn terminate(&mut self, id: &str, now: Instant) -> Option<watch::Receiver<bool>> {
        let container = self.containers.get_mut(id).filter(|container| container.is_running())?;
        let ended = container.ended.subscribe();
        let again = std::mem::replace(&mut container.asked_to_stop, true);
        let (delay, code) = (container.behaviour.stop_delay, container.behaviour.stop_code);
        if let Some(delay) = delay.filter(|_| !again) {
            let exit = Exit { code, ..Exit::default() };
            self.set_timer(now + delay, Due::Exit { container: id.into(), exit });
            self.advance(now);
        }
        Some(ended)
    }

    /// It ends now, if it has not yet.
    pub(super) fn end(&mut self, id: &str, at: Instant, exit: Exit) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let started = match container.life {
            Life::Running { since } => Some(since),
            Life::Created if exit.reason.as_deref() == Some("StartError") => None,
            Life::Created | Life::Exited { .. } => return,
        };
        container.life = Life::Exited { started, at, exit };
        container.log = None;
        if let (Some(message), Some(path)) =
            (&container.behaviour.termination_message, container.termination_log())
            && let Err(error) = std::fs::write(path, message)
        {
            tracing::warn!(container = id, path, %error, "termination message cannot be written");
        }
        container.ended.send_replace(true);
        let sandbox = container.sandbox.clone();
        self.tell(&sandbox, id, v1::ContainerEventType::ContainerStoppedEvent, at);
    }

    /// Nothing where it is gone.
    pub(super) fn remove_container(&mut self, id: &str, now: Instant) {
        self.end(id, now, Exit::killed());
        if let Some(container) = self.containers.remove(id) {
            self.names.remove(&container.reserved);
            if let Some(sandbox) = self.sandboxes.get_mut(&container.sandbox) {
                sandbox.containers.retain(|other| other != id);
            }
            self.tell(&container.sandbox, id, v1::ContainerEventType::ContainerDeletedEvent, now);
        }
    }

    pub(super) fn update_resources(&mut self, id: &str, resources: &v1::ContainerResources) -> Result<()> {
        let linux = self.container_mut(id)?.config.linux.get_or_insert_default();
        linux.resources = resources.linux.clone();
        Ok(())
    }

    // Logs.

    fn open_log(&self, id: &str) -> Result<Option<LogFile>> {
        let container = self.container(id)?;
        let directory = &self.sandbox(&container.sandbox)?.config.log_directory;
        if self.logs == Logs::Discarded || directory.is_empty() || container.config.log_path.is_empty() {
            return Ok(None);
        }
        let path = Path::new(directory).join(&container.config.log_path);
        LogFile::open(path)
            .map(Some)
            .map_err(|error| unknown(format!("failed to create container loggers: {error}")))
    }

    pub(super) fn reopen_log(&mut self, id: &str) -> Result<()> {
        let container = self.container_mut(id)?;
        if !container.is_running() {
            return Err(unknown("container is not running"));
        }
        container.log.as_mut().map_or(Ok(()), LogFile::reopen).map_err(|error| unknown(error.to_string()))
    }

    fn log(&mut self, id: &str, at: Instant) {
        let stamp = self.clock.at(at);
        let Some(container) = self.containers.get_mut(id).filter(|container| container.is_running()) else {
            return;
        };
        if let (Some(file), Some(text)) = (&mut container.log, &container.behaviour.log)
            && let Err(error) = file.write(stamp, text)
        {
            tracing::warn!(container = id, %error, "log cannot be written");
        }
        if let Some(interval) = container.behaviour.log_interval {
            self.set_timer(at + interval, Due::Log { container: id.into() });
        }
    }

    // Events.

    fn tell(&self, sandbox: &str, subject: &str, kind: v1::ContainerEventType, at: Instant) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let event = v1::ContainerEventResponse {
            container_id: subject.into(),
            container_event_type: kind.into(),
            created_at: self.clock.nanos(at),
            pod_sandbox_status: self.sandboxes.get(sandbox).map(|sandbox| sandbox.status(self.clock)),
            containers_statuses: self.container_statuses(sandbox),
        };
        // It fails where the last reader has just gone.
        let _ = self.events.send(event);
    }

    /// What tests may name a call by that is about `id`: ids of sandbox and container, uid and name of the pod, name of
    /// the container.
    pub(super) fn targets(&self, id: &str) -> Vec<String> {
        let mut targets = vec![id.to_owned()];
        let mut sandbox = id;
        if let Some(container) = self.containers.get(id) {
            targets.extend([container.name().to_owned(), container.sandbox.clone()]);
            sandbox = &container.sandbox;
        }
        if let Some(sandbox) = self.sandboxes.get(sandbox) {
            let metadata = sandbox.metadata();
            targets.extend([metadata.uid, metadata.name]);
        }
        targets
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("sandboxes", &self.sandboxes)
            .field("containers", &self.containers)
            .finish_non_exhaustive()
    }
}

/// containerd's form of a name: what may exist once.
fn pod_name(metadata: &v1::PodSandboxMetadata, attempt: u32) -> String {
    format!("{}_{}_{}_{attempt}", metadata.name, metadata.namespace, metadata.uid)
}

/// Most failures of containerd have no code of their own.
pub(super) fn unknown(message: impl Into<String>) -> Error {
    Error::status(Code::Unknown, message)
}

fn not_found(what: &str, id: &str) -> Error {
    Error::status(Code::NotFound, format!("an error occurred when try to find {what} {id:?}: not found"))
}
