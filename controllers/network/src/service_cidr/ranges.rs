//! Ranges of addresses, and the addresses that they give to services.

use std::net::IpAddr;

use ipnet::IpNet;

/// Whether services can get an address from one of these ranges. They get neither the first address of a range nor, of an
/// IPv4 range, the last one. Upstream's `ContainsAddress`.
pub(super) fn gives(ranges: &[IpNet], address: IpAddr) -> bool {
    let given = |range: &IpNet| {
        range.contains(&address)
            && address != range.network()
            && !(address.is_ipv4() && address == range.broadcast())
    };
    ranges.iter().any(given)
}

/// Whether two sets of ranges have an address in common. Upstream's `OverlapsPrefix`.
pub(super) fn overlap(some: &[IpNet], others: &[IpNet]) -> bool {
    let overlaps = |one: &IpNet| others.iter().any(|other| one.contains(other) || other.contains(one));
    some.iter().any(overlaps)
}

/// Whether each of `ranges` is a part of another ServiceCIDR's range.
fn are_covered(ranges: &[IpNet], others: &[Vec<IpNet>]) -> bool {
    let covers = |range: &IpNet| others.iter().flatten().any(|other| other.contains(range));
    ranges.iter().all(covers)
}

/// Whether `ranges` can go without leaving a service with an address that is in no range of the `others`. Upstream's
/// `canDeleteCIDR`.
pub(super) fn may_go(ranges: &[IpNet], others: &[Vec<IpNet>], addresses: &[IpAddr]) -> bool {
    let depends =
        |address: &IpAddr| gives(ranges, *address) && !others.iter().any(|other| gives(other, *address));
    are_covered(ranges, others) || !addresses.iter().any(depends)
}
