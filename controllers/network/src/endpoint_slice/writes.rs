//! Makes the writes of a part of a sync from the drafts of its slices.

use steersman_api::OwnerReference;
use steersman_controller::client::controller_reference;
use steersman_controller::pod_template::name_prefix;
use steersman_informer::{Object, View};
use steersman_kinds::endpoint_slice::{AddressType, Endpoint, EndpointSlice, Port};
use steersman_kinds::service::Service;

use super::draft::Draft;
use super::labels::labels;
use super::observed::Observed;
use super::step::{Note, Step};
use crate::membership::{LAST_CHANGE_TRIGGER_TIME, RoutedService};
use crate::metadata::Metadata;
use crate::slices::{Manifest, SliceRef};

/// The writes of a part, as upstream's `finalize`. A slice that would be deleted is replaced by one that would be created.
pub(super) fn finalize(
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

pub(super) fn is_owned(slice: &EndpointSlice, service: &View<RoutedService>) -> bool {
    let owns = |owner: &OwnerReference| {
        owner.uid == service.meta().uid && owner.kind == "Service" && owner.api_version == "v1"
    };
    slice.meta().owners.iter().any(owns)
}

pub(super) fn slice_ref(slice: &EndpointSlice) -> SliceRef {
    SliceRef { key: slice.meta().key.clone(), uid: slice.meta().uid.clone() }
}
