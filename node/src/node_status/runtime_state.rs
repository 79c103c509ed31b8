//! What is known of the container runtime.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cri::v1;

/// How long after the runtime was last seen well it counts as gone (upstream: `maxWaitForContainerRuntime`).
const SYNC_THRESHOLD: Duration = Duration::from_secs(30);

/// Whether some part of the node is well; why not. Quick: it waits for nothing.
pub type HealthCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The runtime's health, its features, and what it has. A clone is the same.
#[derive(Clone)]
pub struct RuntimeState(Arc<Shared>);

struct Shared {
    health: RwLock<Health>,
    checks: RwLock<Vec<(&'static str, HealthCheck)>>,
    inventory: RwLock<Arc<RuntimeInventory>>,
    /// Counts changes.
    changed: watch::Sender<u64>,
}

struct Health {
    /// When the runtime was last seen well.
    synced: Option<Instant>,
    /// Whether the runtime ever said how it is.
    told: bool,
    runtime: Option<String>,
    network: Option<String>,
    storage: Option<String>,
}

/// What the runtime is and has, as it last told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeInventory {
    /// Its name and version.
    pub version: Option<(String, String)>,
    /// Its handlers, by name.
    pub handlers: Vec<v1::RuntimeHandler>,
    /// Its features, where it tells.
    pub features: Option<v1::RuntimeFeatures>,
    /// Its images, the largest first.
    pub images: Vec<v1::Image>,
    /// Where it keeps them.
    pub image_fs: Option<PathBuf>,
}

impl Default for RuntimeState {
    fn default() -> Self {
        Self::new()
    }
}

impl RuntimeState {
    /// Nothing is known yet.
    pub fn new() -> Self {
        let network = Some("network state unknown".to_owned());
        let health = Health { synced: None, told: false, runtime: None, network, storage: None };
        Self(Arc::new(Shared {
            health: RwLock::new(health),
            checks: RwLock::default(),
            inventory: RwLock::default(),
            changed: watch::Sender::new(0),
        }))
    }

    /// From now on the node is not well unless `check` says so; `name` is such as `PLEG`.
    pub fn add_health_check(&self, name: &'static str, check: HealthCheck) {
        self.0.checks.write().push((name, check));
        self.changed();
    }

    /// The runtime said how it is.
    pub fn set_status(&self, status: &v1::StatusResponse, now: Instant) {
        let condition = |kind: &str| {
            let mut all = status.status.iter().flat_map(|status| &status.conditions);
            let found = all.find(|condition| condition.r#type == kind);
            match found {
                Some(condition) if condition.status => Ok(()),
                Some(v1::RuntimeCondition { r#type, status, reason, message }) => {
                    Err(format!("{type}={status} reason:{reason} message:{message}"))
                }
                None => Err("<nil>".to_owned()),
            }
        };
        let ready = condition("RuntimeReady");
        {
            let mut health = self.0.health.write();
            health.told = true;
            health.network = condition("NetworkReady")
                .err()
                .map(|error| format!("container runtime network not ready: {error}"));
            health.runtime =
                ready.as_ref().err().map(|error| format!("container runtime not ready: {error}"));
            if ready.is_ok() {
                health.synced = Some(now);
            }
        }
        if ready.is_ok() {
            let mut handlers = status.runtime_handlers.clone();
            handlers.sort_by(|one, other| one.name.cmp(&other.name));
            self.change(|inventory| (inventory.handlers, inventory.features) = (handlers, status.features));
        }
        self.changed();
    }

    /// What is wrong with the node's storage.
    pub fn set_storage(&self, error: Option<String>) {
        self.0.health.write().storage = error;
        self.changed();
    }

    /// Changes what is known of what the runtime is and has.
    pub fn change(&self, change: impl FnOnce(&mut RuntimeInventory)) {
        change(Arc::make_mut(&mut self.0.inventory.write()));
        self.changed();
    }

    /// What the runtime is and has.
    pub fn inventory(&self) -> Arc<RuntimeInventory> {
        Arc::clone(&self.0.inventory.read())
    }

    /// What is wrong with the runtime. While there is something no pod is synced.
    pub fn runtime_errors(&self, now: Instant) -> Vec<String> {
        let health = self.0.health.read();
        let mut errors = Vec::new();
        match health.synced {
            None => errors.push("container runtime status check may not have completed yet".to_owned()),
            Some(synced) if now.saturating_duration_since(synced) >= SYNC_THRESHOLD => {
                errors.push("container runtime is down".to_owned());
            }
            Some(_) => {}
        }
        for (name, check) in &*self.0.checks.read() {
            errors.extend(check().err().map(|error| format!("{name} is not healthy: {error}")));
        }
        errors.extend(health.runtime.clone());
        errors
    }

    /// What is wrong with the runtime's network. While there is something only pods on the host's network start.
    pub fn network_error(&self) -> Option<String> {
        self.0.health.read().network.clone()
    }

    /// All that keeps the node from being ready.
    pub fn errors(&self, now: Instant) -> Vec<String> {
        let mut errors = self.runtime_errors(now);
        let health = self.0.health.read();
        errors.extend(health.network.clone());
        errors.extend(health.storage.clone());
        errors
    }

    /// Returns once the runtime said how it is and which one it is.
    pub async fn told(&self) {
        let mut changed = self.0.changed.subscribe();
        let told = |_: &u64| self.0.health.read().told && self.0.inventory.read().version.is_some();
        // The sender lives as long as this does.
        let _ = changed.wait_for(told).await;
    }

    /// Whoever holds this learns of changes, but for those of health checks.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn changed(&self) {
        self.0.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}
