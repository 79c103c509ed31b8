//! Outcomes of the real `computePodActions`.
//!
//! The cases were drawn at random and handed to Kubernetes 1.36.3 with its default gates; of 20,000 those were kept that
//! differ in kind: each combination of outcomes, messages and kinds of containers once.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use serde::Deserialize;

use super::*;
use crate::allocation::PodResources;
use crate::container::{
    ContainerState, ContainerStatus, NamespaceMode, PodStatus, SandboxState, SandboxStatus,
};
use crate::kuberuntime::actions::resize::{Amounts, ContainerToUpdate};
use crate::kuberuntime::actions::testing::{container, id, sandbox};
use crate::kuberuntime::actions::{Observations, ProbeResult, compute_pod_actions};

const CASES: &str = include_str!("reference.jsonl");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    pod: Pod,
    #[serde(default)]
    sandboxes: Vec<Sandbox>,
    #[serde(default)]
    statuses: Vec<Status>,
    #[serde(default)]
    liveness: BTreeMap<String, String>,
    #[serde(default)]
    startup: BTreeMap<String, String>,
    #[serde(default)]
    actuated: BTreeMap<String, ResourceRequirements>,
    actuated_pod: Option<ResourceRequirements>,
    #[serde(default)]
    restart_all: bool,
    actions: Outcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sandbox {
    id: String,
    ready: bool,
    attempt: u32,
    #[serde(default)]
    host_network: bool,
    ip: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    id: String,
    name: String,
    state: String,
    #[serde(default)]
    exit: i32,
    #[serde(default)]
    reason: String,
    hash: u64,
}

/// What is to be done, as far as the reference tells it.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Outcome {
    kill_pod: bool,
    create_sandbox: bool,
    sandbox_id: String,
    attempt: u32,
    init: Vec<usize>,
    start: Vec<usize>,
    ephemeral: Vec<usize>,
    kill: Vec<Kill>,
    reset: Vec<Reset>,
    update: BTreeMap<String, Vec<Update>>,
    update_pod: bool,
    update_level: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Kill {
    id: String,
    name: String,
    message: String,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Reset {
    id: String,
    name: String,
    kill: bool,
}

/// Memory limit and request, processor limit and request.
#[derive(Debug, PartialEq, Deserialize)]
struct Update {
    id: String,
    desired: [i64; 4],
    current: [i64; 4],
}

impl Case {
    fn scene(&self) -> Scene {
        let status = |status: &Status| ContainerStatus {
            exit_code: status.exit,
            reason: status.reason.clone(),
            hash: status.hash,
            ..container(&status.id, &status.name, state(&status.state))
        };
        let results = |results: &BTreeMap<String, String>| -> HashMap<_, _> {
            results.iter().map(|(container, found)| (id(container), result(found))).collect()
        };
        Scene {
            pod: self.pod.clone(),
            status: PodStatus {
                containers: self.statuses.iter().map(status).collect(),
                sandboxes: self.sandboxes.iter().map(Sandbox::status).collect(),
                ..PodStatus::default()
            },
            observed: Observations {
                liveness: results(&self.liveness),
                startup: results(&self.startup),
                actuated: PodResources { containers: self.actuated.clone(), pod: self.actuated_pod.clone() },
                restart_all_containers: self.restart_all,
                ..Observations::default()
            },
        }
    }
}

impl Sandbox {
    fn status(&self) -> SandboxStatus {
        let mut status = sandbox(&self.id, self.attempt);
        status.state = if self.ready { SandboxState::Ready } else { SandboxState::NotReady };
        status.network_mode = if self.host_network { NamespaceMode::Node } else { NamespaceMode::Pod };
        match (&self.ip, &mut status.network) {
            (Some(ip), Some(network)) => network.ip.clone_from(ip),
            _ => status.network = None,
        }
        status
    }
}

fn state(name: &str) -> ContainerState {
    ContainerState::ALL.into_iter().find(|state| state.as_str() == name).unwrap()
}

fn result(name: &str) -> ProbeResult {
    match name {
        "Success" => ProbeResult::Success,
        "Failure" => ProbeResult::Failure,
        _ => ProbeResult::Unknown,
    }
}

impl Outcome {
    fn of(scene: &Scene) -> Self {
        let actions = compute_pod_actions(&scene.pod, &scene.status, &scene.observed);
        let name = |spec: super::super::SpecIndex| spec.of(&scene.pod).unwrap().name.clone();
        let numbers = |of: Amounts| [of.memory_limit, of.memory_request, of.cpu_limit, of.cpu_request];
        let update = |update: &ContainerToUpdate| Update {
            id: update.id.id.clone(),
            desired: numbers(update.desired),
            current: numbers(update.current),
        };
        let updates = &actions.containers_to_update;
        let updates = [("cpu", &updates.cpu), ("memory", &updates.memory)]
            .into_iter()
            .filter(|(_, updates)| !updates.is_empty())
            .map(|(resource, updates)| (resource.to_owned(), updates.iter().map(update).collect()));
        Self {
            kill_pod: actions.kill_pod,
            create_sandbox: actions.create_sandbox,
            sandbox_id: actions.sandbox_id.unwrap_or_default(),
            attempt: actions.attempt,
            init: actions.init_containers_to_start,
            start: actions.containers_to_start,
            ephemeral: actions.ephemeral_containers_to_start,
            kill: actions
                .containers_to_kill
                .into_iter()
                .map(|(id, kill)| Kill {
                    id: id.id,
                    name: kill.name,
                    message: kill.message,
                    reason: kill.reason.as_str().to_owned(),
                })
                .collect(),
            reset: actions
                .containers_to_reset
                .into_iter()
                .map(|reset| Reset { id: reset.id.id, name: name(reset.spec), kill: reset.kill })
                .collect(),
            update: updates.collect(),
            update_pod: actions.update_pod_resources,
            update_level: actions.update_pod_level_resources,
        }
    }
}

#[test]
fn outcomes_are_upstreams() {
    let mut cases = 0;
    for line in CASES.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        assert_eq!(Outcome::of(&case.scene()), case.actions, "{line}");
        cases += 1;
    }
    assert!(cases > 100, "only {cases} cases");
}
