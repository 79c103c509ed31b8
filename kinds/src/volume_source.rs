//! Where the data of a PersistentVolume is.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::Deserialize;
use steersman_informer::wire::{Field, FieldValue, Message, WireError, ignore, nullable};
use steersman_informer::{Interned, decoded_as_message, projection};

use super::disk::{FIBRE_CHANNEL_PLUGIN, FibreChannelDisk, ISCSI_PLUGIN, IscsiDisk};

/// A type of volume source.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceKind {
    /// The member of the volume's spec that has the source, such as `hostPath`.
    pub member: &'static str,
    /// The field of `PersistentVolumeSource` that has the source in protobuf.
    number: u32,
    /// The name of the volume plugin inside Kubernetes, such as `kubernetes.io/host-path`. Empty for types whose plugin
    /// Kubernetes no longer has.
    pub plugin: &'static str,
    /// The CSI driver that serves the type instead of the plugin, as upstream's `csi-translation-lib` says.
    pub migrated_to: Option<&'static str>,
    handle: Handle,
}

/// What names the data in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    /// Controllers do not read it.
    Unread,
    /// A member with this number in protobuf.
    Member(u32, &'static str),
    /// The handle that a CSI driver knows.
    Csi,
    /// [`IscsiDisk::handle`].
    Iscsi,
    /// [`FibreChannelDisk::handle`].
    FibreChannel,
}

const fn source(
    number: u32,
    member: &'static str,
    plugin: &'static str,
    migrated_to: Option<&'static str>,
    handle: Handle,
) -> SourceKind {
    SourceKind { member, number, plugin, migrated_to, handle }
}

/// All types of volume sources, in the order of their numbers.
pub static SOURCES: &[SourceKind] = &[
    source(
        1,
        "gcePersistentDisk",
        "kubernetes.io/gce-pd",
        Some("pd.csi.storage.gke.io"),
        Handle::Member(1, "pdName"),
    ),
    source(
        2,
        "awsElasticBlockStore",
        "kubernetes.io/aws-ebs",
        Some("ebs.csi.aws.com"),
        Handle::Member(1, "volumeID"),
    ),
    source(3, "hostPath", "kubernetes.io/host-path", None, Handle::Member(1, "path")),
    source(4, "glusterfs", "", None, Handle::Unread),
    source(5, "nfs", "kubernetes.io/nfs", None, Handle::Member(2, "path")),
    source(6, "rbd", "", None, Handle::Unread),
    source(7, "iscsi", ISCSI_PLUGIN, None, Handle::Iscsi),
    source(
        8,
        "cinder",
        "kubernetes.io/cinder",
        Some("cinder.csi.openstack.org"),
        Handle::Member(1, "volumeID"),
    ),
    source(9, "cephfs", "", None, Handle::Unread),
    source(10, "fc", FIBRE_CHANNEL_PLUGIN, None, Handle::FibreChannel),
    source(11, "flocker", "", None, Handle::Unread),
    source(12, "flexVolume", "kubernetes.io/flexvolume", None, Handle::Unread),
    source(
        13,
        "azureFile",
        "kubernetes.io/azure-file",
        Some("file.csi.azure.com"),
        Handle::Member(2, "shareName"),
    ),
    source(
        14,
        "vsphereVolume",
        "kubernetes.io/vsphere-volume",
        Some("csi.vsphere.vmware.com"),
        Handle::Member(1, "volumePath"),
    ),
    source(15, "quobyte", "", None, Handle::Unread),
    source(
        16,
        "azureDisk",
        "kubernetes.io/azure-disk",
        Some("disk.csi.azure.com"),
        Handle::Member(2, "diskURI"),
    ),
    source(17, "photonPersistentDisk", "", None, Handle::Unread),
    source(
        18,
        "portworxVolume",
        "kubernetes.io/portworx-volume",
        Some("pxd.portworx.com"),
        Handle::Member(1, "volumeID"),
    ),
    source(19, "scaleIO", "", None, Handle::Unread),
    source(20, "local", "kubernetes.io/local-volume", None, Handle::Member(1, "path")),
    source(21, "storageos", "", None, Handle::Unread),
    source(22, "csi", CSI_PLUGIN, None, Handle::Csi),
];

/// The plugin of volumes that a CSI driver serves.
pub const CSI_PLUGIN: &str = "kubernetes.io/csi";

/// The CSI driver that serves the volumes of a plugin inside Kubernetes, if there is one. Upstream migrates all of these
/// since 1.33.
pub fn migrated_driver(plugin: &str) -> Option<&'static str> {
    SOURCES.iter().find(|source| source.plugin == plugin && !plugin.is_empty())?.migrated_to
}

