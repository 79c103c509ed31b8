//! The folders that the node keeps for its pods, named as the kubelet names them.

use std::path::{Path, PathBuf};

use steersman_api::Uid;

/// `--root-dir`, by default `/var/lib/kubelet`, and what lies where in it. Makes nothing itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootDir(PathBuf);

impl RootDir {
    /// That folder, an absolute path.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `pods`: a folder for each pod, named by its uid.
    pub fn pods(&self) -> PathBuf {
        self.0.join("pods")
    }

    /// `pods/<uid>`.
    pub fn pod(&self, pod: &Uid) -> PathBuf {
        self.pods().join(pod.to_string())
    }

    /// `pods/<uid>/volumes`: a folder for each plugin, and in it one for each volume.
    pub fn pod_volumes(&self, pod: &Uid) -> PathBuf {
        self.pod(pod).join("volumes")
    }

    /// `pods/<uid>/volumes/<plugin with ~ for />/<volume>`; a plugin's name is for instance `kubernetes.io/empty-dir`.
    pub fn pod_volume(&self, pod: &Uid, plugin: &str, volume: &str) -> PathBuf {
        self.pod_volumes(pod).join(plugin.replace('/', "~")).join(volume)
    }

    /// `pods/<uid>/volumeDevices`: a folder for each plugin, and in it the pod's block devices. The kubelet's alone.
    pub fn pod_devices(&self, pod: &Uid) -> PathBuf {
        self.pod(pod).join("volumeDevices")
    }

    /// `pods/<uid>/plugins`: what plugins note of the pod's volumes.
    pub fn pod_plugins(&self, pod: &Uid) -> PathBuf {
        self.pod(pod).join("plugins")
    }

    /// `pods/<uid>/plugins/<plugin>/<volume>`: what a plugin notes of a volume beside it.
    pub fn pod_plugin(&self, pod: &Uid, plugin: &str, volume: &str) -> PathBuf {
        self.pod_plugins(pod).join(plugin.replace('/', "~")).join(volume)
    }

    /// `pods/<uid>/volume-subpaths`: what is mounted of volumes' sub-paths.
    pub fn pod_sub_paths(&self, pod: &Uid) -> PathBuf {
        self.pod(pod).join("volume-subpaths")
    }

    /// `pods/<uid>/containers/<name>`: termination messages.
    pub fn pod_container(&self, pod: &Uid, container: &str) -> PathBuf {
        self.pod(pod).join("containers").join(container)
    }

    /// `pods/<uid>/etc-hosts`: the file that the pod's containers see as `/etc/hosts`.
    pub fn pod_etc_hosts(&self, pod: &Uid) -> PathBuf {
        self.pod(pod).join("etc-hosts")
    }
}
