//! The cached fields of pods and of volumes that tell with which SELinux labels pods use volumes.

use std::fmt::Write as _;

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

projection! {
    /// The volumes of a pod's spec, and the containers that mount them.
    pub struct SelinuxMounts {
        /// The volumes.
        pub volumes: MountableVolumes = 1 "volumes",
        /// The containers.
        pub containers: Vec<MountingContainer> = 2 "containers",
        /// The init containers.
        pub init: Vec<MountingContainer> = 20 "initContainers",
        /// The ephemeral containers.
        pub ephemeral: EphemeralContainers = 34 "ephemeralContainers",
        /// The security context of the pod.
        pub security: PodSecurity = 14 "securityContext",
    }

    /// The security context of a pod.
    pub struct PodSecurity {
        /// The label of containers without one of their own.
        pub options: Option<SelinuxOptions> = 1 "seLinuxOptions",
        /// `Recursive` or `MountOption`. `None`: `MountOption`.
        pub change_policy: Option<Interned> = 13 "seLinuxChangePolicy",
    }

    /// A label, as far as the user set its parts.
    #[derive(Eq)]
    pub struct SelinuxOptions {
        /// The user.
        pub user: Interned = 1 "user",
        /// The role.
        pub role: Interned = 2 "role",
        /// The type.
        pub kind: Interned = 3 "type",
        /// The level.
        pub level: Interned = 4 "level",
    }

    /// A container that mounts volumes.
    pub struct MountingContainer {
        /// The mounts.
        pub mounts: Vec<VolumeMount> = 9 "volumeMounts",
        /// The security context.
        pub security: ContainerSecurity = 15 "securityContext",
    }

    /// A mount of a container.
    pub struct VolumeMount {
        /// The volume's name in the pod.
        pub volume: ArcStr = 1 "name",
    }

    /// The security context of a container.
    pub struct ContainerSecurity {
        /// The container's label. `None`: the pod's.
        pub options: Option<SelinuxOptions> = 3 "seLinuxOptions",
    }

    /// An ephemeral container. In protobuf its fields are in a message of their own, and in JSON among its members. No container
    /// has fields with numbers from 1000 or members that begin with a dash: these fill the gaps of the other encoding.
    struct EphemeralContainer {
        pub common: MountingContainer = 1 "-common",
        pub mounts: Vec<VolumeMount> = 1009 "volumeMounts",
        pub security: ContainerSecurity = 1015 "securityContext",
    }

    /// A volume of a pod, as [`EphemeralContainer`] with its source.
    struct Volume {
        pub name: ArcStr = 1 "name",
        pub source: Source = 2 "-source",
        pub claim: Option<ClaimSource> = 1010 "persistentVolumeClaim",
        pub ephemeral: Option<EphemeralSource> = 1029 "ephemeral",
        pub iscsi: Option<IscsiTarget> = 1008 "iscsi",
        pub fc: Option<FcTarget> = 1017 "fc",
    }

    /// The source of a pod's volume in protobuf.
    struct Source {
        pub claim: Option<ClaimSource> = 10 "-claim",
        pub ephemeral: Option<EphemeralSource> = 29 "-ephemeral",
        pub iscsi: Option<IscsiTarget> = 8 "-iscsi",
        pub fc: Option<FcTarget> = 17 "-fc",
    }

    /// A claim as the source of a volume.
    struct ClaimSource {
        pub name: ArcStr = 1 "claimName",
    }

    /// The template of a claim as the source of a volume. None of its fields is kept.
    struct EphemeralSource {
        pub nothing: Option<bool> = 0 "",
    }

    /// A disk that a node reaches by iSCSI.
    pub struct IscsiTarget {
        /// The address of the target.
        pub portal: ArcStr = 1 "targetPortal",
        /// The target's name.
        pub iqn: ArcStr = 2 "iqn",
        /// The disk's number at the target.
        pub lun: i32 = 3 "lun",
    }

    /// A disk that a node reaches by Fibre Channel.
    pub struct FcTarget {
        /// The names of the targets.
        pub wwns: Vec<ArcStr> = 1 "targetWWNs",
        /// The disk's number at the targets.
        pub lun: Option<i32> = 2 "lun",
        /// The names of the disk, if it has no number.
        pub wwids: Vec<ArcStr> = 5 "wwids",
    }

    /// The disk of a PersistentVolume's spec, if a plugin inside Kubernetes mounts it. In protobuf it is in a message of its own,
    /// and in JSON among the spec's members: the numbers and names that no spec has fill the gaps of the
    /// other encoding. [`VolumeDisk::name`] reads either.
    pub struct VolumeDisk {
        /// The disk in protobuf.
        pub source: DiskSource = 2 "-source",
        /// A disk in JSON.
        pub iscsi: Option<IscsiTarget> = 1007 "iscsi",
        /// A disk in JSON.
        pub fc: Option<FcTarget> = 1010 "fc",
    }

    /// The source of a PersistentVolume in protobuf.
    pub struct DiskSource {
        /// A disk that a node reaches by iSCSI.
        pub iscsi: Option<IscsiTarget> = 7 "-iscsi",
        /// A disk that a node reaches by Fibre Channel.
        pub fc: Option<FcTarget> = 10 "-fc",
    }
}

