//! Decides which slices of a service must be written.
//!
//! A sync has a part for each address type, and one for slices of types that the service no longer has. If a part fails, the
//! others are done all the same, as upstream.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_controller::children::Grounds;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_informer::Object;
use steersman_kinds::endpoint_slice::{AddressType, EndpointSlice, Port};
use steersman_kinds::service::Routing;

use super::divide::{add_placeholder, deleted, pack_group};
use super::draft::remove_hints;
use super::mode::Mode;
use super::observed::Observed;
use super::step::{Note, Part, Step};
use super::topology::{Event, add_hints};
use super::wanted::{Groups, address_types};
use super::writes::{finalize, is_owned, slice_ref};
use crate::slices::{Counts, canonical_order, port_key};

/// Plans the next part of a sync.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    let types = address_types(observed.service.get::<Routing>());
    let next = types.iter().copied().map(Part::Of).chain([Part::Leftovers]).nth(observed.begun.len());
    match next {
        Some(Part::Of(address_type)) => act(observed, part(observed, address_type), Pace::InOrder),
        Some(Part::Leftovers)
            if observed.slices.iter().any(|slice| !types.contains(&slice.address_type())) =>
        {
            act(observed, leftovers(observed, &types), Pace::Together(1))
        }
        Some(Part::Leftovers) | None => {
            let lost = observed.begun.iter().flat_map(|note| &note.lost);
            let untold = lost.filter(|why| !observed.failures.contains(why)).cloned().map(Step::Fail);
            let untold: Vec<Step> = untold.collect();
            if untold.is_empty() { Plan::done() } else { act(observed, untold, Pace::Together(1)) }
        }
    }
}

/// Carries out these steps. If they write, the slices that they were decided on must be all that there are.
fn act(observed: &Observed, steps: Vec<Step>, pace: Pace) -> Plan<Step> {
    if observed.grounds == Grounds::Unsure && steps.iter().any(Step::writes) {
        return Plan::step(Step::Confirm);
    }
    Plan::Act(Batch { steps, pace, on_failure: OnFailure::PlanAgain })
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
    let mode = Mode::of(service);

    let (mut drafts, mut note) = (Vec::new(), note(observed, address_type, &wanted));
    // There may be as many sets of ports as pods, so they are not compared one by one.
    let mut by_ports: HashMap<Vec<Port>, Vec<&Arc<EndpointSlice>>> = HashMap::new();
    for slice in existing.iter().copied() {
        if is_owned(slice, service) {
            by_ports.entry(port_key(slice.ports())).or_default().push(slice);
        } else {
            drafts.push(deleted(slice));
        }
    }
    for group in &wanted.groups {
        let stored = by_ports.remove(&port_key(&group.ports)).unwrap_or_default();
        pack_group(service, group, &stored, observed.max_endpoints, &mode, &mut note, &mut drafts);
    }
    let mut left: Vec<_> = by_ports.into_values().flatten().collect();
    left.sort_unstable_by(|a, b| a.meta().key.cmp(&b.meta().key));
    drafts.extend(left.into_iter().map(deleted));
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
