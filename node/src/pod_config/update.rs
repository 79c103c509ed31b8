//! What a source says, and what becomes of it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use steersman_informer::wire::{Object, whole::Whole};

/// Where pods come from. The names are upstream's, as the annotation `kubernetes.io/config.source` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Manifests in files.
    File,
    /// Manifests behind a URL.
    Http,
    /// The API server.
    Api,
}

impl Source {
    /// As annotations have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }

    /// The source of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::File, Self::Http, Self::Api].into_iter().find(|source| source.as_str() == name)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happened to the pods of an update. What a source says is always all it has (upstream's SET); these are the
/// differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodOperation {
    /// They are new to the source.
    Add,
    /// They are to end in their grace: each has a deletion timestamp.
    Delete,
    /// The source has them no more.
    Remove,
    /// They changed.
    Update,
    /// Only their status changed, by somebody other than this node, which is to set it right.
    Reconcile,
}

/// Some pods of one source that share a fate.
///
/// Updates of one source come in order. The first from a source may be an [`PodOperation::Add`] of no pods: it says that
/// the source was heard.
#[derive(Debug, Clone)]
pub struct PodUpdate {
    /// The pods as the node should see them. Of removed ones their last state.
    pub pods: Vec<Arc<Pod>>,
    /// What happened to them.
    pub op: PodOperation,
    /// Where they come from.
    pub source: Source,
}

/// A pod as its source has it. Sharing it costs nothing; that it is the same as before shows without comparing it.
#[derive(Debug, Clone)]
pub enum SourcePod {
    /// In an informer's cache. One whose body can't be read is taken for unchanged.
    Cached(Arc<Whole<Pod>>),
    /// Made by the source.
    Own(Arc<Pod>),
}

impl SourcePod {
    /// The pod, if it can be read.
    pub fn pod(&self) -> Option<&Pod> {
        match self {
            Self::Cached(cached) => cached.object(),
            Self::Own(pod) => Some(pod),
        }
    }

    /// Its uid, also of one that can't be read.
    pub fn uid(&self) -> String {
        match self {
            Self::Cached(cached) => cached.meta().uid.to_string(),
            Self::Own(pod) => pod.metadata.uid.clone().unwrap_or_default(),
        }
    }

    /// Whether this is the very same state, not only an equal one.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cached(one), Self::Cached(other)) => Arc::ptr_eq(one, other),
            (Self::Own(one), Self::Own(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}
