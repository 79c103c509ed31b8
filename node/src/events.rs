//! Where the node says what happened to its pods, and to itself.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Resource;
pub use steersman_client::events::EventType;
use steersman_client::events::Recorder;

/// Takes events. Never waits.
///
/// `reason` is one word in UpperCamelCase, upstream's byte for byte; `message` is for people.
pub trait EventSink: Send + Sync + 'static {
    /// Says that something happened to `involved`.
    fn event(&self, involved: &ObjectReference, kind: EventType, reason: &'static str, message: &str);

    /// Likewise, for the few reasons that are put together, such as `OutOfexample.com/gpu`.
    fn event_with_reason(&self, involved: &ObjectReference, kind: EventType, reason: String, message: &str);
}

/// A shared sink; all parts of a node write to one.
pub type Events = Arc<dyn EventSink>;

impl EventSink for Recorder {
    fn event(&self, involved: &ObjectReference, kind: EventType, reason: &'static str, message: &str) {
        Recorder::event(self, involved, kind, reason, message);
    }

    fn event_with_reason(&self, involved: &ObjectReference, kind: EventType, reason: String, message: &str) {
        Recorder::event(self, involved, kind, reason, message);
    }
}

/// For a node without API server: events go to the log only.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogOnly;

impl EventSink for LogOnly {
    fn event(&self, involved: &ObjectReference, kind: EventType, reason: &'static str, message: &str) {
        self.event_with_reason(involved, kind, reason.to_owned(), message);
    }

    fn event_with_reason(&self, involved: &ObjectReference, kind: EventType, reason: String, message: &str) {
        let (name, namespace) = (involved.name.as_deref(), involved.namespace.as_deref());
        tracing::info!(name, namespace, r#type = kind.as_str(), reason, note = message, "Event occurred");
    }
}

/// The reference by which an event names a pod.
pub fn pod_reference(pod: &Pod) -> ObjectReference {
    pod.object_ref(&())
}

/// The reference by which an event names a container of a pod: `field_path` is `spec.containers{name}`,
/// `spec.initContainers{name}` or `spec.ephemeralContainers{name}`.
pub fn container_reference(pod: &Pod, field_path: &str) -> ObjectReference {
    ObjectReference { field_path: Some(field_path.to_owned()), ..pod_reference(pod) }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A sink that tests can read.

    use parking_lot::Mutex;

    use super::*;

    /// An event as it was said.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Said {
        pub(crate) name: String,
        pub(crate) field_path: String,
        pub(crate) kind: EventType,
        pub(crate) reason: &'static str,
        pub(crate) message: String,
    }

    /// Keeps what was said, in order.
    #[derive(Debug, Default)]
    pub(crate) struct Kept(Mutex<Vec<Said>>);

    impl Kept {
        /// All that was said so far.
        pub(crate) fn all(&self) -> Vec<Said> {
            self.0.lock().clone()
        }

        /// The reasons alone.
        pub(crate) fn reasons(&self) -> Vec<&'static str> {
            self.0.lock().iter().map(|said| said.reason).collect()
        }
    }

    impl EventSink for Kept {
        fn event(&self, involved: &ObjectReference, kind: EventType, reason: &'static str, message: &str) {
            self.0.lock().push(Said {
                name: involved.name.clone().unwrap_or_default(),
                field_path: involved.field_path.clone().unwrap_or_default(),
                kind,
                reason,
                message: message.to_owned(),
            });
        }

        fn event_with_reason(
            &self,
            involved: &ObjectReference,
            kind: EventType,
            reason: String,
            message: &str,
        ) {
            // Told apart by their text, which a test compares with one of its own.
            self.event(involved, kind, reason.leak(), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_container_names_pod_and_container() {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web".into());
        let kept = testing::Kept::default();
        let involved = container_reference(&pod, "spec.containers{app}");
        kept.event(&involved, EventType::Normal, "Started", "Container started");
        assert_eq!(kept.reasons(), ["Started"]);
        let said = kept.all().remove(0);
        assert_eq!((said.name.as_str(), said.field_path.as_str()), ("web", "spec.containers{app}"));
        assert_eq!((said.kind, said.message.as_str()), (EventType::Normal, "Container started"));
    }
}
