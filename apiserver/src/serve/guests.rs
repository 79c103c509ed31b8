//! The open connections, and which of them is closed when there is no room for a new one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;

use steersman_serving::{Origin, Origins};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use crate::rest::Connection;

/// One connection: its client and its requests.
#[derive(Clone)]
pub(super) struct Guest {
    /// The client's address, and whether the client has authenticated itself.
    pub(super) connection: Connection,
    /// Its requests.
    pub(super) activity: Activity,
}

/// The tasks that serve connections. Dropping it ends all of them.
#[derive(Default)]
pub(super) struct Guests {
    tasks: JoinSet<()>,
    /// One entry for each of `tasks`, without those that have been turned away.
    open: HashMap<Id, (Guest, CancellationToken)>,
}

/// The properties of a connection that decide whether it must make room for a new one.
#[derive(Debug, Clone, Copy)]
struct Standing {
    /// Whether its client has authenticated itself.
    is_known: bool,
    origin: Origin,
    /// Since when it has no request under way; `None` if it has one.
    idle_since: Option<Instant>,
}

impl Guest {
    /// A new connection from this address.
    pub(super) fn at(peer: IpAddr) -> Self {
        Self { connection: Connection::with(peer), activity: Activity::begin() }
    }

    fn standing(&self) -> Standing {
        Standing {
            is_known: self.connection.is_known(),
            origin: Origin::of(self.connection.peer()),
            idle_since: self.activity.idle_since(),
        }
    }
}

impl Guests {
    /// The number of open connections.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Serves a connection in a task of its own.
    pub(super) fn take_in(&mut self, guest: Guest, served: impl Future<Output = ()> + Send + 'static) {
        let leave = CancellationToken::new();
        let left = leave.clone();
        let task = self.tasks.spawn(async move {
            let _ = left.run_until_cancelled(served).await;
        });
        self.open.insert(task.id(), (guest, leave));
    }

    /// Closes the connection that [`least`] chooses, and waits until there is room. Returns `false` if it chooses none.
    pub(super) async fn turn_one_away(&mut self) -> bool {
        let all = self.open.iter().map(|(id, (guest, _))| (*id, guest.standing()));
        let Some((_, leave)) = least(all).and_then(|id| self.open.remove(&id)) else { return false };
        leave.cancel();
        self.one_left().await;
        true
    }

    /// Resolves when a connection has ended; never if there is none.
    pub(super) async fn one_left(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => {
                let id = ended.map_or_else(|panicked: JoinError| panicked.id(), |(id, ())| id);
                self.open.remove(&id);
            }
            None => std::future::pending().await,
        }
    }

    /// Resolves when all connections have ended.
    pub(super) async fn all_left(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Ends all connections.
    pub(super) async fn shut_out(&mut self) {
        self.tasks.shutdown().await;
    }
}

/// Chooses the connection that must make room. The candidates are the connections of unauthenticated clients or, if there are
/// none, the idle ones of authenticated clients: a user with a token may open any number and must not lock out the others.
/// Among the candidates, the origin with the most connections loses the one that has been idle longest, so a flood from one
/// address displaces only itself. An unauthenticated client's busy connection is chosen only if none of that origin is idle.
fn least<T>(all: impl Iterator<Item = (T, Standing)>) -> Option<T> {
    let (known, strangers): (Vec<_>, Vec<_>) = all.partition(|(_, standing)| standing.is_known);
    let all = if strangers.is_empty() { known } else { strangers };
    let origins: Origins = all.iter().map(|(_, standing)| standing.origin).collect();
    let candidates =
        all.into_iter().filter(|(_, standing)| !standing.is_known || standing.idle_since.is_some());
    let first = candidates.min_by_key(|(_, standing)| {
        (Reverse(origins.count(standing.origin)), standing.idle_since.is_none(), standing.idle_since)
    });
    first.map(|(guest, _)| guest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn strangers_make_room_first_then_the_connection_that_has_been_idle_longest() {
        let began = Instant::now();
        let origin = |last| Origin::of([10, 0, 0, last].into());
        let idle_at = |is_known, last, seconds| Standing {
            is_known,
            origin: origin(last),
            idle_since: Some(began + Duration::from_secs(seconds)),
        };
        let idle = |is_known, seconds| idle_at(is_known, 1, seconds);
        let busy = |is_known| Standing { is_known, origin: origin(1), idle_since: None };
        for (all, expected) in [
            (vec![], None),
            (vec![busy(true), busy(true)], None),
            (vec![busy(true), idle(true, 1), idle(true, 0)], Some(2)),
            (vec![idle_at(true, 2, 0), idle(true, 2), idle(true, 1)], Some(2)),
            // Busy connections count, too.
            (vec![idle_at(true, 2, 0), busy(true), idle(true, 1)], Some(2)),
            (vec![idle_at(true, 2, 0), busy(true), busy(true)], Some(0)),
            (vec![idle(true, 0), idle(false, 2), idle(false, 1), busy(false)], Some(2)),
            (vec![idle(true, 0), busy(false)], Some(1)),
            (vec![idle_at(false, 2, 0), idle(false, 2), idle(false, 1)], Some(2)),
            (vec![idle_at(false, 2, 0), idle(false, 1), busy(false)], Some(1)),
            (vec![idle_at(false, 2, 0), busy(false), busy(false)], Some(1)),
            (vec![idle_at(false, 2, 0), idle(false, 1)], Some(0)),
            (vec![idle_at(false, 2, 0), idle(false, 1), idle(true, 1), idle(true, 1)], Some(0)),
        ] {
            assert_eq!(least(all.iter().copied().enumerate()), expected, "{all:?}");
        }
    }
}
