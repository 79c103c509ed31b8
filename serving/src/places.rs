//! Places for connections. If all are taken, a connection is closed to make room for a new one.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::activity::{Activity, Standing};
use super::origin::{Origin, Origins};

/// A bounded number of places for connections.
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Oldest first. Connections that have ended stay until the next one comes.
    taken: Mutex<Vec<Taken>>,
    /// Notified when a connection becomes idle.
    idle: Arc<Notify>,
}

/// The place of one connection. Dropping it makes room for another connection.
pub(super) struct Place {
    /// The activity on the connection. Says when the connection must end.
    pub(super) activity: Arc<Activity>,
    _permit: OwnedSemaphorePermit,
}

struct Taken {
    place: Weak<Place>,
    origin: Origin,
}

impl Places {
    /// This many places, all of them free.
    pub(super) fn new(count: usize) -> Self {
        let free = Arc::new(Semaphore::new(count));
        Self { free, taken: Mutex::default(), idle: Arc::default() }
    }

    /// Waits for a place for a new connection from `address`. If none is free, ends the connection that [`first_to_go`]
    /// chooses; if it chooses none, waits until a connection ends or becomes idle.
    pub(super) async fn take(&self, address: IpAddr) -> Arc<Place> {
        let permit = loop {
            let is_room = self.free.available_permits() > 0 || self.turn_one_away();
            let permit = Arc::clone(&self.free).acquire_owned();
            tokio::select! {
                permit = permit => break permit.expect("the semaphore must stay open"),
                () = self.idle.notified(), if !is_room => {}
            }
        };
        let place = Arc::new(Place { activity: Activity::new(Arc::clone(&self.idle)), _permit: permit });
        let mut taken = self.taken.lock();
        taken.retain(|one| one.place.strong_count() > 0);
        taken.push(Taken { place: Arc::downgrade(&place), origin: Origin::of(address) });
        place
    }

    /// Ends the connection that [`first_to_go`] chooses. Returns `false` if it chooses none.
    fn turn_one_away(&self) -> bool {
        let taken = self.taken.lock();
        let open = taken.iter().filter_map(|one| Some((one.place.upgrade()?, one.origin)));
        let open: Vec<(Arc<Place>, Origin)> = open.collect();
        loop {
            let all: Vec<_> =
                open.iter().map(|(place, origin)| (*origin, place.activity.standing())).collect();
            let Some(first) = first_to_go(&all) else { return false };
            // A request may have begun since.
            if open[first].0.activity.turn_away(all[first].1) {
                return true;
            }
        }
    }
}

/// Chooses the connection that must make room for a new one, from all connections, oldest first:
///
/// - A stranger's, if there is any: the oldest from the origin that has the most strangers. The oldest has had the most time
///   to authenticate.
/// - Otherwise the one that has been idle longest, from the origin that has the most connections of those with an idle one.
///   Any user with a token can have known connections, and must not keep the others out.
///
/// So a flood from one address displaces only itself. A connection of a known client is not chosen while a request is under way.
fn first_to_go(all: &[(Origin, Standing)]) -> Option<usize> {
    let is_stranger = |standing| standing == Standing::Stranger;
    let strangers: Origins =
        all.iter().filter(|(_, standing)| is_stranger(*standing)).map(|(origin, _)| *origin).collect();
    let oldest =
        all.iter().position(|(origin, standing)| is_stranger(*standing) && strangers.is_largest(*origin));
    if oldest.is_some() {
        return oldest;
    }
    let origins: Origins = all.iter().map(|(origin, _)| *origin).collect();
    let idle = all.iter().enumerate().filter_map(|(index, (origin, standing))| match standing {
        Standing::Idle(since) => Some((Reverse(origins.count(*origin)), *since, index)),
        Standing::Stranger | Standing::Busy | Standing::Ending => None,
    });
    idle.min().map(|(_, _, index)| index)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn strangers_make_room_first_then_the_connection_that_has_been_idle_longest() {
        let began = Instant::now();
        let idle = |seconds| Standing::Idle(began + Duration::from_secs(seconds));
        let (stranger, busy) = (Standing::Stranger, Standing::Busy);
        for (all, expected) in [
            (vec![], None),
            (vec![(A, busy), (A, Standing::Ending)], None),
            (vec![(A, idle(0)), (A, stranger), (A, stranger)], Some(1)),
            (vec![(A, stranger), (B, stranger), (B, stranger)], Some(1)),
            (vec![(A, stranger), (B, idle(0)), (B, idle(0))], Some(0)),
            (vec![(A, idle(2)), (A, idle(1)), (A, idle(3))], Some(1)),
            (vec![(A, idle(1)), (A, idle(1))], Some(0)),
            (vec![(A, busy), (A, idle(1)), (A, busy)], Some(1)),
            (vec![(B, idle(0)), (A, idle(2)), (A, idle(1))], Some(2)),
            // Busy connections count, too.
            (vec![(B, idle(0)), (A, busy), (A, idle(1))], Some(2)),
            (vec![(A, busy), (A, busy), (B, idle(0))], Some(2)),
        ] {
            let all: Vec<_> =
                all.into_iter().map(|(at, standing)| (Origin::of(address(at)), standing)).collect();
            assert_eq!(first_to_go(&all), expected, "{all:?}");
        }
    }

    /// Which of the connections must end.
    fn ended<const N: usize>(places: &[Arc<Place>; N]) -> [bool; N] {
        places.each_ref().map(|place| place.activity.was_turned_away())
    }

    #[tokio::test]
    async fn a_flood_from_one_address_displaces_only_itself() {
        for (few, flood) in [
            (B, [A, A, "::ffff:10.0.0.1"]),
            ("2001:db8:1::1", ["2001:db8::1", "2001:db8::2", "2001:db8::3:4:5:6"]),
        ] {
            let places = Places::new(4);
            let newcomer = places.take(address(few)).await;
            let [one, two, three] = flood.map(address);
            let flood = [places.take(one).await, places.take(two).await, places.take(three).await];
            assert!(places.turn_one_away() && !newcomer.activity.was_turned_away(), "{few}");
            assert_eq!(ended(&flood), [true, false, false]);
            assert!(places.turn_one_away());
            assert_eq!(ended(&flood), [true, true, false]);
            // Among equals, the oldest goes.
            assert!(places.turn_one_away() && newcomer.activity.was_turned_away());
            assert!(places.turn_one_away());
            assert_eq!(ended(&flood), [true, true, true]);
            assert!(!places.turn_one_away());
        }
    }

    #[tokio::test]
    async fn a_new_connection_waits_until_one_has_ended() {
        let places = Places::new(1);
        let stranger = places.take(address(A)).await;
        let mut next = std::pin::pin!(places.take(address(B)));
        assert!(next.as_mut().now_or_never().is_none());
        assert!(stranger.activity.was_turned_away());
        drop(stranger);
        assert!(next.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_connection_of_a_known_client_makes_room_once_no_request_is_under_way() {
        let places = Places::new(1);
        let known = places.take(address(A)).await;
        let (first, second) = (known.activity.begin(), known.activity.begin());
        known.activity.admitted();
        let mut next = std::pin::pin!(places.take(address(B)));
        assert!(next.as_mut().now_or_never().is_none());
        drop(first);
        assert!(next.as_mut().now_or_never().is_none());
        assert!(!known.activity.was_turned_away());
        drop(second);
        assert!(next.as_mut().now_or_never().is_none());
        assert!(known.activity.was_turned_away());
        drop(known);
        assert!(next.now_or_never().is_some());
    }
}
