//! The cached fields of nodes that tell which volumes are attached to them.

use steersman_api::ArcStr;
use steersman_informer::projection;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

use super::annotation;

/// The annotation by which a kubelet leaves it to the attach-detach controller to attach volumes to its node. Its value has
/// no meaning.
pub const CONTROLLER_MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

projection! {
    /// The volumes that are attached to a node, and those that the node uses.
    #[derive(Eq)]
    pub struct NodeVolumes {
        /// The unique names of the volumes that are mounted, or that the kubelet is about to mount. The kubelet writes them.
        pub in_use: Vec<ArcStr> = 9 "volumesInUse",
        /// The volumes that the kubelet may mount. The attach-detach controller writes them.
        pub attached: Vec<AttachedVolume> = 10 "volumesAttached",
    }

    /// A volume that is attached to a node.
    #[derive(Eq)]
    pub struct AttachedVolume {
        /// The volume's unique name, such as `kubernetes.io/csi/driver^handle`.
        pub name: ArcStr = 1 "name",
        /// The path of the volume's device. Empty for volumes of CSI drivers.
        pub device_path: ArcStr = 2 "devicePath",
    }

    /// Who attaches volumes to a node.
    pub struct Attaching {
        /// Whether the attach-detach controller does.
        pub managed: ManagedAttach = 12 "annotations",
    }
}

/// Whether a node has the annotation [`CONTROLLER_MANAGED_ATTACH`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagedAttach(pub bool);

impl FieldValue for ManagedAttach {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0 |= annotation::entry(field, CONTROLLER_MANAGED_ATTACH)?.is_some();
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, CONTROLLER_MANAGED_ATTACH, |_| Self(true))
    }
}
