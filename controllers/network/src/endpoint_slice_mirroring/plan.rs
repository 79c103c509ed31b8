//! Decides which slices must be written to mirror an Endpoints object.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_api::ArcStr;
use steersman_api::meta::Labels;
use steersman_controller::client::controller_reference;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::pod_template::name_prefix;
use steersman_informer::Object;
use steersman_kinds::endpoint_slice::{EndpointSlice, Member};
use steersman_kinds::endpoints::Endpoints;

use super::wanted::{Mirror, Wanted};
use crate::membership::LAST_CHANGE_TRIGGER_TIME;
use crate::metadata::Metadata;
use crate::slices::{Counts, MANAGED_BY, Manifest, SERVICE_NAME, SliceRef, port_key};

/// Upstream's name for this controller in the label [`MANAGED_BY`].
pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// The annotation in which `kubectl apply` keeps what it applied. Slices do not have it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An Endpoints object and its mirror.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The object; `None` if its slices must be deleted.
    pub endpoints: Option<Arc<Endpoints>>,
    /// The slices that mirror the object, by name.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Maximum number of addresses of a subset that are mirrored.
    pub max: usize,
    /// What the sync does, once it has begun.
    pub begun: Option<Note>,
}

/// A step of a sync. Its outcome tells whether the rest of the sync still makes sense.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Begins the sync. Makes no call.
    Begin(Box<Note>),
    /// Creates a slice.
    Create(Box<Manifest>),
    /// Replaces a slice.
    Update(Box<Manifest>),
    /// Deletes a slice.
    Delete(SliceRef),
}

/// What a sync counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Note {
    pub added: usize,
    pub updated: usize,
    pub removed: usize,
    pub invalid: usize,
    pub skipped: usize,
    pub counts: Counts,
}

impl Observed {
    pub(super) fn absorb(&mut self, step: Step, _result: &StepResult<bool>) {
        if let Step::Begin(note) = step {
            self.begun = Some(*note);
        }
    }
}

/// Plans all writes at once. After a failure the sync ends, and comes again.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    if observed.begun.is_some() {
        return Plan::done();
    }
    let (steps, pace) = match &observed.endpoints {
        Some(endpoints) => (mirror(observed, endpoints), Pace::InOrder),
        None if observed.slices.is_empty() => return Plan::done(),
        None => {
            let deletes = observed.slices.iter().map(|slice| Step::Delete(slice_ref(slice)));
            (std::iter::once(Step::Begin(Box::default())).chain(deletes).collect(), Pace::Together(1))
        }
    };
    Plan::Act(Batch { steps, pace, on_failure: OnFailure::Stop })
}

fn mirror(observed: &Observed, endpoints: &Endpoints) -> Vec<Step> {
    let mirror = Mirror::of(endpoints.subsets(), observed.max);
    let mut note = Note { invalid: mirror.invalid, skipped: mirror.skipped, ..Note::default() };
    let (mut creates, mut updates) = (Vec::new(), Vec::new());
    let mut deletes: Vec<&Arc<EndpointSlice>> = Vec::new();
    let is_of = |slice: &EndpointSlice, wanted: &Wanted| {
        slice.address_type() == wanted.address_type && port_key(slice.ports()) == port_key(&wanted.ports)
    };
    for wanted in &mirror.slices {
        let stored: Vec<_> = observed.slices.iter().filter(|slice| is_of(slice, wanted)).collect();
        note.counts.endpoints += wanted.endpoints.len();
        note.counts.desired_slices += wanted.endpoints.len().div_ceil(observed.max);
        note.counts.slices += usize::from(!wanted.endpoints.is_empty());
        if wanted.endpoints.is_empty() {
            note.removed += stored.iter().map(|slice| slice.members().len()).sum::<usize>();
            deletes.extend(stored);
            continue;
        }
        let Some((first, others)) = stored.split_first() else {
            note.added += wanted.endpoints.len();
            creates.push(manifest(endpoints, wanted));
            continue;
        };
        deletes.extend(others);
        let changes = Changes::between(first, wanted);
        note.added += changes.added;
        note.updated += changes.updated;
        note.removed += changes.removed;
        if changes != Changes::default() || !has_right_metadata(first, endpoints) {
            updates.push(replacing(manifest(endpoints, wanted), first));
        }
    }
    let is_wanted = |slice: &EndpointSlice| mirror.slices.iter().any(|wanted| is_of(slice, wanted));
    deletes.extend(observed.slices.iter().filter(|slice| !is_wanted(slice)));

    // A slice that would be deleted is replaced by one of the same type that would be created.
    deletes.retain(|slice| {
        let fits = |manifest: &Manifest| manifest.address_type == slice.address_type();
        match creates.iter().position(fits) {
            Some(at) => updates.push(replacing(creates.remove(at), slice)),
            None => return true,
        }
        false
    });
    if endpoints.meta().is_deleting() {
        creates.clear();
    }
    let creates = creates.into_iter().map(|manifest| Step::Create(Box::new(manifest)));
    let updates = updates.into_iter().map(|manifest| Step::Update(Box::new(manifest)));
    let deletes = deletes.into_iter().map(|slice| Step::Delete(slice_ref(slice)));
    std::iter::once(Step::Begin(Box::new(note))).chain(creates).chain(updates).chain(deletes).collect()
}

