//! A persistent volume, as far as the node needs it. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, LocalVolumeSource, Node, NodeSelectorTerm, PersistentVolume, PersistentVolumeSpec,
};

use crate::admission::predicates::matches_any_term;
use crate::volumes::refusal::{Refusal, Step};

/// Names a supplemental group for the pods that mount the volume.
const GROUP_ANNOTATION: &str = "pv.beta.kubernetes.io/gid";
/// Mount options, separated by commas. Goes before those of the spec.
const MOUNT_OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";

/// A persistent volume that a pod may mount.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::volumes) struct Persistent {
    /// The volume's name.
    pub(in crate::volumes) name: String,
    /// Where the data is.
    pub(in crate::volumes) source: Source,
    /// Whether the pod's reference allows reading only.
    pub(in crate::volumes) read_only: bool,
    /// What to mount it with.
    pub(in crate::volumes) mount_options: BTreeSet<String>,
    /// Whether `ReadWriteOncePod` is its only access mode.
    pub(in crate::volumes) one_pod_only: bool,
    /// A group for the processes of pods that mount it.
    pub(in crate::volumes) group: Option<i64>,
    /// The terms of which one must select the node. `None` if every node may mount it.
    node_terms: Option<Vec<NodeSelectorTerm>>,
}

/// A source of a persistent volume that this node supports.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::volumes) enum Source {
    /// A file or folder of whichever node the pod is on.
    HostPath(HostPathVolumeSource),
    /// A folder of one node.
    Local(LocalVolumeSource),
}

impl Persistent {
    /// What the node needs of `volume`.
    ///
    /// # Errors
    /// The field that names a source which this node does not support.
    pub(super) fn of(volume: &PersistentVolume, read_only: bool) -> Result<Self, String> {
        let (none, default) = (PersistentVolumeSpec::default(), Vec::new());
        let spec = volume.spec.as_ref().unwrap_or(&none);
        let source = match (&spec.host_path, &spec.local) {
            (Some(source), _) => Source::HostPath(source.clone()),
            (None, Some(source)) => Source::Local(source.clone()),
            (None, None) => return Err(source_of(spec).unwrap_or_else(|| "unknown".to_owned())),
        };
        let annotation = |name: &str| volume.metadata.annotations.as_ref()?.get(name).map(String::as_str);
        let options: Vec<&str> = match annotation(MOUNT_OPTIONS_ANNOTATION) {
            Some(options) => options.split(',').collect(),
            None => spec.mount_options.as_ref().unwrap_or(&default).iter().map(String::as_str).collect(),
        };
        let options = options.into_iter().filter(|option| !option.is_empty()).map(str::to_owned);
        let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        Ok(Self {
            name: volume.metadata.name.clone().unwrap_or_default(),
            source,
            read_only,
            mount_options: options.collect(),
            one_pod_only: spec.access_modes.as_deref().is_some_and(|modes| modes == ["ReadWriteOncePod"]),
            group: annotation(GROUP_ANNOTATION).and_then(|group| group.parse().ok()),
            node_terms: required.map(|required| required.node_selector_terms.clone()),
        })
    }

    /// Checks that the node may mount the volume, and can with its mount options.
    ///
    /// # Errors
    /// In upstream's words.
    pub(in crate::volumes) fn check(&self, node: Option<&Node>, node_name: &str) -> Result<(), Refusal> {
        let failed = |step, reason: &str| Err(Refusal::failed(step, &self.name, reason));
        if let Some(terms) = &self.node_terms {
            let Some(node) = node else {
                let reason = format!("error retrieving node: node {node_name:?} not found");
                return failed(Step::NodeAffinity, &reason);
            };
            if !matches_any_term(terms, node) {
                return failed(Step::NodeAffinity, "no matching NodeSelectorTerms");
            }
        }
        if matches!(self.source, Source::HostPath(_)) && !self.mount_options.is_empty() {
            return failed(Step::MountOptions, "mount options are not supported for this volume type");
        }
        Ok(())
    }
}

/// The field of a persistent volume's spec that says where its data is.
fn source_of(spec: &PersistentVolumeSpec) -> Option<String> {
    const OTHERS: [&str; 9] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let value = serde_json::to_value(spec).ok()?;
    value.as_object()?.keys().find(|key| !OTHERS.contains(&key.as_str())).cloned()
}
