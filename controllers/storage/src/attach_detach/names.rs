//! The names of volumes and of VolumeAttachments.

use std::fmt::{self, Write};

use ring::digest::{SHA256, digest};
use steersman_api::ArcStr;
use steersman_kinds::disk::{FIBRE_CHANNEL_PLUGIN, ISCSI_PLUGIN};
use steersman_kinds::volume_source::CSI_PLUGIN;

/// What separates a driver from a volume's handle in the volume's unique name.
const SEPARATOR: char = '^';
/// The plugins of disks that nodes reach by themselves.
const DISK_PLUGINS: [&str; 2] = [ISCSI_PLUGIN, FIBRE_CHANNEL_PLUGIN];

/// The unique name of a volume as nodes list it: `kubernetes.io/csi/<driver>^<handle>` for one that a CSI driver serves, and
/// `kubernetes.io/iscsi/<handle>` or `kubernetes.io/fc/<handle>` for a disk that each node reaches by itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct VolumeName(ArcStr);

impl VolumeName {
    /// The name of the volume with this handle. `None` if the driver or the handle is missing, or if the driver has a name
    /// that no driver can have.
    pub(super) fn new(driver: &str, handle: &str) -> Option<Self> {
        Self::parse(&format!("{CSI_PLUGIN}/{driver}{SEPARATOR}{handle}"))
    }

    /// The volume that a node lists under this name. `None` if the controller does not attach such volumes.
    pub(super) fn parse(unique: &str) -> Option<Self> {
        let of = |plugin: &str| unique.strip_prefix(plugin)?.strip_prefix('/');
        let is_valid = match of(CSI_PLUGIN) {
            Some(name) => name
                .split_once(SEPARATOR)
                .is_some_and(|(driver, handle)| !driver.is_empty() && !handle.is_empty()),
            None => DISK_PLUGINS.iter().any(|plugin| of(plugin).is_some_and(|handle| !handle.is_empty())),
        };
        is_valid.then(|| Self(unique.into()))
    }

    /// The name as nodes list it.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The CSI driver that serves the volume, and the volume's name at the driver. `None` for a disk that nodes reach by
    /// themselves: that it is attached says only the node's list, and it has no VolumeAttachment.
    pub(super) fn csi(&self) -> Option<(&str, &str)> {
        let name = self.0.strip_prefix(CSI_PLUGIN)?.strip_prefix('/')?;
        Some(name.split_once(SEPARATOR).expect("a volume's name must have a driver and a handle"))
    }

    /// The CSI driver that serves the volume.
    pub(super) fn driver(&self) -> Option<&str> {
        self.csi().map(|(driver, _)| driver)
    }

    /// Whether no CSI driver serves the volume.
    pub(super) fn is_disk(&self) -> bool {
        self.csi().is_none()
    }

    /// The plugin's name in metrics.
    pub(super) fn plugin(&self) -> String {
        match self.driver() {
            Some(driver) => plugin(driver),
            None => {
                let mut plugins = DISK_PLUGINS.into_iter();
                plugins.find(|plugin| self.0.starts_with(plugin)).unwrap_or_default().to_owned()
            }
        }
    }

    /// The name of the VolumeAttachment that attaches the volume to a node. `None` for a disk.
    pub(super) fn attachment(&self, node: &str) -> Option<ArcStr> {
        let (driver, handle) = self.csi()?;
        let text = [handle, driver, node].concat();
        let mut name = "csi-".to_owned();
        for byte in digest(&SHA256, text.as_bytes()).as_ref() {
            _ = write!(name, "{byte:02x}");
        }
        Some(name.into())
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
