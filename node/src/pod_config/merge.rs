//! The merging store of one source: all it says goes in, what changed comes out. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::annotations::{self, CONFIG_SEEN, CONFIG_SOURCE};
use super::update::{PodOperation, PodUpdate, Source, SourcePod};

/// What the node knows of one source's pods.
#[derive(Debug)]
pub struct PodStorage {
    source: Source,
    /// By uid.
    pods: HashMap<String, Known>,
    /// Whether the source was heard at all.
    seen: bool,
}

/// One pod.
#[derive(Debug)]
struct Known {
    /// What the source last said.
    said: SourcePod,
    /// That, with what the node keeps itself.
    pod: Arc<Pod>,
}

/// What follows from what a source says.
#[derive(Debug, Default)]
pub struct Merged {
    /// In the order in which they must be delivered.
    pub updates: Vec<PodUpdate>,
    /// Pods left out since another of the same source has their name. The first one stays.
    pub duplicates: Vec<SourcePod>,
}

impl PodStorage {
    /// Of a source that was not heard yet.
    pub fn new(source: Source) -> Self {
        Self { source, pods: HashMap::new(), seen: false }
    }

    /// Whether the source was heard.
    pub fn seen(&self) -> bool {
        self.seen
    }

    /// Takes in all the pods that the source has, and says what that changes. `now` is when new ones are first seen.
    pub fn set(&mut self, said: Vec<SourcePod>, now: Timestamp) -> Merged {
        let mut merged = Merged::default();
        let mut changes = Changes::default();
        let mut names = HashSet::new();
        let mut old = std::mem::take(&mut self.pods);
        for said in said {
            let uid = said.uid();
            let known = old.remove(&uid);
            // What can't be read is not known to have changed, nor to be gone.
            let Some(pod) = said.pod() else {
                self.pods.extend(known.map(|known| (uid, known)));
                continue;
            };
            if !names.insert(annotations::full_name(pod)) {
                // The state of a pod that is left out is not that of one that is gone.
                if let Some(known) = known {
                    old.insert(uid, known);
                }
                merged.duplicates.push(said);
                continue;
            }
            let known = match known {
                Some(known) if known.said.is(&said) => known,
                Some(known) => {
                    let (pod, operation) = update(known.pod, pod, self.source);
                    changes.note(operation, &pod);
                    Known { said: said.clone(), pod }
                }
                None => {
                    let pod = Arc::new(first_seen(pod, self.source, now));
                    changes.note(Some(PodOperation::Add), &pod);
                    Known { said: said.clone(), pod }
                }
            };
            self.pods.insert(uid, known);
        }
        for known in old.into_values() {
            changes.note(Some(PodOperation::Remove), &known.pod);
        }
        let first = !std::mem::replace(&mut self.seen, true);
        merged.updates = changes.in_order(self.source, first);
        merged
    }
}

#[derive(Default)]
struct Changes(BTreeMap<PodOperation, Vec<Arc<Pod>>>);

impl Changes {
    fn note(&mut self, operation: Option<PodOperation>, pod: &Arc<Pod>) {
        if let Some(operation) = operation {
            self.0.entry(operation).or_default().push(Arc::clone(pod));
        }
    }

    /// What is gone makes room for what is new. A source heard for the first time says so even if it has nothing.
    fn in_order(mut self, source: Source, first: bool) -> Vec<PodUpdate> {
        use PodOperation::{Add, Delete, Reconcile, Remove, Update};
        if first && ![Add, Update, Delete].iter().any(|operation| self.0.contains_key(operation)) {
            self.0.insert(Add, Vec::new());
        }
        let in_order = [Remove, Add, Update, Delete, Reconcile].into_iter();
        in_order.filter_map(|op| Some(PodUpdate { pods: self.0.remove(&op)?, op, source })).collect()
    }
}

/// A pod as it is when the node first hears of it.
fn first_seen(said: &Pod, source: Source, now: Timestamp) -> Pod {
    let mut pod = said.clone();
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_SOURCE.to_owned(), source.as_str().to_owned());
    annotations.insert(CONFIG_SEEN.to_owned(), format!("{now:.9}"));
    pod
}

/// What a known pod becomes by what its source says now, and what that means. Only what can change is taken over.
fn update(known: Arc<Pod>, said: &Pod, source: Source) -> (Arc<Pod>, Option<PodOperation>) {
    if !differ_semantically(&known, said) {
        if known.status == said.status {
            return (known, None);
        }
        let pod = Pod { status: said.status.clone(), ..Arc::unwrap_or_clone(known) };
        return (Arc::new(pod), Some(PodOperation::Reconcile));
    }
    let mut pod = Arc::unwrap_or_clone(known);
    let mut annotations = said.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(CONFIG_SOURCE.to_owned(), source.as_str().to_owned());
    for name in annotations::LOCAL {
        if let Some(kept) = annotations::annotation(&pod, name) {
            annotations.insert(name.to_owned(), kept.to_owned());
        }
    }
    pod.metadata.annotations = Some(annotations);
    pod.metadata.labels.clone_from(&said.metadata.labels);
    pod.metadata.deletion_timestamp.clone_from(&said.metadata.deletion_timestamp);
    pod.metadata.deletion_grace_period_seconds = said.metadata.deletion_grace_period_seconds;
    pod.metadata.generation = said.metadata.generation;
    pod.spec.clone_from(&said.spec);
    pod.status.clone_from(&said.status);
    let operation = match said.metadata.deletion_timestamp {
        Some(_) => PodOperation::Delete,
        None => PodOperation::Update,
    };
    (Arc::new(pod), Some(operation))
}

/// Whether two states of a pod differ in what a node acts on.
pub fn differ_semantically(known: &Pod, said: &Pod) -> bool {
    let metadata = (&known.metadata, &said.metadata);
    known.spec != said.spec
        || metadata.0.labels != metadata.1.labels
        || metadata.0.deletion_timestamp != metadata.1.deletion_timestamp
        || metadata.0.deletion_grace_period_seconds != metadata.1.deletion_grace_period_seconds
        || !same_annotations(known, said)
}

/// Whether two pods have the same annotations, but for those that the node keeps itself.
fn same_annotations(one: &Pod, other: &Pod) -> bool {
    let foreign = |pod: &Pod| {
        let all = pod.metadata.annotations.clone().unwrap_or_default();
        all.into_iter().filter(|(name, _)| !annotations::LOCAL.contains(&name.as_str())).collect::<Vec<_>>()
    };
    foreign(one) == foreign(other)
}
