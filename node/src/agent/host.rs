//! The agent as its server sees it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::Value;
use steersman_api::Uid;

use super::parts::Parts;
use crate::machine::{self, Machine};
use crate::pod_config::annotations::full_name;
use crate::server::{Host, NodeUsage};
use crate::sync_loop::LoopHealth;

/// Answers from memory.
pub(super) struct AgentHost {
    pub(super) parts: Arc<Parts>,
    pub(super) health: LoopHealth,
    pub(super) configuration: Value,
    pub(super) machine: Machine,
}

impl AgentHost {
    /// The pod with the newest status there is.
    fn shown(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match self.pod_status(pod) {
            Some(status) => Arc::new(Pod { status: Some(status), ..Pod::clone(pod) }),
            None => Arc::clone(pod),
        }
    }
}

impl Host for AgentHost {
    fn pods(&self) -> Vec<Arc<Pod>> {
        self.parts.pods.pods().iter().map(|pod| self.shown(pod)).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let mut named = Pod::default();
        named.metadata.namespace = Some(namespace.to_owned());
        named.metadata.name = Some(name.to_owned());
        self.parts.pods.by_full_name(&full_name(&named)).map(|pod| self.shown(&pod))
    }

    fn pod_status(&self, pod: &Pod) -> Option<PodStatus> {
        self.parts.statuses.get(pod.metadata.uid.as_deref().unwrap_or_default())
    }

    fn translate_pod_uid(&self, uid: &Uid) -> Uid {
        self.parts.pods.translate(uid)
    }

    fn sync_loop_health(&self) -> Result<(), String> {
        self.health.check().map_err(|stuck| stuck.to_string())
    }

    fn node_usage(&self) -> Result<NodeUsage, String> {
        let measured = || {
            let memory = self.machine.memory_usage()?;
            let working_set = u64::try_from(memory.capacity - memory.available).unwrap_or_default();
            Ok::<_, machine::Error>(NodeUsage {
                cpu: self.machine.processor_time()?,
                working_set,
                swap: self.machine.swap_usage()?,
                at: Timestamp::now(),
            })
        };
        measured().map_err(|error| error.to_string())
    }

    fn configuration(&self) -> Value {
        self.configuration.clone()
    }
}