/// The ephemeral containers of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EphemeralContainers(pub Vec<MountingContainer>);

/// A volume of a pod that containers may mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountableVolume {
    /// The volume's name in the pod.
    pub name: ArcStr,
    /// Where its data is.
    pub source: MountSource,
}

/// Where the data of a pod's volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// The claim of this name.
    Claim(ArcStr),
    /// The claim that the ephemeral volume controller makes for the volume.
    Ephemeral,
    /// The disk of this unique name, which pods can share.
    Disk(ArcStr),
    /// Elsewhere, and no other pod mounts it with a label.
    Other,
}

/// The volumes of a pod, in the order of its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountableVolumes(pub Vec<MountableVolume>);

impl SelinuxMounts {
    /// All containers that may mount volumes.
    pub fn all_containers(&self) -> impl Iterator<Item = &MountingContainer> {
        self.init.iter().chain(&self.containers).chain(&self.ephemeral.0)
    }
}

impl VolumeDisk {
    /// The disk's unique name. `None` if the volume has another type.
    pub fn name(&self) -> Option<ArcStr> {
        let iscsi = self.iscsi.as_ref().or(self.source.iscsi.as_ref());
        let fc = self.fc.as_ref().or(self.source.fc.as_ref());
        iscsi.map(IscsiTarget::unique_name).or_else(|| fc?.unique_name())
    }
}

impl IscsiTarget {
    /// Upstream: `GetVolumeName` of the iSCSI plugin.
    fn unique_name(&self) -> ArcStr {
        format!("kubernetes.io/iscsi/{}:{}:{}", self.portal, self.iqn, self.lun).into()
    }
}

impl FcTarget {
    /// Upstream: `GetVolumeName` of the Fibre Channel plugin. `None` if the target names no disk.
    fn unique_name(&self) -> Option<ArcStr> {
        let list = |names: &[ArcStr]| {
            let names: Vec<&str> = names.iter().map(ArcStr::as_str).collect();
            format!("kubernetes.io/fc/[{}]", names.join(" "))
        };
        match self.lun {
            Some(lun) if !self.wwns.is_empty() => {
                let mut name = list(&self.wwns);
                _ = write!(name, ":{lun}");
                Some(name.into())
            }
            _ if !self.wwids.is_empty() => Some(list(&self.wwids).into()),
            _ => None,
        }
    }
}

impl From<Volume> for MountableVolume {
    fn from(volume: Volume) -> Self {
        let Volume { name, source: nested, claim, ephemeral, iscsi, fc } = volume;
        let source = if let Some(claim) = claim.or(nested.claim) {
            MountSource::Claim(claim.name)
        } else if ephemeral.or(nested.ephemeral).is_some() {
            MountSource::Ephemeral
        } else if let Some(target) = iscsi.or(nested.iscsi) {
            MountSource::Disk(target.unique_name())
        } else {
            let disk = fc.or(nested.fc).and_then(|target| target.unique_name());
            disk.map_or(MountSource::Other, MountSource::Disk)
        };
        Self { name, source }
    }
}

impl FieldValue for MountableVolumes {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut volume = Volume::default();
        volume.merge(field)?;
        self.0.push(volume.into());
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let volumes = Vec::<Volume>::from_json(deserializer)?;
        Ok(Self(volumes.into_iter().map(Into::into).collect()))
    }
}

impl From<EphemeralContainer> for MountingContainer {
    fn from(container: EphemeralContainer) -> Self {
        let EphemeralContainer { mut common, mounts, security } = container;
        common.mounts.extend(mounts);
        common.security.options = common.security.options.or(security.options);
        common
    }
}

impl FieldValue for EphemeralContainers {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut container = EphemeralContainer::default();
        container.merge(field)?;
        self.0.push(container.into());
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let containers = Vec::<EphemeralContainer>::from_json(deserializer)?;
        Ok(Self(containers.into_iter().map(Into::into).collect()))
    }
}
