//! Connections of strangers: those without an authorized request so far. One of them is closed when there is no room.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::activity::Activity;

/// Connections of strangers, the oldest first. Connections of others, and such that have ended, may be among them until the
/// next one is added.
#[derive(Default)]
pub(super) struct Strangers(Mutex<VecDeque<Stranger>>);

struct Stranger {
    connection: Weak<Activity>,
    origin: Origin,
}

/// Where a connection comes from, as far as its client can't choose: an address of IPv4, or a network of 64 bits of IPv6,
/// all of whose addresses one machine can have.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Origin(Ipv6Addr);

impl Strangers {
    /// Adds a new connection.
    pub(super) fn add(&self, connection: &Arc<Activity>, address: IpAddr) {
        let mut all = self.0.lock();
        all.retain(Stranger::is_one);
        all.push_back(Stranger { connection: Arc::downgrade(connection), origin: Origin::of(address) });
    }

    /// Ends one connection at once, if there is any: the oldest from the origin that has the most of them. So a flood from
    /// one address displaces only itself; among equals, the connection goes that has had the most time to authenticate.
    pub(super) fn turn_one_away(&self) {
        let mut all = self.0.lock();
        all.retain(Stranger::is_one);
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for stranger in &*all {
            *counts.entry(stranger.origin).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let is_of_most = |stranger: &Stranger| counts.get(&stranger.origin).copied() == most;
        while let Some(stranger) = all.iter().position(is_of_most).and_then(|oldest| all.remove(oldest)) {
            if stranger.connection.upgrade().is_some_and(|connection| connection.turn_away()) {
                return;
            }
        }
    }
}

impl Stranger {
    fn is_one(&self) -> bool {
        self.connection.upgrade().is_some_and(|connection| connection.is_strangers())
    }
}

impl Origin {
    fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_goes_and_nobody_else() {
        let strangers = Strangers::default();
        let all = [0; 5].map(|_| Activity::new());
        all.iter().for_each(|one| strangers.add(one, address("10.0.0.1")));
        let [known, gone, oldest, next, _] = all;
        known.admitted();
        drop(gone);
        let turned_away = || [&known, &oldest, &next].map(|one| one.was_turned_away());
        strangers.turn_one_away();
        assert_eq!(turned_away(), [false, true, false]);
        strangers.turn_one_away();
        assert_eq!(turned_away(), [false, true, true]);
        // Nobody of them is kept by being remembered.
        strangers.turn_one_away();
        strangers.turn_one_away();
        strangers.add(&known, address("10.0.0.1"));
        strangers.turn_one_away();
        assert!(!known.was_turned_away());
    }

    #[test]
    fn a_flood_from_one_address_drives_out_itself_alone() {
        for (few, flood) in [
            ("10.0.0.2", ["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"]),
            ("2001:db8:1::1", ["2001:db8::1", "2001:db8::2", "2001:db8::3:4:5:6"]),
        ] {
            let strangers = Strangers::default();
            let newcomer = Activity::new();
            strangers.add(&newcomer, address(few));
            let flood = flood.map(|from| {
                let activity = Activity::new();
                strangers.add(&activity, address(from));
                activity
            });
            let turned_away = || flood.each_ref().map(|one| one.was_turned_away());
            strangers.turn_one_away();
            assert!(!newcomer.was_turned_away(), "{few}");
            assert_eq!(turned_away(), [true, false, false]);
            strangers.turn_one_away();
            assert_eq!(turned_away(), [true, true, false]);
            // Of equals the oldest goes.
            strangers.turn_one_away();
            assert!(newcomer.was_turned_away());
            strangers.turn_one_away();
            assert_eq!(turned_away(), [true, true, true]);
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }
}
