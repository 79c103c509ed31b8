//! Owner references.

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};

use crate::wire::Writer;
use crate::{GroupVersion, Uid};

/// An entry of `metadata.ownerReferences`. The owner is in the object's namespace, or cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's group and version, such as `apps/v1`.
    pub api_version: ArcStr,
    /// The owner's kind, such as `ReplicaSet`.
    pub kind: ArcStr,
    /// The owner's name.
    pub name: ArcStr,
    /// The owner's uid. A later object of the same name has another uid, and is not this owner.
    pub uid: Uid,
    /// Whether this owner is the managing controller. At most one owner of an object is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits until this object is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// The reference that a controller puts on objects that it creates. Upstream's `NewControllerRef`.
    pub fn controller(api_version: &str, kind: &str, name: impl Into<ArcStr>, uid: Uid) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid,
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Encodes the reference as protobuf: `metav1.OwnerReference`.
    pub fn write(&self, message: &mut Writer) {
        let Self { api_version, kind, name, uid, controller, block_owner_deletion } = self;
        message.text(1, kind);
        message.text(3, name);
        message.text(4, &uid.to_string());
        message.text(5, api_version);
        for (number, value) in [(6, controller), (7, block_owner_deletion)] {
            value.iter().for_each(|value| message.bool(number, *value));
        }
    }

    /// The owner's API group, without the version.
    pub fn group(&self) -> &str {
        GroupVersion::split(&self.api_version).0
    }

    /// Whether this owner is the managing controller.
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }
}
