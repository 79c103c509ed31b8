//! The cached fields of a pod's containers and their statuses.

use steersman_api::Time;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

use super::annotation;

projection! {
    /// A container's status.
    pub struct ContainerStatus {
        /// The container's name.
        pub name: Interned = 1 "name",
        /// The container's current state.
        pub state: ContainerState = 2 "state",
        /// How often the kubelet has restarted the container.
        pub restart_count: i32 = 5 "restartCount",
    }

    /// A container's state.
    pub struct ContainerState {
        /// How the container ended; `None` if it has not.
        pub terminated: Option<ContainerEnd> = 3 "terminated",
    }

    /// How a container ended.
    pub struct ContainerEnd {
        /// When the container ended.
        pub finished_at: Option<Time> = 6 "finishedAt",
    }

    /// An init container of a pod's spec.
    struct InitContainer {
        pub name: Interned = 1 "name",
        pub restart_policy: Interned = 24 "restartPolicy",
    }
}

impl ContainerStatus {
    /// When the container ended; `None` if it has not.
    pub fn finished_at(&self) -> Option<Time> {
        self.state.terminated.as_ref()?.finished_at
    }
}

/// The statuses of several containers, summed up. It takes no more than [`INLINE`](steersman_informer::wire::packed::INLINE) bytes,
/// since the cache of pods has one for each pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerSummary {
    /// When the last container ended; [`never`] if a container has not ended. `None` if there are no containers.
    last_end: Option<Time>,
    /// The restarts of the container that has the most.
    pub max_restarts: i32,
    /// The restarts of all containers together.
    pub restarts: i32,
}

/// Stands for the end of a container that has not ended: the last second that a [`Time`] can represent, in the year 9999. A kubelet that
/// reports that end, or a later one, is taken at its word: the container has not ended yet.
fn never() -> Time {
    Time::from_seconds(i64::MAX)
}

impl ContainerSummary {
    /// When the last container ended. `None` if a container has not ended, or there are no containers.
    pub fn finished_at(&self) -> Option<Time> {
        self.last_end.filter(|end| *end != never())
    }

    /// Whether any container has not ended.
    pub fn is_unfinished(&self) -> bool {
        self.last_end == Some(never())
    }

    fn add(&mut self, status: &ContainerStatus) {
        self.last_end = self.last_end.max(Some(status.finished_at().unwrap_or_else(never)));
        self.max_restarts = self.max_restarts.max(status.restart_count);
        self.restarts = self.restarts.saturating_add(status.restart_count);
    }
}

impl FieldValue for ContainerSummary {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut status = ContainerStatus::default();
        status.merge(field)?;
        self.add(&status);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut summary = Self::default();
        Vec::from_json(deserializer)?.iter().for_each(|status| summary.add(status));
        Ok(summary)
    }
}

/// The names of a pod's sidecars: init containers with the restart policy `Always`, which run beside the other
/// containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SidecarNames(pub Vec<Interned>);

impl SidecarNames {
    fn add(&mut self, container: InitContainer) {
        if container.restart_policy == "Always" {
            self.0.reserve_exact(1);
            self.0.push(container.name);
        }
    }
}

impl FieldValue for SidecarNames {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut container = InitContainer::default();
        container.merge(field)?;
        self.add(container);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut names = Self::default();
        Vec::from_json(deserializer)?.into_iter().for_each(|container| names.add(container));
        Ok(names)
    }
}

/// The annotation with a pod's index in its indexed job. A label of the same name has the same value.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The value of the annotation [`COMPLETION_INDEX`]. `None` if the annotation is absent, or its value is not a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletionIndex(pub Option<u32>);

impl CompletionIndex {
    fn parse(value: &str) -> Self {
        Self(value.parse().ok())
    }
}

impl FieldValue for CompletionIndex {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, COMPLETION_INDEX)? {
            *self = Self::parse(value);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, COMPLETION_INDEX, Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_api::schema;
    use steersman_informer::wire::{Encoding, Group, Object};

    use super::super::pod::{Completion, Containers, InitContainers, Pod, Sidecars};
    use super::*;

    const ALL: u64 = Completion::BIT | Containers::BIT | InitContainers::BIT | Sidecars::BIT;

    fn pod() -> serde_json::Value {
        let ended = |at: &str| json!({"terminated": {"exitCode": 0, "finishedAt": at}});
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "annotations": {"x": "y", COMPLETION_INDEX: "7"}},
            "spec": {"containers": [{"name": "main"}], "initContainers": [
                {"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"},
            ]},
            "status": {
                "containerStatuses": [
                    {"name": "main", "restartCount": 2, "state": ended("2026-01-01T00:00:05Z")},
                    {"name": "other", "restartCount": 3, "state": ended("2026-01-01T00:00:03Z")},
                ],
                "initContainerStatuses": [{"name": "proxy", "restartCount": 1, "state": {"running": {}}}],
            },
        })
    }

    #[test]
    fn both_encodings_give_the_same_of_containers() {
        let protobuf = schema::to_protobuf(schema::table().kind("", "v1", "Pod").unwrap(), &pod()).unwrap();
        for (body, encoding) in
            [(protobuf.into(), Encoding::Protobuf), (pod().to_string().into(), Encoding::Json)]
        {
            let pod = Pod::decode(&body, encoding, ALL).unwrap();
            let containers = Containers::of(&pod).unwrap();
            assert_eq!(containers.regular.finished_at(), "2026-01-01T00:00:05Z".parse().ok().map(at));
            assert_eq!((containers.regular.max_restarts, containers.regular.restarts), (3, 5));
            let init = &InitContainers::of(&pod).unwrap().statuses;
            assert_eq!((&*init[0].name, init[0].finished_at()), ("proxy", None));
            assert_eq!(Sidecars::of(&pod).unwrap().names.0, ["proxy"]);
            assert_eq!(Completion::of(&pod).unwrap().index, CompletionIndex(Some(7)));
        }
    }

    fn at(stamp: jiff::Timestamp) -> Time {
        stamp.into()
    }

    #[test]
    fn containers_have_finished_only_if_all_of_them_have() {
        let mut summary = ContainerSummary::default();
        assert_eq!((summary.finished_at(), summary.is_unfinished()), (None, false));
        let ended = |seconds| ContainerStatus {
            state: ContainerState {
                terminated: Some(ContainerEnd { finished_at: Some(Time::from_seconds(seconds)) }),
            },
            ..ContainerStatus::default()
        };
        summary.add(&ended(5));
        assert_eq!(summary.finished_at(), Some(Time::from_seconds(5)));
        summary.add(&ContainerStatus::default());
        summary.add(&ended(9));
        assert_eq!((summary.finished_at(), summary.is_unfinished()), (None, true));
    }
}
