//! A kind: a message that stands on its own.

use super::message::{Message, Type};

/// A built-in kind in one group version.
#[derive(Debug)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    /// Such as `v1`.
    pub version: &'static str,
    /// Such as `Pod`.
    pub name: &'static str,
    /// What its objects consist of, apart from `apiVersion` and `kind`.
    pub message: &'static Message,
}

impl Kind {
    /// As objects carry it: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// What a list of objects consists of: `core.v1.Pod` for `PodList`. None if this kind is no list of one kind.
    pub fn item(&self) -> Option<&'static Message> {
        let items = self.name.ends_with("List").then(|| self.message.field("items"))??;
        match items.ty {
            Type::Message(message) => Some(message),
            _ => None,
        }
    }
}
