//! Where controllers say what happened.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use steersman_api::{ArcStr, GroupVersionKind, Meta, ResourceVersion, names};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{Metrics, Writer, metrics::Dropped};

/// How many events may wait to be written; client-go: `maxQueuedEvents`.
pub(super) const QUEUE_LENGTH: usize = 1000;

/// Whether an event is good news or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// All is as it should be.
    Normal,
    /// Somebody may have to look.
    Warning,
}

impl EventType {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Makes [`Recorder`]s that share a queue. A clone is the same queue.
#[derive(Debug, Clone)]
pub struct Broadcaster {
    queue: mpsc::Sender<Occurrence>,
    metrics: Metrics,
}

/// Records events on behalf of one component. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    source: Source,
    broadcaster: Broadcaster,
}

/// Who says it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) component: ArcStr,
    /// The node that the component runs on, if it speaks for that node.
    host: Option<ArcStr>,
}

/// One thing that happened, before correlation.
#[derive(Debug)]
pub(super) struct Occurrence {
    pub(super) source: Source,
    involved: ObjectReference,
    kind: EventType,
    reason: Cow<'static, str>,
    message: String,
    at: Timestamp,
}

/// A queue of events, and the task that writes them by `client`.
///
/// The client should not be gated: events tell the truth whoever leads. Whoever owns the tasks runs [`Writer::run`].
pub fn broadcaster(client: kube::Client, metrics: Metrics) -> (Broadcaster, Writer) {
    let (sender, queue) = mpsc::channel(QUEUE_LENGTH);
    (Broadcaster { queue: sender, metrics: metrics.clone() }, Writer::new(queue, client, metrics))
}

impl Broadcaster {
    /// A recorder whose events say that they come from `component`, for instance `job-controller`.
    pub fn recorder(&self, component: &str) -> Recorder {
        Recorder { source: Source { component: component.into(), host: None }, broadcaster: self.clone() }
    }

    /// As [`recorder`](Self::recorder), for a component that speaks for one node: its events name `host` as well, as source
    /// and as reporting instance.
    pub fn recorder_on(&self, component: &str, host: &str) -> Recorder {
        Recorder {
            source: Source { component: component.into(), host: Some(host.into()) },
            broadcaster: self.clone(),
        }
    }
}

impl Recorder {
    /// Says that something happened to `involved`. Never waits: if too many events are queued, this one is dropped and
    /// counted.
    ///
    /// `reason` is one word in UpperCamelCase, for programs; `message` is for people. The event lies in the namespace of
    /// the object, or in `default` for an object without one.
    pub fn event(
        &self,
        involved: &ObjectReference,
        kind: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let occurrence = Occurrence {
            source: self.source.clone(),
            involved: involved.clone(),
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
        let why = match self.broadcaster.queue.try_send(occurrence) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => Dropped::QueueFull,
            Err(TrySendError::Closed(_)) => Dropped::Stopped,
        };
        self.broadcaster.metrics.dropped(&self.source.component, why);
    }
}

/// The reference by which an event names an object, as client-go's `GetReference` makes it.
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

impl Occurrence {
    /// The event as it is written if it is the first of its kind.
    pub(super) fn into_event(self) -> Event {
        let component = self.source.component.to_string();
        let host = self.source.host.map(|host| host.to_string());
        let stamp = Time(self.at);
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(self.involved.name.as_deref().unwrap_or_default(), self.at)),
                namespace: Some(self.involved.namespace.clone().unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: self.involved,
            reason: Some(self.reason.into_owned()),
            message: Some(self.message),
            first_timestamp: Some(stamp.clone()),
            last_timestamp: Some(stamp),
            count: Some(1),
            type_: Some(self.kind.as_str().to_owned()),
            source: Some(EventSource { component: Some(component.clone()), host: host.clone() }),
            reporting_component: Some(component),
            reporting_instance: Some(host.unwrap_or_default()),
            ..Event::default()
        }
    }
}

/// `<object>.<nanoseconds since 1970 in hex>`; a UUID where that is no name for an event (an RBAC object may be called
/// `system:node`). client-go: `GenerateEventName`.
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

    fn occurrence(involved: ObjectReference) -> Occurrence {
        Occurrence {
            source: Source { component: "job-controller".into(), host: None },
            involved,
            kind: EventType::Warning,
            reason: "FailedCreate".into(),
            message: "no".to_owned(),
            at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        }
    }

    #[test]
    fn an_event_has_the_fields_that_go_controllers_write() {
        let event = serde_json::to_value(occurrence(pod("web-1")).into_event()).unwrap();
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
        let source = Source { component: "kubelet".into(), host: Some("n1".into()) };
        let event = Occurrence { source, ..occurrence(pod("web-1")) }.into_event();
        let source = event.source.unwrap();
        assert_eq!((source.component.as_deref(), source.host.as_deref()), (Some("kubelet"), Some("n1")));
        assert_eq!(event.reporting_component.as_deref(), Some("kubelet"));
        assert_eq!(event.reporting_instance.as_deref(), Some("n1"));
    }

    #[test]
    fn an_event_about_a_cluster_scoped_object_lies_in_the_default_namespace() {
        let node = reference(
            &GroupVersionKind::new("", "v1", "Node"),
            &Meta { key: ObjectKey::cluster("n1"), ..Meta::default() },
        );
        assert_eq!((&node.namespace, &node.resource_version, &node.uid), (&None, &None, &None));
        let event = occurrence(node).into_event();
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(event.involved_object.namespace, None);
    }

    #[test]
    fn an_object_whose_name_is_no_name_for_an_event_gets_a_uuid() {
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(event_name("web-1.example", at), "web-1.example.0");
        for name in ["system:node", "Web", "-web", "", &"a".repeat(252)] {
            uuid::Uuid::try_parse(&event_name(name, at)).unwrap();
        }
    }
}
