//! What of dead containers and sandboxes is to go. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_api::Uid;

use crate::container::{ContainerState, SandboxState};

/// What is kept of dead containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `minimumGCAge`: how old a dead container is at least before it goes. Default 0.
    pub min_age: Duration,
    /// `maxPerPodContainer`: how many of each container are kept, the newest. Default 1; none for all of them.
    pub max_per_container: Option<usize>,
    /// `maxContainers`: how many are kept on the whole node. Default all of them.
    pub max_containers: Option<usize>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { min_age: Duration::ZERO, max_per_container: Some(1), max_containers: None }
    }
}

impl Policy {
    /// How many ended containers of a name are left when one more of it ends: the newest always, for its log, and no others
    /// where the policy sets no bound, since they are for garbage collection then.
    pub fn left_at_a_death(&self) -> usize {
        self.max_per_container.unwrap_or_default().max(1)
    }
}

/// A container as the runtime lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) pod: Uid,
    pub(super) name: String,
    pub(super) id: String,
    pub(super) state: ContainerState,
    pub(super) created_at: Timestamp,
}

/// A sandbox as the runtime lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sandbox {
    pub(super) pod: Uid,
    pub(super) id: String,
    pub(super) state: SandboxState,
    pub(super) created_at: Timestamp,
}

/// Of all containers those to remove: of each pod that is `gone` all that do not run, of each other container what is more than
/// the policy keeps, the oldest.
pub(super) fn containers_to_remove(
    containers: Vec<Dead>,
    policy: &Policy,
    now: Timestamp,
    gone: impl Fn(&Uid) -> bool,
) -> Vec<Dead> {
    let min_age = SignedDuration::try_from(policy.min_age).unwrap_or(SignedDuration::MAX);
    let old = |of: &Dead| now.duration_since(of.created_at) >= min_age;
    let dead = containers.into_iter().filter(|of| of.state != ContainerState::Running && old(of));
    let (mut remove, kept): (Vec<Dead>, Vec<Dead>) = dead.partition(|of| gone(&of.pod));

    let mut units: BTreeMap<(Uid, String), Vec<Dead>> = BTreeMap::new();
    for container in kept {
        units.entry((container.pod.clone(), container.name.clone())).or_default().push(container);
    }
    for unit in units.values_mut() {
        newest_first(unit);
    }
    let mut keep = |units: &mut BTreeMap<_, Vec<Dead>>, most: usize| {
        remove.extend(units.values_mut().flat_map(|unit| unit.split_off(most.min(unit.len()))));
    };
    if let Some(most) = policy.max_per_container {
        keep(&mut units, most);
    }
    let count = |units: &BTreeMap<_, Vec<Dead>>| units.values().map(Vec::len).sum::<usize>();
    if let Some(most) = policy.max_containers.filter(|most| count(&units) > *most) {
        // As many of each as there is room for, but one at least; and if that is too many, the oldest of all go.
        let share = most / units.len().max(1);
        keep(&mut units, share.max(1));
        let mut left: Vec<Dead> = units.into_values().flatten().collect();
        newest_first(&mut left);
        remove.extend(left.split_off(most.min(left.len())));
    }
    remove
}

fn newest_first(containers: &mut [Dead]) {
    containers.sort_by_key(|of| Reverse(of.created_at));
}

