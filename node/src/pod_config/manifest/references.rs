//! What a static pod may not name: objects that only an API server has.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Volume, VolumeProjection};

/// The resource that a pod refers to, in upstream's words, if it does.
pub(super) fn api_reference(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if spec.service_account_name.as_deref().is_some_and(|name| !name.is_empty()) {
        return Some("serviceaccounts".to_owned());
    }
    if names_secrets(spec) {
        return Some("secrets".to_owned());
    }
    if names_config_maps(spec) {
        return Some("configmaps".to_owned());
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        return Some("resourceclaims".to_owned());
    }
    spec.volumes.iter().flatten().find_map(volume_reference).map(str::to_owned)
}

/// The variables' sources of all containers.
fn environments(
    spec: &PodSpec,
) -> impl Iterator<
    Item = (
        &Option<Vec<k8s_openapi::api::core::v1::EnvVar>>,
        &Option<Vec<k8s_openapi::api::core::v1::EnvFromSource>>,
    ),
> {
    let ordinary = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ordinary = ordinary.map(|container| (&container.env, &container.env_from));
    ordinary.chain(
        spec.ephemeral_containers.iter().flatten().map(|container| (&container.env, &container.env_from)),
    )
}

fn names_secrets(spec: &PodSpec) -> bool {
    spec.image_pull_secrets.as_ref().is_some_and(|secrets| !secrets.is_empty())
        || environments(spec).any(|(env, from)| {
            env.iter().flatten().any(|variable| {
                variable.value_from.as_ref().is_some_and(|from| from.secret_key_ref.is_some())
            }) || from.iter().flatten().any(|from| from.secret_ref.is_some())
        })
        || spec.volumes.iter().flatten().any(|volume| {
            volume.secret.is_some()
                || volume.azure_file.is_some()
                || volume.csi.as_ref().is_some_and(|csi| csi.node_publish_secret_ref.is_some())
                || volume.cephfs.as_ref().is_some_and(|fs| fs.secret_ref.is_some())
                || volume.cinder.as_ref().is_some_and(|disk| disk.secret_ref.is_some())
                || volume.flex_volume.as_ref().is_some_and(|flex| flex.secret_ref.is_some())
                || volume.rbd.as_ref().is_some_and(|rbd| rbd.secret_ref.is_some())
                || volume.iscsi.as_ref().is_some_and(|iscsi| iscsi.secret_ref.is_some())
                || volume.scale_io.is_some()
                || volume.storageos.as_ref().is_some_and(|storage| storage.secret_ref.is_some())
                || projections(volume).any(|source| source.secret.is_some())
        })
}

fn names_config_maps(spec: &PodSpec) -> bool {
    environments(spec).any(|(env, from)| {
        env.iter().flatten().any(|variable| {
            variable.value_from.as_ref().is_some_and(|from| from.config_map_key_ref.is_some())
        }) || from.iter().flatten().any(|from| from.config_map_ref.is_some())
    }) || spec.volumes.iter().flatten().any(|volume| {
        volume.config_map.is_some() || projections(volume).any(|source| source.config_map.is_some())
    })
}

fn projections(volume: &Volume) -> impl Iterator<Item = &VolumeProjection> {
    volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten())
}

/// What only whole volumes refer to; secrets and config maps are found before.
fn volume_reference(volume: &Volume) -> Option<&'static str> {
    if volume.csi.is_some() {
        return Some("csidrivers (via CSI volumes)");
    }
    if volume.glusterfs.is_some() {
        return Some("endpoints (via glusterFS volumes)");
    }
    if volume.persistent_volume_claim.is_some() {
        return Some("persistentvolumeclaims");
    }
    if volume.ephemeral.is_some() {
        return Some("persistentvolumeclaims (via ephemeral volumes)");
    }
    projections(volume).find_map(|source| {
        if source.service_account_token.is_some() {
            Some("serviceaccounts (via projected volumes)")
        } else if source.cluster_trust_bundle.is_some() {
            Some("clustertrustbundles")
        } else if source.pod_certificate.is_some() {
            Some("podcertificates")
        } else {
            None
        }
    })
}
