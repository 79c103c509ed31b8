//! The kinds of volumes, a file each.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
    KeyToPath, Pod, ProjectedVolumeSource, Secret, SecretVolumeSource, Volume,
};

use super::claims::{Persistent, Source};
use super::payload::{File, Payload, mode};
use super::tokens::TokenManager;
use crate::node_info::NodeInfo;
use crate::objects::{ObjectError, Objects};

pub(super) mod config_map;
pub(super) mod downward_api;
pub(super) mod empty_dir;
pub(super) mod host_path;
pub(super) mod local;
pub(super) mod projected;
pub(super) mod secret;

/// A volume of a kind that is supported.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    EmptyDir(EmptyDirVolumeSource),
    HostPath(HostPathVolumeSource),
    ConfigMap(ConfigMapVolumeSource),
    Secret(SecretVolumeSource),
    DownwardApi(DownwardAPIVolumeSource),
    Projected(ProjectedVolumeSource),
    /// What a claim of the pod is bound to.
    Persistent(Box<Persistent>),
}

/// The plugins whose volumes are folders in the pod's own, made for the pod and removed with it; by upstream's names.
pub(super) const PLUGINS: [&str; 5] = [
    empty_dir::PLUGIN,
    "kubernetes.io/configmap",
    "kubernetes.io/secret",
    "kubernetes.io/downward-api",
    "kubernetes.io/projected",
];

impl Kind {
    /// The kind of a volume that does not stand for a claim.
    ///
    /// # Errors
    /// It is not supported; in words that name volume and kind.
    pub(super) fn of(volume: &Volume) -> Result<Self, String> {
        let Volume { empty_dir, host_path, config_map, secret, downward_api, projected, .. } = volume;
        let kind = (empty_dir.clone().map(Self::EmptyDir))
            .or_else(|| host_path.clone().map(Self::HostPath))
            .or_else(|| config_map.clone().map(Self::ConfigMap))
            .or_else(|| secret.clone().map(Self::Secret))
            .or_else(|| downward_api.clone().map(Self::DownwardApi))
            .or_else(|| projected.clone().map(Self::Projected));
        match kind {
            None => Err(unsupported(volume, source_of(volume).as_deref().unwrap_or("unknown"))),
            Some(Self::EmptyDir(source)) => match source.medium.as_deref().unwrap_or_default() {
                "" | "Memory" => Ok(Self::EmptyDir(source)),
                medium => Err(unsupported(volume, &format!("emptyDir with medium {medium}"))),
            },
            Some(Self::Projected(source)) => match projected::unsupported_source(&source) {
                None => Ok(Self::Projected(source)),
                Some(part) => Err(unsupported(volume, &format!("projected with {part}"))),
            },
            Some(kind) => Ok(kind),
        }
    }

    /// The plugin's name, as metrics and folders have it.
    pub(super) fn plugin(&self) -> &'static str {
        match self {
            Self::EmptyDir(_) => PLUGINS[0],
            Self::ConfigMap(_) => PLUGINS[1],
            Self::Secret(_) => PLUGINS[2],
            Self::DownwardApi(_) => PLUGINS[3],
            Self::Projected(_) => PLUGINS[4],
            Self::HostPath(_) => host_path::PLUGIN,
            Self::Persistent(volume) => match volume.source {
                Source::HostPath(_) => host_path::PLUGIN,
                Source::Local(_) => local::PLUGIN,
            },
        }
    }

    /// The name by which events call the volume, where it has one beside that in the pod's spec.
    pub(super) fn own_name(&self) -> Option<&str> {
        match self {
            Self::Persistent(volume) => Some(&volume.name),
            _ => None,
        }
    }

    /// The group that the volume gives to the pod's processes, beside those that the pod names.
    pub(super) fn group(&self) -> Option<i64> {
        match self {
            Self::Persistent(volume) => volume.group,
            _ => None,
        }
    }

    /// Whether the files are held in memory, so that no disk ever has them.
    pub(super) fn in_memory(&self) -> bool {
        match self {
            Self::EmptyDir(source) => source.medium.as_deref() == Some("Memory"),
            Self::Secret(_) | Self::DownwardApi(_) | Self::Projected(_) => true,
            Self::HostPath(_) | Self::ConfigMap(_) | Self::Persistent(_) => false,
        }
    }

    /// The files that it shall have; `None` for kinds that the pod itself fills.
    ///
    /// # Errors
    /// In words, for the event.
    pub(super) async fn payload(&self, sources: &Sources<'_>) -> Result<Option<Payload>, String> {
        match self {
            Self::EmptyDir(_) | Self::HostPath(_) | Self::Persistent(_) => Ok(None),
            Self::ConfigMap(source) => config_map::payload(source, sources).await.map(Some),
            Self::Secret(source) => secret::payload(source, sources).await.map(Some),
            Self::DownwardApi(source) => downward_api::payload(source, sources).map(Some),
            Self::Projected(source) => projected::payload(source, sources).await.map(Some),
        }
    }
}

