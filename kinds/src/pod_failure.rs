//! How a pod failed, as far as the pod failure policy of a job can tell pods apart.

use std::num::NonZeroU32;
use std::sync::Arc;

use steersman_api::ArcStr;
use steersman_api::condition::ConditionStatus;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, Message, Reader, WireError, ignore, nullable};
use steersman_informer::{Interned, decoded_as_message, projection};

/// The statuses of a pod's conditions, and the exit codes of its containers.
///
/// Each pod has one of these, and few pods fail. So the conditions that a kubelet sets take two bits each, and all else is
/// allocated only for pods that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    /// Two bits for each of [`KNOWN`], from the lowest on: see [`bits`]. The highest bit is always set, so that
    /// `Option<PodFailure>` is no larger than `PodFailure`.
    known: NonZeroU32,
    rest: Option<Arc<Rest>>,
}

/// What few pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rest {
    regular: Vec<ExitCode>,
    init: Vec<ExitCode>,
    /// Conditions of other types than [`KNOWN`].
    conditions: Vec<(Interned, ConditionStatus)>,
}

/// A container that ended with an exit code other than zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitCode {
    /// The container's name.
    pub container: Interned,
    /// The exit code.
    pub code: i32,
}

/// The types of conditions that take two bits each: those of kube-scheduler and the kubelet, and `DisruptionTarget`.
const KNOWN: [&str; 8] = [
    "DisruptionTarget",
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
];

/// A status in two bits. Zero stands for an absent condition.
const fn bits(status: ConditionStatus) -> u32 {
    match status {
        ConditionStatus::True => 1,
        ConditionStatus::False => 2,
        ConditionStatus::Unknown => 3,
    }
}

const MARK: NonZeroU32 = NonZeroU32::new(1 << 31).expect("the mark must not be zero");

impl Default for PodFailure {
    fn default() -> Self {
        Self { known: MARK, rest: None }
    }
}

impl PodFailure {
    /// The containers that ended with an exit code other than zero: first the regular ones, then the init containers.
    pub fn exit_codes(&self) -> impl Iterator<Item = &ExitCode> {
        self.rest.iter().flat_map(|rest| rest.regular.iter().chain(&rest.init))
    }

    /// The types and statuses of the pod's conditions. Unlike in upstream, their order is not that of the pod.
    pub fn conditions(&self) -> impl Iterator<Item = (&str, ConditionStatus)> {
        let status = |place: usize| match self.known.get() >> (2 * place) & 3 {
            0 => None,
            1 => Some(ConditionStatus::True),
            2 => Some(ConditionStatus::False),
            _ => Some(ConditionStatus::Unknown),
        };
        let known = KNOWN.iter().enumerate().filter_map(move |(place, kind)| Some((*kind, status(place)?)));
        let others = self.rest.iter().flat_map(|rest| &rest.conditions);
        known.chain(others.map(|(kind, status)| (&**kind, *status)))
    }

    /// Adds a condition. Of several conditions of one type the last one counts.
    pub fn add_condition(&mut self, kind: &str, status: ConditionStatus) {
        if let Some(place) = KNOWN.iter().position(|known| *known == kind) {
            let others = self.known.get() & !(3 << (2 * place));
            self.known = MARK | (others | bits(status) << (2 * place));
        } else {
            self.rest().conditions.push((kind.into(), status));
        }
    }

    /// Adds a regular container that ended with an exit code other than zero.
    pub fn add_exit_code(&mut self, container: &str, code: i32) {
        self.rest().regular.push(ExitCode { container: container.into(), code });
    }

    fn rest(&mut self) -> &mut Rest {
        Arc::make_mut(self.rest.get_or_insert_default())
    }
}

projection! {
    struct Condition {
        pub kind: ArcStr = 1 "type",
        pub status: ConditionStatus = 2 "status",
    }

    struct Container {
        pub name: ArcStr = 1 "name",
        pub state: State = 2 "state",
    }

    struct State {
        pub terminated: Option<Terminated> = 3 "terminated",
    }

    struct Terminated {
        pub exit_code: i32 = 1 "exitCode",
    }
}

/// The exit code, other than zero, of an encoded container status. Allocates only if there is one.
fn exit_code(field: Field<'_>) -> Result<Option<ExitCode>, WireError> {
    let (mut name, mut state) = ("", State::default());
    let mut status = field.message()?;
    while let Some(field) = status.field()? {
        match field.number {
            1 => name = field.text()?,
            2 => state.merge(field)?,
            _ => {}
        }
    }
    let code = state.terminated.map_or(0, |terminated| terminated.exit_code);
    Ok((code != 0).then(|| ExitCode { container: name.into(), code }))
}

/// The exit codes, other than zero, of container statuses.
fn exit_codes(containers: Vec<Container>) -> Vec<ExitCode> {
    let code = |container: &Container| container.state.terminated.as_ref().map_or(0, |end| end.exit_code);
    let failed =
        containers.iter().map(|container| (container, code(container))).filter(|(_, code)| *code != 0);
    failed.map(|(container, code)| ExitCode { container: (&*container.name).into(), code }).collect()
}

