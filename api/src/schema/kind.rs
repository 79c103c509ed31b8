//! Kinds: messages that are whole objects.

use super::message::{Message, Type};

/// A built-in kind in one group version.
#[derive(Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The kind's name, such as `Pod`.
    pub name: &'static str,
    /// The fields of its objects, except `apiVersion` and `kind`.
    pub message: &'static Message,
}

impl Kind {
    /// The `apiVersion` of its objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the message of a list's items: `core.v1.Pod` for `PodList`. `None` if the kind is not a list of one
    /// kind.
    pub fn item(&self) -> Option<&'static Message> {
        let items = self.name.ends_with("List").then(|| self.message.field("items"))??;
        match items.ty {
            Type::Message(message) => Some(message),
            _ => None,
        }
    }
}
