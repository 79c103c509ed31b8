//! Decides which slices must be written to mirror an Endpoints object.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use steersman_api::ArcStr;
use steersman_api::meta::LabelMap;
use steersman_controller::children::Grounds;
use steersman_controller::client::controller_reference;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::pod_template::name_prefix;
use steersman_informer::Object;
use steersman_kinds::endpoint_slice::{AddressType, EndpointSlice, Member};
use steersman_kinds::endpoints::Endpoints;

use super::wanted::{Mirror, Wanted};
use crate::membership::LAST_CHANGE_TRIGGER_TIME;
use crate::metadata::Metadata;
use crate::slices::{Counts, MANAGED_BY, Manifest, Outcome, SERVICE_NAME, SliceRef, port_key};

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
    /// Whether these are all of them, so that the sync may write.
    pub grounds: Grounds,
    /// Maximum number of addresses of a subset that are mirrored.
    pub max: usize,
    /// What the sync does, once it has begun.
    pub begun: Option<Note>,
}

/// A step of a sync.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Observes the slices again, since the cache may lack some.
    Confirm,
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
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        match (step, result) {
            (Step::Begin(note), _) => self.begun = Some(*note),
            (Step::Confirm, StepResult::Done(Outcome::Slices(slices))) => {
                (self.slices, self.grounds) = (slices, Grounds::Sure);
            }
            _ => {}
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
    let writes = steps.iter().any(|step| !matches!(step, Step::Begin(_)));
    if writes && observed.grounds == Grounds::Unsure {
        return Plan::step(Step::Confirm);
    }
    Plan::Act(Batch { steps, pace, on_failure: OnFailure::Stop })
}

fn mirror(observed: &Observed, endpoints: &Endpoints) -> Vec<Step> {
    let mirror = Mirror::of(endpoints.subsets(), observed.max);
    let mut note = Note { invalid: mirror.invalid, skipped: mirror.skipped, ..Note::default() };
    let mut creates: BTreeMap<AddressType, VecDeque<Manifest>> = BTreeMap::new();
    let mut updates = Vec::new();
    let mut deletes: Vec<&Arc<EndpointSlice>> = Vec::new();
    // An object may have thousands of subsets, so they are not compared with the slices one by one.
    let mut by_ports: HashMap<_, Vec<&Arc<EndpointSlice>>> = HashMap::new();
    for slice in &observed.slices {
        by_ports.entry((slice.address_type(), port_key(slice.ports()))).or_default().push(slice);
    }
    for wanted in &mirror.slices {
        let key = (wanted.address_type, port_key(&wanted.ports));
        let stored = by_ports.remove(&key).unwrap_or_default();
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
            creates.entry(wanted.address_type).or_default().push_back(manifest(endpoints, wanted));
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
    let mut left: Vec<_> = by_ports.into_values().flatten().collect();
    left.sort_unstable_by(|a, b| a.meta().key.cmp(&b.meta().key));
    deletes.extend(left);

    // A slice that would be deleted is replaced by one of the same type that would be created.
    deletes.retain(|slice| {
        let created = creates.get_mut(&slice.address_type()).and_then(VecDeque::pop_front);
        let is_replaced = created.is_some();
        updates.extend(created.map(|manifest| replacing(manifest, slice)));
        !is_replaced
    });
    if endpoints.meta().is_deleting() {
        creates.clear();
    }
    let creates = creates.into_values().flatten().map(|manifest| Step::Create(Box::new(manifest)));
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
        let mut missing: HashMap<u64, u64> =
            wanted.endpoints.iter().map(Member::of).map(|member| (member.identity, member.content)).collect();
        let mut changes = Self::default();
        for member in slice.members() {
            // An endpoint that the slice has twice is removed once.
            match missing.remove(&member.identity) {
                None => changes.removed += 1,
                Some(content) => changes.updated += usize::from(content != member.content),
            }
        }
        changes.added = missing.len();
        changes
    }
}

fn manifest(endpoints: &Endpoints, wanted: &Wanted) -> Manifest {
    let meta = endpoints.meta();
    let pair = |(key, value): (&ArcStr, &ArcStr)| (key.clone(), value.clone());
    let mut labels: BTreeMap<_, _> = meta.labels.iter().map(pair).collect();
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
fn mirrored(annotations: &LabelMap) -> impl Iterator<Item = (&ArcStr, &ArcStr)> {
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
