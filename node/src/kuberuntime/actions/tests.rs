//! The tables: for each situation, what is done.

mod init_containers;
mod reference;
mod regular;
mod resize;
mod sandbox;

use super::testing::Scene;
use super::{KillReason, PodActions};

/// What a table expects; what it does not name must be empty or false.
#[derive(Default, Debug, PartialEq)]
struct Expected {
    kill_pod: bool,
    create_sandbox: bool,
    attempt: u32,
    no_sandbox: bool,
    init: Vec<usize>,
    start: Vec<usize>,
    ephemeral: Vec<usize>,
    kill: Vec<String>,
}

impl Expected {
    fn of(actions: &PodActions) -> Self {
        Self {
            kill_pod: actions.kill_pod,
            create_sandbox: actions.create_sandbox,
            attempt: actions.attempt,
            no_sandbox: actions.sandbox_id.is_none(),
            init: actions.init_containers_to_start.clone(),
            start: actions.containers_to_start.clone(),
            ephemeral: actions.ephemeral_containers_to_start.clone(),
            kill: actions.containers_to_kill.keys().map(|id| id.id.clone()).collect(),
        }
    }
}

/// A row: the situation in words, the scene, and what is expected.
type Row = (&'static str, Scene, Expected);

#[track_caller]
fn check(rows: impl IntoIterator<Item = Row>) {
    for (situation, scene, expected) in rows {
        let actions = scene.actions();
        assert_eq!(Expected::of(&actions), expected, "{situation}");
        assert!(actions.containers_to_reset.is_empty(), "{situation}");
        assert_eq!(actions.containers_to_update, Default::default(), "{situation}");
        assert!(!actions.update_pod_resources && !actions.update_pod_level_resources, "{situation}");
    }
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Why the only container to kill is killed.
#[track_caller]
fn killed(scene: &Scene) -> (String, KillReason) {
    let actions = scene.actions();
    assert_eq!(actions.containers_to_kill.len(), 1, "{actions:?}");
    let kill = actions.containers_to_kill.into_values().next().expect("one must be killed");
    assert_eq!(kill.spec.of(&scene.pod).map(|spec| spec.name.clone()), Some(kill.name));
    (kill.message, kill.reason)
}