/// The type and the status of an encoded condition.
fn condition(mut condition: Reader<'_>) -> Result<(&str, ConditionStatus), WireError> {
    let (mut kind, mut status) = ("", ConditionStatus::default());
    while let Some(field) = condition.field()? {
        match field.number {
            1 => kind = field.text()?,
            2 => status = field.text()?.into(),
            _ => {}
        }
    }
    Ok((kind, status))
}

impl Message for PodFailure {
    fn merge_field(&mut self, field: Field<'_>) -> Result<(), WireError> {
        match field.number {
            2 => {
                let (kind, status) = condition(field.message()?)?;
                self.add_condition(kind, status);
            }
            8 => exit_code(field)?.into_iter().for_each(|code| self.rest().regular.push(code)),
            10 => exit_code(field)?.into_iter().for_each(|code| self.rest().init.push(code)),
            _ => {}
        }
        Ok(())
    }

    fn has_member(&self, name: &str) -> bool {
        matches!(name, "conditions" | "containerStatuses" | "initContainerStatuses")
    }

    fn merge_member<'de, D: Deserializer<'de>>(&mut self, name: &str, value: D) -> Result<(), D::Error> {
        let containers = |value| nullable::<Vec<Container>, D>(value).map(exit_codes);
        match name {
            "conditions" => {
                for condition in nullable::<Vec<Condition>, D>(value)? {
                    self.add_condition(&condition.kind, condition.status);
                }
            }
            "containerStatuses" => {
                let codes = containers(value)?;
                if !codes.is_empty() {
                    self.rest().regular = codes;
                }
            }
            "initContainerStatuses" => {
                let codes = containers(value)?;
                if !codes.is_empty() {
                    self.rest().init = codes;
                }
            }
            _ => ignore(value)?,
        }
        Ok(())
    }
}

impl FieldValue for PodFailure {
    decoded_as_message!(2, 8, 10);
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_api::schema;
    use steersman_informer::wire::{Encoding, Group, Object};

    use super::super::index_failures::{COUNTED, IGNORED, IndexFailures};
    use super::super::pod::{EarlierFailures, Pod};
    use super::*;

    #[test]
    fn both_encodings_tell_how_a_pod_failed() {
        let ended =
            |name: &str, code: i32| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "annotations": {COUNTED: "3", "x": "y", IGNORED: "2"}},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False"}, {"type": "example.com/Broken", "status": "Unknown"},
                    {"type": "DisruptionTarget", "status": "True"},
                ],
                "containerStatuses": [ended("well", 0), ended("main", 3), {"name": "b", "state": {"running": {}}}],
                "initContainerStatuses": [ended("setup", 137)],
            },
        });
        let protobuf = schema::to_protobuf(schema::table().kind("", "v1", "Pod").unwrap(), &pod).unwrap();
        for (body, encoding) in
            [(protobuf.into(), Encoding::Protobuf), (pod.to_string().into(), Encoding::Json)]
        {
            let pod = Pod::decode(&body, encoding, PodFailure::BIT | EarlierFailures::BIT).unwrap();
            let failure = PodFailure::of(&pod).unwrap();
            let codes: Vec<_> = failure.exit_codes().map(|exit| (&*exit.container, exit.code)).collect();
            assert_eq!(codes, [("main", 3), ("setup", 137)]);
            assert_eq!(
                failure.conditions().collect::<Vec<_>>(),
                [
                    ("DisruptionTarget", ConditionStatus::True),
                    ("Ready", ConditionStatus::False),
                    ("example.com/Broken", ConditionStatus::Unknown),
                ]
            );
            let of_index = EarlierFailures::of(&pod).unwrap().of_index;
            assert_eq!(of_index, IndexFailures { counted: 3, ignored: 2 });
        }
    }

    #[test]
    fn a_pod_that_has_not_failed_needs_no_memory_of_its_own() {
        let mut failure = PodFailure::default();
        for kind in KNOWN {
            failure.add_condition(kind, ConditionStatus::False);
            failure.add_condition(kind, ConditionStatus::True);
        }
        assert_eq!(failure.rest, None);
        assert!(failure.conditions().eq(KNOWN.map(|kind| (kind, ConditionStatus::True))));
        assert_eq!(size_of::<Option<PodFailure>>(), 16);
    }

    #[test]
    fn an_invalid_number_of_failures_is_none() {
        for (value, number) in
            [("7", 7), ("-1", 0), ("x", 0), ("", 0), ("2147483647", 2_147_483_647), ("2147483648", 0)]
        {
            let mut failures = IndexFailures::default();
            let annotations = json!({COUNTED: value});
            annotation_of(&mut failures, &annotations);
            assert_eq!(failures, IndexFailures { counted: number, ignored: 0 }, "{value}");
        }
    }

    fn annotation_of(failures: &mut IndexFailures, annotations: &serde_json::Value) {
        *failures = IndexFailures::from_json(annotations).unwrap();
    }
}