/// How many endpoints of a slice change.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    added: usize,
    updated: usize,
    removed: usize,
}

impl Changes {
    fn between(slice: &EndpointSlice, wanted: &Wanted) -> Self {
        let wanted: HashMap<u64, u64> =
            wanted.endpoints.iter().map(Member::of).map(|member| (member.identity, member.content)).collect();
        let mut changes = Self { added: wanted.len(), ..Self::default() };
        for member in slice.members() {
            match wanted.get(&member.identity) {
                None => changes.removed += 1,
                Some(content) => {
                    changes.added = changes.added.saturating_sub(1);
                    changes.updated += usize::from(*content != member.content);
                }
            }
        }
        changes
    }
}

fn manifest(endpoints: &Endpoints, wanted: &Wanted) -> Manifest {
    let meta = endpoints.meta();
    let pair = |(key, value): (&ArcStr, &ArcStr)| (key.clone(), value.clone());
    let mut labels: std::collections::BTreeMap<_, _> = meta.labels.iter().map(pair).collect();
    labels.insert(SERVICE_NAME.into(), meta.key.name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let metadata = Metadata {
        namespace: meta.key.namespace.clone(),
        generate_name: name_prefix(&meta.key.name),
        labels,
        annotations: mirrored(endpoints.annotations()).map(pair).collect(),
        owner_references: [controller_reference::<Endpoints>(meta)].into(),
        ..Metadata::default()
    };
    Manifest {
        metadata,
        address_type: wanted.address_type,
        endpoints: wanted.endpoints.clone(),
        ports: wanted.ports.clone(),
    }
}

/// As upstream, an update has no version as its precondition.
fn replacing(mut manifest: Manifest, slice: &EndpointSlice) -> Manifest {
    manifest.metadata.name = slice.meta().key.name.clone();
    manifest
}

/// The annotations that slices have as well.
fn mirrored(annotations: &Labels) -> impl Iterator<Item = (&ArcStr, &ArcStr)> {
    annotations.iter().filter(|(key, _)| *key != LAST_CHANGE_TRIGGER_TIME && *key != LAST_APPLIED)
}

/// Whether a slice has the labels and annotations of the object, and is not owned by an earlier object of its name.
fn has_right_metadata(slice: &EndpointSlice, endpoints: &Endpoints) -> bool {
    let (is, meta) = (slice.meta(), endpoints.meta());
    let is_own = |(key, _): &(&ArcStr, &ArcStr)| *key != SERVICE_NAME && *key != MANAGED_BY;
    let is_stale = |owner: &steersman_api::OwnerReference| {
        owner.kind == "Endpoints" && owner.name == meta.key.name && owner.uid != meta.uid
    };
    is.labels.iter().filter(is_own).eq(meta.labels.iter().filter(is_own))
        && slice.annotations().iter().eq(mirrored(endpoints.annotations()))
        && !is.owners.iter().any(is_stale)
}

fn slice_ref(slice: &EndpointSlice) -> SliceRef {
    SliceRef { key: slice.meta().key.clone(), uid: slice.meta().uid.clone() }
}
