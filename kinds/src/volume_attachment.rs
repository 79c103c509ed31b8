//! The cached fields of VolumeAttachments, in groups.

use steersman_api::ArcStr;
use steersman_informer::{Interned, kind, projection};

projection! {
    /// The attachment that is asked for.
    pub struct AttachmentSpec {
        /// The CSI driver that must attach the volume.
        pub attacher: Interned = 1 "attacher",
        /// The volume.
        pub source: AttachmentSource = 2 "source",
        /// The node to which the volume must be attached.
        pub node: Interned = 3 "nodeName",
    }

    /// The volume that must be attached.
    pub struct AttachmentSource {
        /// The name of the PersistentVolume. Empty if the attachment is of a volume that a pod spells out itself.
        pub volume: ArcStr = 1 "persistentVolumeName",
    }

    /// What the external attacher has done.
    pub struct AttachmentStatus {
        /// Whether the volume is attached.
        pub attached: bool = 1 "attached",
        /// Why the last attempt to attach the volume failed.
        pub attach_error: Option<AttachmentError> = 3 "attachError",
        /// Why the last attempt to detach the volume failed.
        pub detach_error: Option<AttachmentError> = 4 "detachError",
    }

    /// The error of an attempt to attach or to detach a volume.
    #[derive(Eq)]
    pub struct AttachmentError {
        /// The driver's message.
        pub message: ArcStr = 2 "message",
    }
}

kind! {
    /// A request to attach a volume to a node. An external attacher serves it.
    pub struct VolumeAttachment("storage.k8s.io", "v1", "volumeattachments") {
        spec: AttachmentSpec = 2 "spec",
        status: AttachmentStatus = 3 "status",
    }
}
