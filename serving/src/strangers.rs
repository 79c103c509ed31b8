//! Connections of strangers: those without an authorized request so far. One of them is closed when there is no room.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::activity::Activity;
use super::origin::{Origin, Origins};

/// Connections of strangers, the oldest first. Connections of others, and such that have ended, may be among them until the
/// next one is added.
#[derive(Default)]
pub(super) struct Strangers(Mutex<VecDeque<Stranger>>);

struct Stranger {
    connection: Weak<Activity>,
    origin: Origin,
}

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
        let origins: Origins = all.iter().map(|stranger| stranger.origin).collect();
        let is_of_most = |stranger: &Stranger| origins.is_largest(stranger.origin);
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
