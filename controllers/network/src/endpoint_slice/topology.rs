//! Topology aware hints: divides the endpoints of a service among zones, each by its share of processors.
//!
//! Equals upstream's `topologycache`. Where upstream takes zones in the random order of a Go map, this takes them by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_api::ArcStr;
use steersman_client::events::EventType;
use steersman_kinds::endpoint_slice::{AddressType, Hints, Place};

use super::draft::{Draft, Entry, remove_hints};

/// How much more traffic than the average an endpoint may get.
const OVERLOAD_THRESHOLD: f64 = 0.2;

/// The share of each zone in the processors of all ready nodes. `None` if a node has no zone or no processors, or if there
/// are fewer than two zones.
pub(super) type Ratios = Option<Arc<BTreeMap<ArcStr, f64>>>;

/// The number of hints for each zone.
pub(super) type ZoneCounts = BTreeMap<ArcStr, usize>;

/// A node as far as hints depend on it.
#[derive(Clone, Debug)]
pub(super) struct NodeShare {
    /// The node's zone; empty if it has none.
    pub zone: ArcStr,
    /// The node's processors, in thousandths.
    pub milli_cpu: i64,
}

/// An event on the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Normal or warning.
    pub kind: EventType,
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message.
    pub message: String,
}

impl Event {
    /// The event that hints are removed or left out, and why.
    pub(super) fn disabled(why: &str, address_type: AddressType) -> Self {
        let message = format!("{why}, addressType: {address_type}");
        Self { kind: EventType::Warning, reason: "TopologyAwareHintsDisabled", message }
    }

    fn enabled(address_type: AddressType) -> Self {
        let message = format!("Topology Aware Hints has been enabled, addressType: {address_type}");
        Self { kind: EventType::Normal, reason: "TopologyAwareHintsEnabled", message }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Allocation {
    maximum: usize,
    desired: f64,
}

/// The zones' shares.
#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
pub(super) fn ratios(nodes: impl IntoIterator<Item = NodeShare>) -> Ratios {
    // A node can claim as many processors as it likes: the sum of several must not overflow.
    let mut by_zone: BTreeMap<ArcStr, i128> = BTreeMap::new();
    for NodeShare { zone, milli_cpu } in nodes {
        if zone.is_empty() || milli_cpu == 0 {
            return None;
        }
        *by_zone.entry(zone).or_default() += i128::from(milli_cpu);
    }
    let total: i128 = by_zone.values().sum();
    let enough = total != 0 && by_zone.len() >= 2;
    let shares = by_zone.into_iter().map(|(zone, cpu)| (zone, cpu as f64 / total as f64));
    enough.then(|| Arc::new(shares.collect()))
}

/// Whether a zone has so few endpoints that these get too much traffic.
#[expect(clippy::cast_precision_loss, reason = "a service has fewer than 2^52 endpoints")]
pub(super) fn is_overloaded(counts: &ZoneCounts, ratios: &Ratios) -> bool {
    if counts.is_empty() {
        return false;
    }
    let Some(ratios) = ratios else { return true };
    let total: usize = counts.values().sum();
    ratios.iter().any(|(zone, ratio)| {
        let least = (total as f64 * ratio * (1.0 / (1.0 + OVERLOAD_THRESHOLD))).ceil();
        counts.get(zone).is_none_or(|count| (*count as f64) < least)
    })
}

/// Gives hints to the ready endpoints of slices. Returns the number of hints for each zone, and `None` if it removed all hints
/// since the endpoints can't be divided well.
pub(super) fn add_hints(
    ratios: &Ratios,
    had_hints: bool,
    drafts: &mut [Draft<'_>],
    address_type: AddressType,
    events: &mut Vec<Event>,
) -> Option<ZoneCounts> {
    let allocations = match allocations(ratios, ready(drafts).count()) {
        Ok(allocations) => allocations,
        Err(why) => {
            events.push(Event::disabled(&why, address_type));
            remove_hints(drafts);
            return None;
        }
    };
    let mut counts = ZoneCounts::new();
    for draft in drafts.iter_mut().filter(|draft| draft.is_unchanged()) {
        match hints_by_zone(draft, &counts, &allocations) {
            Some(more) => {
                more.into_iter().for_each(|(zone, count)| *counts.entry(zone).or_default() += count)
            }
            None => draft.write(),
        }
    }

    if to_hint(drafts).any(|entry| entry.wanted.endpoint.zone.is_none()) {
        events.push(Event::disabled("One or more endpoints do not have a zone specified", address_type));
        remove_hints(drafts);
        return None;
    }
    // All endpoints begin with their own zone.
    for entry in to_hint(drafts) {
        let zone = entry.wanted.endpoint.zone.clone().unwrap_or_default();
        entry.hints = Some(for_zone(&zone));
        *counts.entry(zone).or_default() += 1;
    }
    let (mut giving, mut receiving) = giving_and_receiving(&allocations, &counts);
    for entry in to_hint(drafts) {
        let own = entry.wanted.endpoint.zone.clone().unwrap_or_default();
        let Some(other) = receiving.keys().next().cloned() else { break };
        if take_one(&mut giving, &own) {
            take_one(&mut receiving, &other);
            entry.hints = Some(for_zone(&other));
            *counts.entry(other).or_default() += 1;
            counts.entry(own).and_modify(|count| *count -= 1);
        }
    }

    if counts.is_empty() {
        events.push(Event::disabled("No hints allocated for zones", address_type));
        remove_hints(drafts);
        return None;
    }
    if !had_hints {
        events.push(Event::enabled(address_type));
    }
    Some(counts)
}

fn ready<'d, 'a>(drafts: &'d [Draft<'a>]) -> impl Iterator<Item = &'d Entry<'a>> {
    let entries = drafts.iter().filter(|draft| draft.is_kept()).flat_map(|draft| &draft.entries);
    entries.filter(|entry| entry.wanted.is_ready())
}

/// The ready endpoints of the slices that are written: first of those to create.
fn to_hint<'d, 'a>(drafts: &'d mut [Draft<'a>]) -> impl Iterator<Item = &'d mut Entry<'a>> {
    let mut written: Vec<&mut Draft<'a>> =
        drafts.iter_mut().filter(|draft| draft.is_kept() && !draft.is_unchanged()).collect();
    written.sort_by_key(|draft| draft.stored.is_some());
    written.into_iter().flat_map(|draft| &mut draft.entries).filter(|entry| entry.wanted.is_ready())
}

fn for_zone(zone: &str) -> Arc<Hints> {
    Arc::new(Hints { for_zones: vec![Place { name: zone.into() }], for_nodes: Vec::new() })
}

fn take_one(counts: &mut ZoneCounts, zone: &ArcStr) -> bool {
    let Some(count) = counts.get_mut(zone) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(zone);
    }
    true
}

