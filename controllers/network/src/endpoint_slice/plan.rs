//! Decides which slices of a service must be written.
//!
//! A sync has a part for each address type, and one for slices of types that the service no longer has. If a part fails, the
//! others are done all the same, as upstream.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use steersman_api::{ArcStr, ObjectKey};
use steersman_controller::client::controller_reference;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::pod_template::name_prefix;
use steersman_informer::{Object, View};
use steersman_kinds::endpoint_slice::{AddressType, Endpoint, EndpointSlice, Port};
use steersman_kinds::service::{Hinting, Routing, Service};

use super::draft::{Action, Draft, Entry, remove_hints};
use super::observed::Observed;
use super::packing::{Desired, Fate, Stored, pack};
use super::topology::{Event, ZoneCounts, add_hints};
use super::traffic_distribution::TrafficDistribution;
use super::wanted::{Group, Groups, address_types};
use crate::membership::{LAST_CHANGE_TRIGGER_TIME, RoutedService, ServedPod};
use crate::metadata::Metadata;
use crate::slices::{Counts, MANAGED_BY, Manifest, SERVICE_NAME, SliceRef, canonical_order, port_key};

/// Upstream's name for this controller in the label [`MANAGED_BY`].
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The label of slices whose service has no address of its own.
const IS_HEADLESS: &str = "service.kubernetes.io/headless";

/// A step of a sync. Its outcome tells whether the rest of the part still makes sense.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Begins a part. Calls nobody.
    Begin(Box<Note>),
    /// Creates a slice.
    Create(Box<Manifest>),
    /// Replaces a slice.
    Update(Box<Manifest>),
    /// Deletes a slice.
    Delete(SliceRef),
    /// Fails with this text, so that the service is synced again.
    Fail(String),
}

/// A part of a sync, with what it changes besides slices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Note {
    /// The part.
    pub part: Part,
    /// The number of slices that the part writes or deletes.
    pub changes: usize,
    /// The number of endpoints that are new to the slices.
    pub added: usize,
    /// The number of endpoints that are no longer desired.
    pub removed: usize,
    /// The numbers for the gauges.
    pub counts: Counts,
    /// The number of topology aware hints for each zone; `None` if the endpoints have no such hints.
    pub hints: Option<ZoneCounts>,
    /// Whether the part leaves the service's hints of the other address type alone.
    pub keeps_hints: bool,
    /// The events to record once the part is done.
    pub events: Vec<Event>,
    /// Why the sync must be repeated though all went well.
    pub lost: Vec<String>,
}

/// A part of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Brings the slices of an address type up to date.
    Of(AddressType),
    /// Deletes slices of address types that the service does not have.
    Leftovers,
}

impl Step {
    /// The failure of this step in upstream's words.
    pub(super) fn failure(&self, service: &ObjectKey, why: &str) -> String {
        match self {
            Self::Begin(_) | Self::Fail(_) => why.to_owned(),
            Self::Create(_) => format!("failed to create EndpointSlice for Service {service}: {why}"),
            Self::Update(manifest) => {
                format!(
                    "failed to update {} EndpointSlice for Service {service}: {why}",
                    manifest.metadata.name
                )
            }
            Self::Delete(slice) => {
                format!("failed to delete {} EndpointSlice for Service {service}: {why}", slice.key.name)
            }
        }
    }
}

/// Plans the next part of a sync.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    let types = address_types(observed.service.get::<Routing>());
    let next = types.iter().copied().map(Part::Of).chain([Part::Leftovers]).nth(observed.begun.len());
    match next {
        Some(Part::Of(address_type)) => Plan::Act(batch(part(observed, address_type), Pace::InOrder)),
        Some(Part::Leftovers)
            if observed.slices.iter().any(|slice| !types.contains(&slice.address_type())) =>
        {
            Plan::Act(batch(leftovers(observed, &types), Pace::Together(1)))
        }
        Some(Part::Leftovers) | None => {
            let lost = observed.begun.iter().flat_map(|note| &note.lost);
            let untold = lost.filter(|why| !observed.failures.contains(why)).cloned().map(Step::Fail);
            let untold: Vec<Step> = untold.collect();
            if untold.is_empty() { Plan::done() } else { Plan::Act(batch(untold, Pace::Together(1))) }
        }
    }
}

