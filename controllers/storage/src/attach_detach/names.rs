//! The names of volumes and of VolumeAttachments.

use std::fmt::{self, Write};

use ring::digest::{SHA256, digest};
use steersman_api::ArcStr;
use steersman_kinds::volume_source::CSI_PLUGIN;

/// What separates a driver from a volume's handle in the volume's unique name.
const SEPARATOR: char = '^';

/// The unique name of a volume that a CSI driver serves: `kubernetes.io/csi/<driver>^<handle>`, as nodes list it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct VolumeName(ArcStr);

impl VolumeName {
    /// The name of the volume with this handle. `None` if the driver or the handle is missing, or if the driver has a name
    /// that no driver can have.
    pub(super) fn new(driver: &str, handle: &str) -> Option<Self> {
        Self::parse(&format!("{CSI_PLUGIN}/{driver}{SEPARATOR}{handle}"))
    }

    /// The volume that a node lists under this name. `None` if no CSI driver serves it.
    pub(super) fn parse(unique: &str) -> Option<Self> {
        let name = unique.strip_prefix(CSI_PLUGIN)?.strip_prefix('/')?;
        let (driver, handle) = name.split_once(SEPARATOR)?;
        (!driver.is_empty() && !handle.is_empty()).then(|| Self(unique.into()))
    }

    /// The name as nodes list it.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The CSI driver.
    pub(super) fn driver(&self) -> &str {
        self.parts().0
    }

    /// The volume's name at the driver.
    pub(super) fn handle(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        let name = &self.0[CSI_PLUGIN.len() + 1..];
        name.split_once(SEPARATOR).expect("a volume's name must have a driver and a handle")
    }

    /// The plugin's name in metrics.
    pub(super) fn plugin(&self) -> String {
        plugin(self.driver())
    }

    /// The name of the VolumeAttachment that attaches the volume to a node.
    pub(super) fn attachment(&self, node: &str) -> ArcStr {
        let text = [self.handle(), self.driver(), node].concat();
        let mut name = "csi-".to_owned();
        for byte in digest(&SHA256, text.as_bytes()).as_ref() {
            _ = write!(name, "{byte:02x}");
        }
        name.into()
    }
}

/// The name in metrics of the plugin of a driver's volumes.
pub(super) fn plugin(driver: &str) -> String {
    format!("{CSI_PLUGIN}:{driver}")
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
