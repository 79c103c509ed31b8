//! The cached fields of CSIDrivers, in groups.

use steersman_informer::{kind, projection};

projection! {
    /// Whether the driver's volumes must be attached to a node before pods can use them there.
    pub struct Attaching {
        /// `Some(false)` if the volumes need not be attached.
        pub required: Option<bool> = 1 "attachRequired",
    }

    /// Whether the driver's volumes can be mounted with an SELinux label.
    pub struct SelinuxMount {
        /// Whether they can.
        pub supported: bool = 8 "seLinuxMount",
    }
}

impl Attaching {
    /// Whether the volumes must be attached. That is the default.
    pub fn is_required(&self) -> bool {
        self.required != Some(false)
    }
}

kind! {
    /// A CSI driver that runs in the cluster. The object's name is the driver's.
    pub struct CSIDriver("storage.k8s.io", "v1", "csidrivers") {
        attaching: Attaching = 2 "spec",
        selinux_mount: SelinuxMount = 2 "spec",
    }
}
