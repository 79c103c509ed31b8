//! Divides the endpoints of a service among its slices.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_informer::{Object, View};
use steersman_kinds::endpoint_slice::EndpointSlice;

use super::draft::{Action, Draft, Entry};
use super::labels::{has_stale_labels, labels};
use super::mode::Mode;
use super::packing::{Desired, Fate, Stored, pack};
use super::step::Note;
use super::wanted::Group;
use crate::membership::RoutedService;

pub(super) fn deleted(slice: &Arc<EndpointSlice>) -> Draft<'_> {
    Draft { stored: Some(slice), ports: slice.ports(), entries: Vec::new(), action: Action::Delete }
}

/// Divides the endpoints of one set of ports among slices.
pub(super) fn pack_group<'a>(
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
pub(super) fn add_placeholder(
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