fn unsupported(volume: &Volume, kind: &str) -> String {
    format!("volume {:?} is of kind {kind}, which this node does not support", volume.name)
}

/// The field of a volume that says what it is.
fn source_of(volume: &Volume) -> Option<String> {
    let value = serde_json::to_value(volume).ok()?;
    value.as_object()?.keys().find(|key| *key != "name").cloned()
}

/// Where files come from, for one pod.
pub(super) struct Sources<'a> {
    pub(super) pod: &'a Pod,
    pub(super) objects: &'a dyn Objects,
    pub(super) tokens: &'a TokenManager,
    pub(super) node: &'a dyn NodeInfo,
}

impl Sources<'_> {
    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// An empty one in place of an optional one that is not there.
    async fn config_map(&self, name: &str, optional: bool) -> Result<Arc<ConfigMap>, String> {
        or_empty(self.objects.config_map(self.namespace(), name).await, optional)
    }

    async fn secret(&self, name: &str, optional: bool) -> Result<Arc<Secret>, String> {
        or_empty(self.objects.secret(self.namespace(), name).await, optional)
    }
}

fn or_empty<T: Default>(read: Result<Arc<T>, ObjectError>, optional: bool) -> Result<Arc<T>, String> {
    match read {
        Err(error) if error.is_not_found() && optional => Ok(Arc::default()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// The user that owns files which only the pod's processes may read: the one as whom all its containers run, if they say so.
pub(super) fn user_of(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let common = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let init = spec.init_containers.iter().flatten();
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| &container.security_context);
    let contexts = init.chain(&spec.containers).map(|container| &container.security_context).chain(ephemeral);
    let mut users = contexts.map(|own| own.as_ref().and_then(|own| own.run_as_user).or(common));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(u32::try_from(first).ok())?
}

/// The group that the pod's volumes belong to (`fsGroup`).
pub(super) fn group_of(pod: &Pod) -> Option<u32> {
    let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok()
}

/// The files of an object's keys: all by their own names, or those that `items` choose. `missing` says that a chosen key is
/// not there; nobody asks it if the source is optional.
fn files_of<'a>(
    entries: impl Iterator<Item = (&'a String, &'a [u8])>,
    items: Option<&[KeyToPath]>,
    default_mode: u32,
    missing: Option<impl Fn(&str) -> String>,
) -> Result<Payload, String> {
    let file = |data: &[u8], mode| File { data: data.to_vec(), mode, owner: None };
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(entries.map(|(key, data)| (key.clone(), file(data, default_mode))).collect());
    };
    let entries: std::collections::BTreeMap<&String, &[u8]> = entries.collect();
    let mut payload = Payload::new();
    for item in items {
        match (entries.get(&item.key), &missing) {
            (Some(data), _) => {
                let mode = item.mode.map_or(default_mode, mode);
                payload.insert(item.path.clone(), file(data, mode));
            }
            (None, None) => {}
            (None, Some(missing)) => return Err(missing(&item.key)),
        }
    }
    Ok(payload)
}