/// How many endpoints each zone should have, and how many it may have.
///
/// # Errors
/// Why they can't be divided without overload, in upstream's words.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a service has fewer than 2^52 endpoints"
)]
fn allocations(ratios: &Ratios, endpoints: usize) -> Result<BTreeMap<ArcStr, Allocation>, String> {
    let Some(ratios) = ratios else {
        return Err(
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
                .to_owned(),
        );
    };
    let counted = |why: &str| format!("{why} ({endpoints} endpoints, {} zones)", ratios.len());
    if ratios.len() > endpoints {
        return Err(counted("Insufficient number of endpoints"));
    }
    let least = |desired: f64| (desired * (1.0 / (1.0 + OVERLOAD_THRESHOLD))).ceil();
    let shares = ratios.iter().map(|(zone, ratio)| (zone, ratio * endpoints as f64));
    let least_of_all: usize = shares.clone().map(|(_, desired)| least(desired) as usize).sum();
    let Some(spare) = endpoints.checked_sub(least_of_all) else {
        return Err(counted(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold",
        ));
    };
    let allocation = |desired: f64| Allocation {
        maximum: least(desired) as usize + spare,
        desired: desired.max(least(desired)),
    };
    Ok(shares.map(|(zone, desired)| (zone.clone(), allocation(desired))).collect())
}

/// The number of hints for each zone in an unchanged slice. `None` if a ready endpoint has no hint, or one for a zone that
/// needs none, or if a zone would get too many.
fn hints_by_zone(
    draft: &Draft<'_>,
    counts: &ZoneCounts,
    allocations: &BTreeMap<ArcStr, Allocation>,
) -> Option<ZoneCounts> {
    let mut more = ZoneCounts::new();
    for entry in draft.entries.iter().filter(|entry| entry.wanted.is_ready()) {
        let zones = &entry.hints().for_zones;
        if zones.is_empty() {
            return None;
        }
        for zone in zones {
            allocations.get(zone.name.as_arc())?;
            *more.entry(zone.name.as_arc().clone()).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&ArcStr, &usize)| {
        count + counts.get(zone).copied().unwrap_or(0) <= allocations[zone].maximum
    };
    more.iter().all(fits).then_some(more)
}

/// How many endpoints each zone gives to others, and how many it gets.
#[expect(clippy::cast_precision_loss, reason = "a service has fewer than 2^52 endpoints")]
fn giving_and_receiving(
    allocations: &BTreeMap<ArcStr, Allocation>,
    counts: &ZoneCounts,
) -> (ZoneCounts, ZoneCounts) {
    let (mut to_give, mut to_get) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let too_many = counts.get(zone).copied().unwrap_or(0) as f64 - allocation.desired;
        if too_many > 0.0 {
            to_give.insert(zone.clone(), too_many);
        } else if too_many < 0.0 {
            to_get.insert(zone.clone(), -too_many);
        }
    }
    let (mut giving, mut receiving) = (ZoneCounts::new(), ZoneCounts::new());
    while let (Some((giver, give)), Some((getter, get))) = (most(&to_give), most(&to_get)) {
        if (give < 1.0 && get < 1.0) || give < 0.5 || get < 0.5 {
            break;
        }
        to_give.insert(giver.clone(), give - 1.0);
        to_get.insert(getter.clone(), get - 1.0);
        *giving.entry(giver).or_default() += 1;
        *receiving.entry(getter).or_default() += 1;
    }
    (giving, receiving)
}

fn most(zones: &BTreeMap<ArcStr, f64>) -> Option<(ArcStr, f64)> {
    let mut most: Option<(&ArcStr, f64)> = None;
    for (zone, number) in zones {
        if *number > most.map_or(0.0, |(_, number)| number) {
            most = Some((zone, *number));
        }
    }
    most.map(|(zone, number)| (zone.clone(), number))
}
