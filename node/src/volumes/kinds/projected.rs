//! `projected`: several sources in one folder, in memory.

use k8s_openapi::api::core::v1::{ProjectedVolumeSource, ServiceAccountTokenProjection, VolumeProjection};

use super::{Sources, config_map, downward_api, group_of, secret, user_of};
use crate::aggregate::aggregate;
use crate::volumes::payload::{File, Payload, default_mode};

/// A source of it that is not supported, by name.
pub(super) fn unsupported_source(volume: &ProjectedVolumeSource) -> Option<&'static str> {
    let mut sources = volume.sources.iter().flatten();
    sources.find_map(|source| match source {
        VolumeProjection { cluster_trust_bundle: Some(_), .. } => Some("clusterTrustBundle"),
        VolumeProjection { pod_certificate: Some(_), .. } => Some("podCertificate"),
        _ => None,
    })
}

/// Later sources win over earlier ones. All that is wrong is told at once.
pub(super) async fn payload(volume: &ProjectedVolumeSource, from: &Sources<'_>) -> Result<Payload, String> {
    let mode = default_mode(volume.default_mode)?;
    let (mut payload, mut faults) = (Payload::new(), Vec::new());
    for source in volume.sources.iter().flatten() {
        match part(source, mode, from).await {
            Ok(part) => payload.extend(part),
            Err(fault) => faults.push(fault),
        }
    }
    aggregate(faults).map_or(Ok(payload), Err)
}

async fn part(source: &VolumeProjection, mode: u32, from: &Sources<'_>) -> Result<Payload, String> {
    if let Some(source) = &source.secret {
        let optional = source.optional == Some(true);
        let object = from.secret(&source.name, optional).await?;
        return secret::files(&object, source.items.as_deref(), mode, optional);
    }
    if let Some(source) = &source.config_map {
        let optional = source.optional == Some(true);
        let object = from.config_map(&source.name, optional).await?;
        return config_map::files(&object, source.items.as_deref(), mode, optional);
    }
    if let Some(source) = &source.downward_api {
        return downward_api::files(source.items.as_deref(), mode, from);
    }
    if let Some(source) = &source.service_account_token {
        return token(source, mode, from).await;
    }
    Ok(Payload::new())
}

async fn token(
    source: &ServiceAccountTokenProjection,
    mode: u32,
    from: &Sources<'_>,
) -> Result<Payload, String> {
    let audience = source.audience.as_deref().unwrap_or_default();
    let token = from.tokens.token(from.pod, audience, source.expiration_seconds).await?;
    let owner = user_of(from.pod);
    // Its owner alone may read it; a group is let in when the volume is given to it.
    let mode = if owner.is_some() || group_of(from.pod).is_some() { 0o600 } else { mode };
    Ok(Payload::from([(source.path.clone(), File { data: token.into_bytes(), mode, owner })]))
}