/// Where the data of a PersistentVolume is: the group of a volume's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeSource {
    /// The type. `None` if the volume has a type that this version does not know.
    pub kind: Option<&'static SourceKind>,
    /// What names the data among the sources of that type: a path, a volume's ID or handle, a share's name, a disk's address.
    /// Empty for types of which controllers do not read it.
    pub handle: ArcStr,
    /// The CSI driver that the source names. Empty for all types but `csi`.
    pub driver: Interned,
    /// Whether the volume is attached for reading only. Read for the type `csi` alone.
    pub read_only: bool,
}

projection! {
    /// The source of a volume that a CSI driver serves.
    struct CsiSource {
        pub driver: Interned = 1 "driver",
        pub handle: ArcStr = 2 "volumeHandle",
        pub read_only: bool = 3 "readOnly",
    }

    /// A source of which nothing is read.
    struct Anything {
        pub nothing: Option<bool> = 0 "",
    }
}

fn message<M: FieldValue>(field: Field<'_>) -> Result<M, WireError> {
    let mut message = M::default();
    message.merge(field)?;
    Ok(message)
}

impl VolumeSource {
    /// The plugin inside Kubernetes for this type of source. Empty if there is none.
    pub fn plugin(&self) -> &'static str {
        self.kind.map_or("", |kind| kind.plugin)
    }

    /// The CSI driver that serves the volume: the driver that the source names, or the one to which its plugin was migrated.
    pub fn csi_driver(&self) -> Option<&str> {
        match self.kind?.migrated_to {
            Some(driver) => Some(driver),
            None => (!self.driver.is_empty()).then_some(&*self.driver),
        }
    }

    fn set_csi(&mut self, source: CsiSource) {
        (self.driver, self.handle, self.read_only) = (source.driver, source.handle, source.read_only);
    }

    fn merge_source(&mut self, handle: Handle, field: Field<'_>) -> Result<(), WireError> {
        match handle {
            Handle::Unread => {}
            Handle::Member(number, _) => {
                let mut source = field.message()?;
                while let Some(field) = source.field()? {
                    if field.number == number {
                        self.handle = field.text()?.into();
                    }
                }
            }
            Handle::Csi => self.set_csi(message(field)?),
            Handle::Iscsi => self.handle = message::<IscsiDisk>(field)?.handle(),
            Handle::FibreChannel => {
                self.handle = message::<FibreChannelDisk>(field)?.handle().unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Reads the source of this type. Returns whether there is one.
    fn read_source<'de, D: Deserializer<'de>>(&mut self, handle: Handle, value: D) -> Result<bool, D::Error> {
        match handle {
            Handle::Unread => Ok(nullable::<Option<Anything>, D>(value)?.is_some()),
            Handle::Member(_, member) => {
                let source = Option::<serde_json::Value>::deserialize(value)?;
                if let Some(source) = &source {
                    self.handle = source[member].as_str().unwrap_or_default().into();
                }
                Ok(source.is_some())
            }
            Handle::Csi => {
                let source = nullable::<Option<CsiSource>, D>(value)?;
                Ok(source.map(|source| self.set_csi(source)).is_some())
            }
            Handle::Iscsi => {
                let disk = nullable::<Option<IscsiDisk>, D>(value)?;
                Ok(disk.map(|disk| self.handle = disk.handle()).is_some())
            }
            Handle::FibreChannel => {
                let disk = nullable::<Option<FibreChannelDisk>, D>(value)?;
                Ok(disk.map(|disk| self.handle = disk.handle().unwrap_or_default()).is_some())
            }
        }
    }
}

impl Message for VolumeSource {
    fn merge_field(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if field.number != 2 {
            return Ok(());
        }
        let mut sources = field.message()?;
        while let Some(field) = sources.field()? {
            let Some(kind) = SOURCES.iter().find(|kind| kind.number == field.number) else { continue };
            self.kind = Some(kind);
            self.merge_source(kind.handle, field)?;
        }
        Ok(())
    }

    fn has_member(&self, name: &str) -> bool {
        SOURCES.iter().any(|kind| kind.member == name)
    }

    fn merge_member<'de, D: Deserializer<'de>>(&mut self, name: &str, value: D) -> Result<(), D::Error> {
        let Some(kind) = SOURCES.iter().find(|kind| kind.member == name) else {
            return ignore(value);
        };
        if self.read_source(kind.handle, value)? {
            self.kind = Some(kind);
        }
        Ok(())
    }
}

impl FieldValue for VolumeSource {
    decoded_as_message!(2);

    fn heap_bytes(&self) -> usize {
        self.handle.heap_bytes() + self.driver.heap_bytes()
    }
}
