//! Whether the runtime is well, as far as this node knows.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;

use crate::aggregate::aggregate;
use crate::cri::v1;

/// How long the runtime may be silent (upstream: `maxWaitForContainerRuntime`).
const THRESHOLD: Duration = Duration::from_secs(30);

/// Says whether something is well, and in words why not. Must answer at once, and not ask the runtime.
pub type HealthCheck = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What is known of the runtime; a clone is the same. Its words are those of the node's condition `Ready`.
#[derive(Clone)]
pub struct RuntimeState {
    shared: Arc<RwLock<Shared>>,
}

struct Shared {
    /// When the runtime last said that it is ready.
    last_sync: Option<Instant>,
    threshold: Duration,
    runtime: Option<String>,
    network: Option<String>,
    checks: Vec<(&'static str, HealthCheck)>,
}

impl RuntimeState {
    /// Nothing is known yet, and nothing is well.
    pub fn new() -> Self {
        let shared = Shared {
            last_sync: None,
            threshold: THRESHOLD,
            runtime: None,
            network: Some("network state unknown".to_owned()),
            checks: Vec::new(),
        };
        Self { shared: Arc::new(RwLock::new(shared)) }
    }

    /// Adds something that must be well too, for instance the `PLEG`.
    pub fn add_health_check(&self, name: &'static str, check: HealthCheck) {
        self.shared.write().checks.push((name, check));
    }

    /// What the runtime says of itself at `now`. If it does not answer, nothing is to be said.
    pub fn observe(&self, status: &v1::RuntimeStatus, now: Instant) {
        let mut shared = self.shared.write();
        shared.network = not_ready("container runtime network", "NetworkReady", status);
        shared.runtime = not_ready("container runtime", "RuntimeReady", status);
        if shared.runtime.is_none() {
            shared.last_sync = Some(now);
        }
    }

    /// Whether the runtime can be worked with: if not, why. Pods are not synced then.
    pub fn errors(&self) -> Option<String> {
        aggregate(self.runtime_errors())
    }

    /// Why the runtime cannot be worked with.
    pub fn runtime_errors(&self) -> Vec<String> {
        let shared = self.shared.read();
        let mut errors = Vec::new();
        match shared.last_sync {
            None => errors.push("container runtime status check may not have completed yet".to_owned()),
            Some(last) if last.elapsed() >= shared.threshold => {
                errors.push("container runtime is down".to_owned());
            }
            Some(_) => {}
        }
        let failed = shared
            .checks
            .iter()
            .filter_map(|(name, check)| check().err().map(|error| format!("{name} is not healthy: {error}")));
        errors.extend(failed);
        errors.extend(shared.runtime.clone());
        errors
    }

    /// Why pods cannot have a network of their own.
    pub fn network_errors(&self) -> Option<String> {
        self.shared.read().network.clone()
    }

    /// All that keeps the node from being ready, in the order in which its condition tells it: aggregated.
    pub fn all_errors(&self) -> Vec<String> {
        let mut errors = self.runtime_errors();
        errors.extend(self.network_errors());
        errors
    }
}

impl Default for RuntimeState {
    fn default() -> Self {
        Self::new()
    }
}

fn not_ready(what: &str, condition: &str, status: &v1::RuntimeStatus) -> Option<String> {
    let Some(found) = status.conditions.iter().find(|found| found.r#type == condition) else {
        return Some(format!("{what} not ready: <nil>"));
    };
    let v1::RuntimeCondition { r#type, status, reason, message } = found;
    (!status).then(|| format!("{what} not ready: {type}={status} reason:{reason} message:{message}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn status(runtime: bool, network: bool) -> v1::RuntimeStatus {
        let condition = |name: &str, status: bool| v1::RuntimeCondition {
            r#type: name.to_owned(),
            status,
            reason: if status { "" } else { "NoCNI" }.to_owned(),
            message: if status { "" } else { "none found" }.to_owned(),
        };
        v1::RuntimeStatus {
            conditions: vec![condition("RuntimeReady", runtime), condition("NetworkReady", network)],
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_unwell_until_the_runtime_says_otherwise_and_again_when_it_falls_silent() {
        let state = RuntimeState::new();
        let not_yet = "container runtime status check may not have completed yet";
        assert_eq!(state.errors().as_deref(), Some(not_yet));
        assert_eq!(state.all_errors(), [not_yet, "network state unknown"]);
        state.observe(&status(true, true), Instant::now());
        assert_eq!((state.errors(), state.network_errors()), (None, None));
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(state.errors(), None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(state.errors().as_deref(), Some("container runtime is down"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_runtime_says_of_itself_is_told() {
        let state = RuntimeState::new();
        state.observe(&status(true, true), Instant::now());
        state.observe(&status(true, false), Instant::now());
        let network =
            "container runtime network not ready: NetworkReady=false reason:NoCNI message:none found";
        assert_eq!(state.errors(), None, "pods of the node's network can run");
        assert_eq!(state.network_errors().as_deref(), Some(network));
        state.observe(&status(false, true), Instant::now());
        let runtime = "container runtime not ready: RuntimeReady=false reason:NoCNI message:none found";
        assert_eq!(state.errors().as_deref(), Some(runtime));
        state.observe(&v1::RuntimeStatus::default(), Instant::now());
        assert_eq!(
            state.all_errors(),
            ["container runtime not ready: <nil>", "container runtime network not ready: <nil>"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_else_must_be_well_is_told_by_its_name() {
        let (state, well) = (RuntimeState::new(), Arc::new(AtomicBool::new(false)));
        state.observe(&status(true, true), Instant::now());
        let seen = well.clone();
        let check = move || seen.load(Ordering::SeqCst).then_some(()).ok_or_else(|| "it sleeps".to_owned());
        state.add_health_check("PLEG", Box::new(check));
        assert_eq!(state.errors().as_deref(), Some("PLEG is not healthy: it sleeps"));
        well.store(true, Ordering::SeqCst);
        assert_eq!((state.errors(), state.all_errors()), (None, Vec::new()));
    }
}
