//! `configMap`: a file a key.

use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, KeyToPath};

use super::{Sources, files_of};
use crate::volumes::payload::{Payload, default_mode};

pub(super) async fn payload(source: &ConfigMapVolumeSource, from: &Sources<'_>) -> Result<Payload, String> {
    let optional = source.optional == Some(true);
    let config_map = from.config_map(&source.name, optional).await?;
    files(&config_map, source.items.as_deref(), default_mode(source.default_mode)?, optional)
}

/// The files of a config map; text wins over binary data of the same key.
pub(super) fn files(
    config_map: &ConfigMap,
    items: Option<&[KeyToPath]>,
    default_mode: u32,
    optional: bool,
) -> Result<Payload, String> {
    let binary = config_map.binary_data.iter().flatten().map(|(key, data)| (key, data.0.as_slice()));
    let text = config_map.data.iter().flatten().map(|(key, text)| (key, text.as_bytes()));
    let missing = |key: &str| format!("configmap references non-existent config key: {key}");
    files_of(binary.chain(text), items, default_mode, (!optional).then_some(missing))
}
