//! What happened to a container, and how two states tell it.

use std::collections::{HashMap, HashSet};

use steersman_api::Uid;

use crate::container::{ContainerState, RuntimePod};

/// Something happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodLifecycleEvent {
    /// The pod's uid.
    pub pod: Uid,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a pod; the text is the id of the container or sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// It runs.
    ContainerStarted(String),
    /// It has ended.
    ContainerDied(String),
    /// It is no longer there. It has died before, at the latest just now.
    ContainerRemoved(String),
    /// It was made, or its state cannot be told. These are not sent to anybody.
    ContainerChanged(String),
    /// Nothing that the list shows, but the pod was inspected: it should be synced.
    PodSync,
}

impl EventKind {
    /// Upstream's name for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::ContainerStarted(_) => "ContainerStarted",
            Self::ContainerDied(_) => "ContainerDied",
            Self::ContainerRemoved(_) => "ContainerRemoved",
            Self::ContainerChanged(_) => "ContainerChanged",
            Self::PodSync => "PodSync",
        }
    }
}

/// A state as the PLEG tells them apart; upstream has no use for "created", which is unknown here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlegState {
    Running,
    Exited,
    Unknown,
    NonExistent,
}

impl From<Option<ContainerState>> for PlegState {
    fn from(state: Option<ContainerState>) -> Self {
        match state {
            Some(ContainerState::Running) => Self::Running,
            Some(ContainerState::Exited) => Self::Exited,
            Some(ContainerState::Created | ContainerState::Unknown) => Self::Unknown,
            None => Self::NonExistent,
        }
    }
}

/// What happened to the container `id` that was in the state `old` and now is in `new`; none is "not there".
pub fn container_events(
    id: &str,
    old: Option<ContainerState>,
    new: Option<ContainerState>,
) -> Vec<EventKind> {
    let (old, new) = (PlegState::from(old), PlegState::from(new));
    if old == new {
        return Vec::new();
    }
    let id = id.to_owned();
    match new {
        PlegState::Running => vec![EventKind::ContainerStarted(id)],
        PlegState::Exited => vec![EventKind::ContainerDied(id)],
        PlegState::Unknown => vec![EventKind::ContainerChanged(id)],
        PlegState::NonExistent if old == PlegState::Exited => vec![EventKind::ContainerRemoved(id)],
        PlegState::NonExistent => vec![EventKind::ContainerDied(id.clone()), EventKind::ContainerRemoved(id)],
    }
}

/// What happened to a pod's containers and sandboxes between two lists; none is a pod that is not there. Of several with one id,
/// the first counts.
pub fn pod_events(old: Option<&RuntimePod>, new: Option<&RuntimePod>) -> Vec<EventKind> {
    let (before, after) = (states(old), states(new));
    let mut seen = HashSet::new();
    let all = old.into_iter().chain(new).flat_map(RuntimePod::states);
    all.filter(|(id, _)| seen.insert(*id))
        .flat_map(|(id, _)| container_events(id, before.get(id).copied(), after.get(id).copied()))
        .collect()
}

fn states(pod: Option<&RuntimePod>) -> HashMap<&str, ContainerState> {
    let mut states = HashMap::new();
    for (id, state) in pod.into_iter().flat_map(RuntimePod::states) {
        states.entry(id).or_insert(state);
    }
    states
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pleg::generic::testing::pod;

    const STATES: [Option<ContainerState>; 5] = [
        None,
        Some(ContainerState::Created),
        Some(ContainerState::Running),
        Some(ContainerState::Exited),
        Some(ContainerState::Unknown),
    ];

    #[test]
    fn each_change_of_state_has_its_events() {
        let names = |old, new| -> Vec<&str> {
            container_events("c", old, new).iter().map(EventKind::as_str).collect()
        };
        let (created, running, exited, unknown) = (STATES[1], STATES[2], STATES[3], STATES[4]);
        for old in STATES {
            let unless = |state: &[Option<ContainerState>], events: &[&'static str]| {
                if state.contains(&old) { Vec::new() } else { events.to_vec() }
            };
            assert_eq!(names(old, running), unless(&[running], &["ContainerStarted"]), "{old:?}");
            assert_eq!(names(old, exited), unless(&[exited], &["ContainerDied"]), "{old:?}");
            for new in [created, unknown] {
                assert_eq!(names(old, new), unless(&[created, unknown], &["ContainerChanged"]), "{old:?}");
            }
        }
        assert_eq!(names(exited, None), ["ContainerRemoved"]);
        for old in [created, running, unknown] {
            assert_eq!(names(old, None), ["ContainerDied", "ContainerRemoved"], "{old:?}");
        }
        assert!(names(None, None).is_empty());
    }

    #[test]
    fn what_has_one_id_has_one_event() {
        let twice = |state| pod("p", &[("c", state), ("c", ContainerState::Running)]);
        let (running, exited) = (twice(ContainerState::Running), twice(ContainerState::Exited));
        let died = EventKind::ContainerDied("c".to_owned());
        assert_eq!(pod_events(Some(&running), Some(&exited)), std::slice::from_ref(&died));
        let removed = EventKind::ContainerRemoved("c".to_owned());
        assert_eq!(pod_events(Some(&running), None), [died, removed]);
    }

    fn course_of_states() -> impl Strategy<Value = Vec<Option<ContainerState>>> {
        prop::collection::vec(prop::sample::select(&STATES[..]), 4)
    }

    proptest! {
        /// Over any course of a pod's containers: each death but the first is preceded by a start or by a change that the PLEG
        /// cannot tell; nothing is removed that did not die; and who plays the events back knows who runs.
        #[test]
        fn events_tell_who_runs(course in prop::collection::vec(course_of_states(), 1..8)) {
            let names = ["c0", "c1", "c2", "c3"];
            let listed = |states: &Vec<Option<ContainerState>>| {
                let there = names.iter().zip(states);
                let there: Vec<_> = there.filter_map(|(name, state)| state.map(|state| (*name, state))).collect();
                (!there.is_empty()).then(|| pod("p", &there))
            };
            let mut old = None;
            let mut known: std::collections::BTreeMap<String, &str> = Default::default();
            for states in &course {
                let new = listed(states);
                for event in pod_events(old.as_ref(), new.as_ref()) {
                    match event {
                        EventKind::ContainerStarted(id) => {
                            prop_assert_ne!(known.insert(id, "running"), Some("running"));
                        }
                        EventKind::ContainerDied(id) => {
                            prop_assert_ne!(known.insert(id, "dead"), Some("dead"));
                        }
                        EventKind::ContainerChanged(id) => {
                            known.insert(id, "unclear");
                        }
                        EventKind::ContainerRemoved(id) => {
                            prop_assert_eq!(known.remove(&id), Some("dead"));
                        }
                        EventKind::PodSync => prop_assert!(false, "lists do not show that"),
                    }
                }
                let running: Vec<&str> =
                    names.into_iter().filter(|name| known.get(*name) == Some(&"running")).collect();
                let truly = names.iter().zip(states).filter(|(_, state)| **state == Some(ContainerState::Running));
                prop_assert_eq!(running, truly.map(|(name, _)| *name).collect::<Vec<_>>());
                prop_assert_eq!(known.len(), states.iter().flatten().count());
                old = new;
            }
        }
    }
}