fn batch(steps: Vec<Step>, pace: Pace) -> Batch<Step> {
    Batch { steps, pace, on_failure: OnFailure::PlanAgain }
}

fn leftovers(observed: &Observed, types: &[AddressType]) -> Vec<Step> {
    let left = observed.slices.iter().filter(|slice| !types.contains(&slice.address_type()));
    let deletes: Vec<Step> = left.map(|slice| Step::Delete(slice_ref(slice))).collect();
    let note = Note {
        part: Part::Leftovers,
        changes: deletes.len(),
        added: 0,
        removed: 0,
        counts: Counts::default(),
        hints: None,
        keeps_hints: true,
        events: Vec::new(),
        lost: Vec::new(),
    };
    std::iter::once(Step::Begin(Box::new(note))).chain(deletes).collect()
}

/// Brings the slices of an address type up to date, as upstream's `reconcileByAddressType`.
fn part(observed: &Observed, address_type: AddressType) -> Vec<Step> {
    let service = &observed.service;
    let mut wanted = Groups::of(service, &observed.pods, &observed.zones, address_type);
    for group in &mut wanted.groups {
        canonical_order(&mut group.ports);
    }
    let existing: Vec<&Arc<EndpointSlice>> =
        observed.slices.iter().filter(|slice| slice.address_type() == address_type).collect();
    let owned: Vec<_> = existing.iter().copied().filter(|slice| is_owned(slice, service)).collect();
    let mode = Mode::of(service);

    let (mut drafts, mut note) = (Vec::new(), note(observed, address_type, &wanted));
    for slice in existing.iter().filter(|slice| !is_owned(slice, service)) {
        drafts.push(deleted(slice));
    }
    for group in &wanted.groups {
        let ports = port_key(&group.ports);
        let stored: Vec<_> = owned.iter().copied().filter(|slice| port_key(slice.ports()) == ports).collect();
        pack_group(service, group, &stored, observed.max_endpoints, &mode, &mut note, &mut drafts);
    }
    let keys: Vec<_> = wanted.groups.iter().map(|group| port_key(&group.ports)).collect();
    for slice in owned.iter().copied().filter(|slice| !keys.contains(&port_key(slice.ports()))) {
        drafts.push(deleted(slice));
    }
    add_placeholder(service, existing.len(), &mut drafts, &mut note);

    match mode {
        Mode::Topology => {
            let had = observed.had_hints;
            note.hints = add_hints(&observed.ratios, had, &mut drafts, address_type, &mut note.events);
        }
        Mode::Distribution(_) | Mode::None => {
            if observed.had_hints {
                let why = "Topology Aware Hints has been disabled";
                note.events.push(Event::disabled(why, address_type));
            }
            match mode {
                Mode::Distribution(distribution) => distribution.hint(&mut drafts),
                _ => remove_hints(&mut drafts),
            }
        }
    }
    finalize(observed, address_type, &drafts, note)
}

fn note(observed: &Observed, address_type: AddressType, wanted: &Groups) -> Note {
    let key = &observed.service.meta().key;
    let lost = wanted
        .lost
        .iter()
        .map(|(pod, node)| format!("skipping Pod {pod} for Service {key}: Node {node} Not Found"));
    Note {
        part: Part::Of(address_type),
        changes: 0,
        added: 0,
        removed: 0,
        counts: Counts::default(),
        hints: None,
        keeps_hints: false,
        events: Vec::new(),
        lost: lost.collect(),
    }
}

/// Which hints the endpoints of a service have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Topology aware hints, for the annotation. It has precedence over the field.
    Topology,
    /// Those of the field `trafficDistribution`.
    Distribution(TrafficDistribution),
    /// None.
    None,
}

impl Mode {
    /// The hints that a service asks for.
    pub(super) fn of(service: &View<RoutedService>) -> Self {
        if service.get::<Hinting>().mode.is_auto() {
            return Self::Topology;
        }
        let distribution = service.get::<Routing>().traffic_distribution.as_deref();
        distribution.and_then(TrafficDistribution::of).map_or(Self::None, Self::Distribution)
    }
}

fn deleted(slice: &Arc<EndpointSlice>) -> Draft<'_> {
    Draft { stored: Some(slice), ports: slice.ports(), entries: Vec::new(), action: Action::Delete }
}

