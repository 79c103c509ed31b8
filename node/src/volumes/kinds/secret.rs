//! `secret`: a file a key, in memory.

use k8s_openapi::api::core::v1::{KeyToPath, Secret, SecretVolumeSource};

use super::{Sources, files_of};
use crate::volumes::payload::{Payload, default_mode};

pub(super) async fn payload(source: &SecretVolumeSource, from: &Sources<'_>) -> Result<Payload, String> {
    let optional = source.optional == Some(true);
    let secret = from.secret(source.secret_name.as_deref().unwrap_or_default(), optional).await?;
    files(&secret, source.items.as_deref(), default_mode(source.default_mode)?, optional)
}

/// The files of a secret.
pub(super) fn files(
    secret: &Secret,
    items: Option<&[KeyToPath]>,
    default_mode: u32,
    optional: bool,
) -> Result<Payload, String> {
    let entries = secret.data.iter().flatten().map(|(key, data)| (key, data.0.as_slice()));
    let missing = |key: &str| format!("references non-existent secret key: {key}");
    files_of(entries, items, default_mode, (!optional).then_some(missing))
}
