//! An accepted connection: its client and its requests.

use std::net::IpAddr;
use std::sync::Arc;

use steersman_serving::{Evictable, Standing};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::activity::Activity;
use crate::rest::Connection;

/// An accepted connection. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(super) struct Accepted {
    /// The client's address, and whether the client has authenticated itself.
    pub(super) connection: Connection,
    /// Its requests.
    pub(super) activity: Activity,
    since: Instant,
}

impl Accepted {
    /// A new connection from this address. Notifies `idle` whenever it has no more requests under way.
    pub(super) fn at(peer: IpAddr, idle: Arc<Notify>) -> Self {
        Self { connection: Connection::with(peer), activity: Activity::begin(idle), since: Instant::now() }
    }
}

impl Evictable for Accepted {
    fn standing(&self) -> Standing {
        match self.activity.idle_since() {
            _ if !self.connection.is_known() => Standing::Stranger(self.since),
            Some(since) => Standing::Idle(since),
            None => Standing::Busy(self.since),
        }
    }
}
