//! Finds the time of the change that a write of endpoints reacts to. Clients measure the controllers' delay by it.

use steersman_api::{ArcStr, Time};

use super::{RoutedService, ServedPod};
use steersman_informer::View;
use steersman_kinds::pod::Readiness;

/// The annotation with the time of the change that led to the last write.
pub const LAST_CHANGE_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times of changes that a sync of a service saw. Takes some 16 bytes for each pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    service: Option<Time>,
    /// When the readiness of each pod last changed, by name. The names share memory with the cache.
    pods: Box<[(ArcStr, Time)]>,
}

impl Triggers {
    /// The times of a service and of its pods.
    pub fn of(service: &View<RoutedService>, pods: &[View<ServedPod>]) -> Self {
        let changed = |pod: &View<ServedPod>| {
            let at = pod.get::<Readiness>().ready.last_transition_time?;
            Some((pod.meta().key.name.clone(), at))
        };
        let mut pods: Box<[_]> = pods.iter().filter_map(changed).collect();
        pods.sort_unstable();
        Self { service: service.meta().created, pods }
    }

    /// The time for the annotation: the earliest change since `before`. If `before` is `None`, this is the first sync of
    /// the service, and the time is the service's creation. `None` if nothing changed: then the object should have no
    /// annotation.
    ///
    /// Equals upstream's `ComputeEndpointLastChangeTriggerTime`, with the same flaw: if an object changes twice between two
    /// syncs, the first change is lost.
    pub fn since(&self, before: Option<&Self>) -> Option<Time> {
        let Some(before) = before else { return self.service };
        let pods = self.pods.iter().filter(|(name, at)| Some(*at) > before.pod(name)).map(|(_, at)| *at);
        pods.chain(self.service.filter(|_| self.service > before.service)).min()
    }

    fn pod(&self, name: &str) -> Option<Time> {
        let at = self.pods.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(self.pods[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    fn state(service: Option<i64>, pods: &[(&str, i64)]) -> Triggers {
        let pods = pods.iter().map(|(name, seconds)| ((*name).into(), at(*seconds))).collect();
        Triggers { service: service.map(at), pods }
    }

    #[test]
    fn the_earliest_change_since_the_last_sync_counts() {
        let before = state(Some(10), &[("a", 20), ("b", 30)]);
        for (now, expected) in [
            (state(Some(10), &[("a", 20), ("b", 30)]), None),
            (state(Some(10), &[("a", 25), ("b", 40)]), Some(25)),
            (state(Some(10), &[("a", 15), ("b", 31)]), Some(31)),
            (state(Some(10), &[("a", 20), ("b", 30), ("c", 5)]), Some(5)),
            (state(Some(11), &[("b", 30)]), Some(11)),
            (state(None, &[]), None),
        ] {
            assert_eq!(now.since(Some(&before)), expected.map(at), "{now:?}");
        }
    }

    #[test]
    fn the_time_of_a_new_service_is_its_creation() {
        assert_eq!(state(Some(10), &[("a", 5)]).since(None), Some(at(10)));
        assert_eq!(state(None, &[("a", 5)]).since(None), None);
    }
}