/// Of all sandboxes those to remove: not ready, without containers (`used` are those that have some), and, unless its pod is
/// `gone`, not the pod's newest.
pub(super) fn sandboxes_to_remove(
    mut sandboxes: Vec<Sandbox>,
    used: &BTreeSet<String>,
    gone: impl Fn(&Uid) -> bool,
) -> Vec<String> {
    sandboxes.sort_by_key(|of| Reverse(of.created_at));
    let mut seen = BTreeSet::new();
    let mut remove = Vec::new();
    for sandbox in sandboxes {
        let newest = seen.insert(sandbox.pod.clone());
        let dead = sandbox.state == SandboxState::NotReady && !used.contains(&sandbox.id);
        if dead && (!newest || gone(&sandbox.pod)) {
            remove.push(sandbox.id);
        }
    }
    remove
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn dead(pod: &str, name: &str, created: i64) -> Dead {
        Dead {
            pod: Uid::from(pod),
            name: name.into(),
            id: format!("{pod}-{name}-{created}"),
            state: ContainerState::Exited,
            created_at: at(created),
        }
    }

    fn removed(policy: &Policy, containers: &[Dead]) -> Vec<String> {
        let gone = |pod: &Uid| *pod == Uid::from("gone");
        let mut ids: Vec<String> = containers_to_remove(containers.to_vec(), policy, at(100), gone)
            .into_iter()
            .map(|of| of.id)
            .collect();
        ids.sort();
        ids
    }

    #[test]
    fn the_newest_of_each_container_is_kept_while_its_pod_is_there() {
        let mut running = dead("p", "c", 9);
        running.state = ContainerState::Running;
        let containers = [
            running,
            dead("p", "a", 1),
            dead("p", "a", 3),
            dead("p", "a", 2),
            dead("p", "b", 1),
            dead("gone", "a", 1),
            dead("gone", "a", 2),
        ];
        assert_eq!(removed(&Policy::default(), &containers), ["gone-a-1", "gone-a-2", "p-a-1", "p-a-2"]);
        let none = Policy { max_per_container: None, ..Policy::default() };
        assert_eq!(removed(&none, &containers), ["gone-a-1", "gone-a-2"]);
    }

    #[test]
    fn at_a_death_as_many_are_left_as_are_kept_and_one_at_least() {
        for (kept, left) in [(None, 1), (Some(0), 1), (Some(1), 1), (Some(3), 3)] {
            let policy = Policy { max_per_container: kept, ..Policy::default() };
            assert_eq!(policy.left_at_a_death(), left, "{kept:?}");
        }
    }

    #[test]
    fn young_containers_stay() {
        let policy = Policy { min_age: Duration::from_secs(50), ..Policy::default() };
        let containers = [dead("p", "a", 40), dead("p", "a", 45), dead("p", "a", 60), dead("gone", "a", 51)];
        assert_eq!(removed(&policy, &containers), ["p-a-40"]);
    }

    #[test]
    fn a_node_keeps_so_many_evenly_and_then_the_newest() {
        let containers = [
            dead("p", "a", 1),
            dead("p", "a", 2),
            dead("p", "a", 3),
            dead("p", "a", 4),
            dead("q", "a", 5),
            dead("q", "b", 6),
        ];
        let most = |max_containers| Policy {
            max_per_container: None,
            max_containers: Some(max_containers),
            ..Policy::default()
        };
        assert_eq!(removed(&most(6), &containers), [""; 0]);
        assert_eq!(removed(&most(5), &containers), ["p-a-1", "p-a-2", "p-a-3"]);
        assert_eq!(removed(&most(2), &containers), ["p-a-1", "p-a-2", "p-a-3", "p-a-4"]);
        assert_eq!(removed(&most(0), &containers).len(), 6);
    }

    #[test]
    fn dead_sandboxes_without_containers_go_but_the_newest_of_a_live_pod() {
        let sandbox = |pod: &str, created: i64, state| Sandbox {
            pod: Uid::from(pod),
            id: format!("{pod}-{created}"),
            state,
            created_at: at(created),
        };
        use SandboxState::{NotReady, Ready};
        let sandboxes = vec![
            sandbox("p", 1, NotReady),
            sandbox("p", 2, NotReady),
            sandbox("p", 3, NotReady),
            sandbox("q", 1, NotReady),
            sandbox("q", 2, Ready),
            sandbox("gone", 1, NotReady),
            sandbox("gone", 2, NotReady),
            sandbox("gone", 3, Ready),
        ];
        let used = BTreeSet::from(["p-1".to_owned(), "gone-1".to_owned()]);
        let mut removed = sandboxes_to_remove(sandboxes, &used, |pod| *pod == Uid::from("gone"));
        removed.sort();
        assert_eq!(removed, ["gone-2", "p-2", "q-1"]);
    }
}
