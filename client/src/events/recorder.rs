//! Records events.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use steersman_api::{ArcStr, GroupVersionKind, Meta, ResourceVersion, names};
use tokio::time::Instant;

use super::{Broadcaster, queue::Queue};

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Information only.
    Normal,
    /// A problem that a user may have to look into.
    Warning,
}

impl EventType {
    /// The type's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Records the events of one component. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// The name of the node that the component acts for, if it acts for one node.
    host: Option<ArcStr>,
    queue: Arc<Queue>,
    broadcaster: Broadcaster,
}

/// One occurrence of an event, before correlation.
struct Occurrence<'a> {
    component: &'a str,
    host: Option<&'a str>,
    involved: &'a ObjectReference,
    kind: EventType,
    reason: Cow<'static, str>,
    message: String,
    at: Timestamp,
}

impl Recorder {
    pub(super) fn new(broadcaster: Broadcaster, queue: Arc<Queue>, host: Option<ArcStr>) -> Self {
        Self { host, queue, broadcaster }
    }

    #[cfg(test)]
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Records that something happened to `involved`. Never waits: if too many events are queued, drops and counts
    /// this one.
    ///
    /// `reason` is one word in UpperCamelCase for programs; `message` is for people. The API server stores the event
    /// in the namespace of the object, or in `default` for an object without one.
    pub fn event(
        &self,
        involved: &ObjectReference,
        kind: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let component = self.queue.component();
        let occurrence = Occurrence {
            component,
            host: self.host.as_deref(),
            involved,
            kind,
            reason: reason.into(),
            message: message.into(),
            at: Timestamp::now(),
        };
        tracing::debug!(
            namespace = involved.namespace,
            name = involved.name,
            kind = involved.kind,
            r#type = kind.as_str(),
            reason = &*occurrence.reason,
            note = occurrence.message,
            "Event occurred"
        );
        let start = || {
            // Without writers, the queue is closed.
            _ = self.broadcaster.starts.send(self.queue.clone());
        };
        let at = occurrence.at;
        if let Err(why) = self.queue.push(occurrence.into_event(), Instant::now(), at, start) {
            self.broadcaster.metrics.dropped(component, why);
        }
    }
}

/// Makes the reference by which an event names an object, as client-go's `GetReference` does.
pub fn reference(kind: &GroupVersionKind, meta: &Meta) -> ObjectReference {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let version = Some(meta.resource_version).filter(|version| *version != ResourceVersion::ANY);
    ObjectReference {
        api_version: some(kind.api_version()),
        kind: some(kind.kind.to_string()),
        namespace: some(meta.key.namespace.to_string()),
        name: some(meta.key.name.to_string()),
        uid: some(meta.uid.to_string()),
        resource_version: version.map(|version| version.to_string()),
        field_path: None,
    }
}

impl Occurrence<'_> {
    /// The event that is written if this is its first occurrence.
    fn into_event(self) -> Event {
        let component = Some(self.component.to_owned());
        let host = self.host.map(str::to_owned);
        let stamp = Time(self.at);
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(self.involved.name.as_deref().unwrap_or_default(), self.at)),
                namespace: Some(self.involved.namespace.clone().unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: self.involved.clone(),
            reason: Some(self.reason.into_owned()),
            message: Some(self.message),
            first_timestamp: Some(stamp.clone()),
            last_timestamp: Some(stamp),
            count: Some(1),
            type_: Some(self.kind.as_str().to_owned()),
            source: Some(EventSource { component: component.clone(), host: host.clone() }),
            reporting_component: component,
            reporting_instance: Some(host.unwrap_or_default()),
            ..Event::default()
        }
    }
}

/// The name of an event: `<object>.<nanoseconds since 1970 in hex>`, or a UUID if that is not a valid name, as for
/// the RBAC object `system:node`. client-go: `GenerateEventName`.
pub(super) fn event_name(object: &str, at: Timestamp) -> String {
    let name = format!("{object}.{:x}", at.as_nanosecond());
    if names::subdomain(&name).is_empty() { name } else { uuid::Uuid::new_v4().to_string() }
}

#[cfg(test)]
mod tests {
    use steersman_api::{ObjectKey, Uid};

    use super::*;

    fn pod(name: &str) -> ObjectReference {
        let meta = Meta {
            key: ObjectKey::new("ns", name),
            uid: Uid::from("u-1"),
            resource_version: ResourceVersion(7),
            ..Meta::default()
        };
        reference(&GroupVersionKind::new("", "v1", "Pod"), &meta)
    }

    fn occurrence(involved: &ObjectReference) -> Occurrence<'_> {
        Occurrence {
            component: "job-controller",
            host: None,
            involved,
            kind: EventType::Warning,
            reason: "FailedCreate".into(),
            message: "no".to_owned(),
            at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        }
    }

    #[test]
    fn an_event_has_the_fields_that_go_controllers_write() {
        let event = serde_json::to_value(occurrence(&pod("web-1")).into_event()).unwrap();
        let nanos: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(
            event,
            serde_json::json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": format!("web-1.{:x}", nanos.as_nanosecond()), "namespace": "ns"},
                "involvedObject": {
                    "apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "web-1", "uid": "u-1",
                    "resourceVersion": "7",
                },
                "reason": "FailedCreate",
                "message": "no",
                "type": "Warning",
                "count": 1,
                "firstTimestamp": "2026-01-02T03:04:05Z",
                "lastTimestamp": "2026-01-02T03:04:05Z",
                "source": {"component": "job-controller"},
                "reportingComponent": "job-controller",
                "reportingInstance": "",
            })
        );
    }

    #[test]
    fn an_event_of_a_node_agent_names_its_node() {
        let pod = pod("web-1");
        let event = Occurrence { component: "kubelet", host: Some("n1"), ..occurrence(&pod) }.into_event();
        let source = event.source.unwrap();
        assert_eq!((source.component.as_deref(), source.host.as_deref()), (Some("kubelet"), Some("n1")));
        assert_eq!(event.reporting_component.as_deref(), Some("kubelet"));
        assert_eq!(event.reporting_instance.as_deref(), Some("n1"));
    }

    #[test]
    fn an_event_about_a_cluster_scoped_object_is_in_the_default_namespace() {
        let node = reference(
            &GroupVersionKind::new("", "v1", "Node"),
            &Meta { key: ObjectKey::cluster("n1"), ..Meta::default() },
        );
        assert_eq!((&node.namespace, &node.resource_version, &node.uid), (&None, &None, &None));
        let event = occurrence(&node).into_event();
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(event.involved_object.namespace, None);
    }

    #[test]
    fn an_event_gets_a_uuid_if_the_objects_name_is_not_valid_for_events() {
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(event_name("web-1.example", at), "web-1.example.0");
        for name in ["system:node", "Web", "-web", "", &"a".repeat(252)] {
            uuid::Uuid::try_parse(&event_name(name, at)).unwrap();
        }
    }
}
