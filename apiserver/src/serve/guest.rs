//! One connection: its client and its requests.

use std::net::IpAddr;
use std::sync::Arc;

use steersman_serving::guests::{self, Standing};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::activity::Activity;
use crate::rest::Connection;

/// One connection. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(super) struct Guest {
    /// The client's address, and whether the client has authenticated itself.
    pub(super) connection: Connection,
    /// Its requests.
    pub(super) activity: Activity,
    since: Instant,
}

impl Guest {
    /// A new connection from this address. Notifies `idle` whenever it has no more requests under way.
    pub(super) fn at(peer: IpAddr, idle: Arc<Notify>) -> Self {
        Self { connection: Connection::with(peer), activity: Activity::begin(idle), since: Instant::now() }
    }
}

impl guests::Guest for Guest {
    fn standing(&self) -> Standing {
        match self.activity.idle_since() {
            _ if !self.connection.is_known() => Standing::Stranger(self.since),
            Some(since) => Standing::Idle(since),
            None => Standing::Busy(self.since),
        }
    }
}
