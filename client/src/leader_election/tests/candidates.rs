//! Candidates whose parts a test can see.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::lease_server::{LeaseServer, Link};
use crate::{
    Clients,
    events::{self, Recorder, Writers},
    gate::WriteGate,
    leader_election::{Config, Elector, Metrics, Term},
    testing::Scripted,
};

pub(super) struct Candidate {
    pub(super) elector: Elector,
    pub(super) link: Link,
    pub(super) metrics: Metrics,
    /// Shows what the elector has recorded.
    pub(super) events: Recorder,
    /// Not running, so that events stay in the queue.
    _writers: Writers,
    pub(super) stop: CancellationToken,
}

pub(super) fn candidate(server: &LeaseServer, name: &str) -> Candidate {
    let (link, metrics) = (Link::default(), Metrics::new());
    let client = server.client(name, &link);
    let (broadcaster, writers) =
        events::broadcaster(&Clients::over(Scripted::in_turn([])), events::Metrics::new());
    let events = broadcaster.recorder("tester");
    let config = Config::new("kube-system", "test", name);
    let elector = Elector::new(config, client, events.clone(), metrics.clone()).unwrap();
    Candidate { elector, link, metrics, events, _writers: writers, stop: CancellationToken::new() }
}

impl Candidate {
    pub(super) async fn leads(&self) -> Term {
        timeout(secs(60), self.elector.acquire(&self.stop)).await.unwrap().unwrap()
    }

    pub(super) fn may_write(&self) -> bool {
        self.elector.fence().admit().is_ok()
    }
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
