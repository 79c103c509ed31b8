//! Disks that a node reaches over a network without any driver: iSCSI and Fibre Channel.

use std::fmt::Write;

use steersman_api::ArcStr;
use steersman_informer::projection;

/// The plugin for disks of iSCSI targets.
pub const ISCSI_PLUGIN: &str = "kubernetes.io/iscsi";
/// The plugin for disks in a Fibre Channel network.
pub const FIBRE_CHANNEL_PLUGIN: &str = "kubernetes.io/fc";

projection! {
    /// A disk of an iSCSI target, as the source of a volume.
    #[derive(Eq)]
    pub struct IscsiDisk {
        /// The address of the target, with its port.
        pub portal: ArcStr = 1 "targetPortal",
        /// The target's name.
        pub target: ArcStr = 2 "iqn",
        /// The disk's number at the target.
        pub lun: i32 = 3 "lun",
    }

    /// A disk in a Fibre Channel network, as the source of a volume.
    #[derive(Eq)]
    pub struct FibreChannelDisk {
        /// The names of the target's ports.
        pub targets: Vec<ArcStr> = 1 "targetWWNs",
        /// The disk's number at the target.
        pub lun: Option<i32> = 2 "lun",
        /// The disk's worldwide identifiers, instead of targets and number.
        pub identifiers: Vec<ArcStr> = 5 "wwids",
    }
}

impl IscsiDisk {
    /// What names the disk among those of its plugin, as upstream's `GetVolumeName`.
    pub fn handle(&self) -> ArcStr {
        format!("{}:{}:{}", self.portal, self.target, self.lun).into()
    }

    /// The disk's unique name, as nodes list it.
    pub fn unique_name(&self) -> ArcStr {
        format!("{ISCSI_PLUGIN}/{}", self.handle()).into()
    }
}

impl FibreChannelDisk {
    /// What names the disk among those of its plugin, as upstream's `GetVolumeName`. `None` if the source names no disk.
    pub fn handle(&self) -> Option<ArcStr> {
        match self.lun {
            Some(lun) if !self.targets.is_empty() => Some(format!("{}:{lun}", list(&self.targets)).into()),
            _ if !self.identifiers.is_empty() => Some(list(&self.identifiers).into()),
            _ => None,
        }
    }

    /// The disk's unique name, as nodes list it. `None` if the source names no disk.
    pub fn unique_name(&self) -> Option<ArcStr> {
        Some(format!("{FIBRE_CHANNEL_PLUGIN}/{}", self.handle()?).into())
    }
}

/// A list as Go prints it.
fn list(items: &[ArcStr]) -> String {
    let mut text = "[".to_owned();
    for (at, item) in items.iter().enumerate() {
        let space = if at == 0 { "" } else { " " };
        _ = write!(text, "{space}{item}");
    }
    text + "]"
}