/// Divides the endpoints of one set of ports among slices.
fn pack_group<'a>(
    service: &View<RoutedService>,
    group: &'a Group,
    stored: &[&'a Arc<EndpointSlice>],
    max: usize,
    mode: &Mode,
    note: &mut Note,
    drafts: &mut Vec<Draft<'a>>,
) {
    let desired: Vec<Desired<'_>> = group
        .endpoints
        .iter()
        .map(|wanted| Desired {
            identity: wanted.member.identity,
            content: wanted.member.content,
            name: &wanted.pod,
        })
        .collect();
    let packed: Vec<Stored<'_>> = stored
        .iter()
        .map(|slice| Stored { members: slice.members(), stale_labels: has_stale_labels(slice, service) })
        .collect();
    let packing = pack(&packed, &desired, max);
    let entry = |at: usize| Entry { wanted: &group.endpoints[at], hints: None };
    let with_hints = |slice: &Arc<EndpointSlice>, mut entries: Vec<Entry<'a>>| {
        for (entry, member) in entries.iter_mut().zip(slice.members()) {
            entry.hints.clone_from(&member.hints);
        }
        entries
    };
    let places: HashMap<u64, usize> =
        desired.iter().enumerate().map(|(at, endpoint)| (endpoint.identity, at)).collect();
    let deletes = packing.fates.iter().filter(|fate| **fate == Fate::Delete).count();
    note.added += packing.added;
    note.removed += packing.removed;
    note.counts.endpoints += desired.len();
    note.counts.slices += stored.len() + packing.creates.len() - deletes;
    note.counts.desired_slices += desired.len().div_ceil(max);

    for (slice, fate) in stored.iter().copied().zip(packing.fates) {
        let draft = |entries, action| Draft { stored: Some(slice), ports: slice.ports(), entries, action };
        drafts.push(match fate {
            Fate::Delete => deleted(slice),
            Fate::Update { endpoints, kept } => {
                let entries = endpoints.into_iter().map(entry).collect();
                draft(if kept { with_hints(slice, entries) } else { entries }, Action::Write)
            }
            Fate::Unchanged => {
                let hinted = slice.members().iter().any(|member| member.hints.is_some());
                let entries = if *mode == Mode::None && !hinted {
                    Vec::new()
                } else {
                    let places = slice.members().iter().filter_map(|member| places.get(&member.identity));
                    with_hints(slice, places.copied().map(entry).collect())
                };
                draft(entries, Action::Leave)
            }
        });
    }
    for created in packing.creates {
        let entries = created.into_iter().map(entry).collect();
        drafts.push(Draft { stored: None, ports: &group.ports, entries, action: Action::Write });
    }
}

/// A service has at least one slice: if no other is left, one without endpoints and ports, the placeholder.
fn add_placeholder(
    service: &View<RoutedService>,
    existing: usize,
    drafts: &mut Vec<Draft<'_>>,
    note: &mut Note,
) {
    let deletes: Vec<usize> = (0..drafts.len()).filter(|at| drafts[*at].action == Action::Delete).collect();
    if deletes.len() < existing || drafts.iter().any(|draft| draft.stored.is_none()) {
        note.counts.desired_slices = note.counts.desired_slices.max(1);
        return;
    }
    note.counts.slices += 1;
    note.counts.desired_slices = note.counts.desired_slices.max(1);
    let is_placeholder = |slice: &EndpointSlice| {
        slice.members().is_empty()
            && slice.ports().is_empty()
            && labels(service).iter().eq(slice.meta().labels.iter())
    };
    match (&deletes[..], deletes.first().and_then(|at| drafts[*at].stored)) {
        ([at], Some(slice)) if is_placeholder(slice) => drafts[*at].action = Action::Leave,
        _ => drafts.push(Draft { stored: None, ports: &[], entries: Vec::new(), action: Action::Write }),
    }
}

