//! Which config maps and secrets a pod's spec names.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Pod, Volume};

/// The names of what a pod refers to, all in the pod's namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Of environments and volumes.
    pub config_maps: BTreeSet<String>,
    /// Of image pulls, environments and volumes, those of kinds that the node itself does not mount among them.
    pub secrets: BTreeSet<String>,
}

impl References {
    /// Those of a pod.
    pub fn of(pod: &Pod) -> Self {
        let mut found = Self::default();
        let Some(spec) = &pod.spec else { return found };
        for reference in spec.image_pull_secrets.iter().flatten() {
            found.secret(&reference.name);
        }
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            found.environment(container.env.as_deref(), container.env_from.as_deref());
        }
        for container in spec.ephemeral_containers.iter().flatten() {
            found.environment(container.env.as_deref(), container.env_from.as_deref());
        }
        for volume in spec.volumes.iter().flatten() {
            found.volume(volume);
        }
        found
    }

    fn environment(&mut self, env: Option<&[EnvVar]>, from: Option<&[EnvFromSource]>) {
        for source in from.into_iter().flatten() {
            source.config_map_ref.iter().for_each(|reference| self.config_map(&reference.name));
            source.secret_ref.iter().for_each(|reference| self.secret(&reference.name));
        }
        for source in env.into_iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            source.config_map_key_ref.iter().for_each(|key| self.config_map(&key.name));
            source.secret_key_ref.iter().for_each(|key| self.secret(&key.name));
        }
    }

    fn volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.config_map(&source.name);
        }
        if let Some(name) = volume.secret.as_ref().and_then(|source| source.secret_name.as_deref()) {
            self.secret(name);
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            source.config_map.iter().for_each(|source| self.config_map(&source.name));
            source.secret.iter().for_each(|source| self.secret(&source.name));
        }
        let local = [
            volume.cephfs.as_ref().and_then(|fs| fs.secret_ref.as_ref()),
            volume.cinder.as_ref().and_then(|disk| disk.secret_ref.as_ref()),
            volume.flex_volume.as_ref().and_then(|flex| flex.secret_ref.as_ref()),
            volume.rbd.as_ref().and_then(|rbd| rbd.secret_ref.as_ref()),
            volume.scale_io.as_ref().map(|scale| &scale.secret_ref),
            volume.iscsi.as_ref().and_then(|iscsi| iscsi.secret_ref.as_ref()),
            volume.storageos.as_ref().and_then(|storage| storage.secret_ref.as_ref()),
            volume.csi.as_ref().and_then(|csi| csi.node_publish_secret_ref.as_ref()),
        ];
        for reference in local.into_iter().flatten() {
            self.secret(&reference.name);
        }
        if let Some(source) = &volume.azure_file {
            self.secret(&source.secret_name);
        }
    }

    fn config_map(&mut self, name: &str) {
        if !name.is_empty() {
            self.config_maps.insert(name.to_owned());
        }
    }

    fn secret(&mut self, name: &str) {
        if !name.is_empty() {
            self.secrets.insert(name.to_owned());
        }
    }
}