/// The writes of a part, as upstream's `finalize`. A slice that would be deleted is replaced by one that would be created.
fn finalize(
    observed: &Observed,
    address_type: AddressType,
    drafts: &[Draft<'_>],
    mut note: Note,
) -> Vec<Step> {
    let service = &observed.service;
    let written = || drafts.iter().filter(|draft| draft.is_kept() && draft.must_be_written());
    let mut creates: Vec<Manifest> = Vec::new();
    let mut updates: Vec<Manifest> = Vec::new();
    for draft in written() {
        let metadata = match draft.stored {
            Some(slice) => Metadata::replacing(slice.meta(), slice.annotations()),
            None => Metadata::default(),
        };
        let manifest = manifest(observed, metadata, draft.endpoints(), draft.ports.to_vec(), address_type);
        if draft.stored.is_some() { updates.push(manifest) } else { creates.push(manifest) }
    }
    let mut deletes = Vec::new();
    for slice in drafts.iter().filter(|draft| !draft.is_kept()).filter_map(|draft| draft.stored) {
        match if is_owned(slice, service) { creates.pop() } else { None } {
            Some(mut manifest) => {
                manifest.metadata.name = slice.meta().key.name.clone();
                updates.push(manifest);
            }
            None => deletes.push(Step::Delete(slice_ref(slice))),
        }
    }
    note.changes = creates.len() + updates.len() + deletes.len();
    // The garbage collector deletes the slices of such a service, and would delete new ones as well.
    if service.meta().is_deleting() {
        creates.clear();
    }
    let creates = creates.into_iter().map(|manifest| Step::Create(Box::new(manifest)));
    let updates = updates.into_iter().map(|manifest| Step::Update(Box::new(manifest)));
    std::iter::once(Step::Begin(Box::new(note))).chain(creates).chain(updates).chain(deletes).collect()
}

fn manifest(
    observed: &Observed,
    mut metadata: Metadata,
    endpoints: Vec<Endpoint>,
    ports: Vec<Port>,
    address_type: AddressType,
) -> Manifest {
    let service = observed.service.meta();
    if metadata.name.is_empty() {
        metadata.namespace = service.key.namespace.clone();
        metadata.owner_references = [controller_reference::<Service>(service)].into();
    }
    metadata.generate_name = name_prefix(&service.key.name);
    metadata.labels = labels(&observed.service);
    match observed.trigger {
        Some(at) => _ = metadata.annotations.insert(LAST_CHANGE_TRIGGER_TIME.into(), at.to_string().into()),
        None => _ = metadata.annotations.remove(LAST_CHANGE_TRIGGER_TIME),
    }
    Manifest { metadata, address_type, endpoints, ports }
}

/// The labels that the slices of a service have: the service's, and the controller's own instead of any that the service has
/// under these keys.
fn labels(service: &View<RoutedService>) -> BTreeMap<ArcStr, ArcStr> {
    let meta = service.meta();
    let inherited = meta.labels.iter().filter(|(key, _)| !is_reserved(key));
    let mut labels: BTreeMap<_, _> = inherited.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !service.get::<Routing>().has_cluster_ip() {
        labels.insert(IS_HEADLESS.into(), ArcStr::new());
    }
    labels.insert(SERVICE_NAME.into(), meta.key.name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

fn is_reserved(key: &str) -> bool {
    [SERVICE_NAME, MANAGED_BY, IS_HEADLESS].contains(&key)
}

/// Whether the labels of a slice differ from those of its service. The controller's own labels do not matter.
fn has_stale_labels(slice: &EndpointSlice, service: &View<RoutedService>) -> bool {
    let inherited = |(key, _): &(&ArcStr, &ArcStr)| !is_reserved(key);
    let (is, of_service) = (&slice.meta().labels, &service.meta().labels);
    !is.iter().filter(inherited).eq(of_service.iter().filter(inherited))
}

fn is_owned(slice: &EndpointSlice, service: &View<RoutedService>) -> bool {
    let owns = |owner: &steersman_api::OwnerReference| {
        owner.uid == service.meta().uid && owner.kind == "Service" && owner.api_version == "v1"
    };
    slice.meta().owners.iter().any(owns)
}

fn slice_ref(slice: &EndpointSlice) -> SliceRef {
    SliceRef { key: slice.meta().key.clone(), uid: slice.meta().uid.clone() }
}

/// The names of the nodes that the pods of a service are on.
pub(super) fn nodes(observed: &[View<ServedPod>]) -> BTreeSet<ArcStr> {
    observed.iter().map(|pod| pod.get::<steersman_kinds::pod::Placement>().node.as_arc().clone()).collect()
}
