//! Runs the controllers while this process leads.

use std::time::Duration;

use steersman_client::leader_election::Elector;
use steersman_informer::SharedInformerFactory;
use tokio::select;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::runner::{Controllers, ShutdownTimeout, Timing};

/// Runs the controllers while this process leads, and keeps them standing by while it does not. A lost lease ends a term,
/// but never the process.
pub struct Leadership {
    /// `None` without leader election: then the controllers always run.
    elector: Option<Elector>,
    /// The wait after a term before the process tries to acquire the lease again.
    pause: Duration,
    controllers: Controllers,
    informers: SharedInformerFactory,
    timing: Timing,
}

impl Leadership {
    /// Creates the loop without starting it.
    pub fn new(
        elector: Option<Elector>,
        pause: Duration,
        controllers: Controllers,
        informers: SharedInformerFactory,
        timing: Timing,
    ) -> Self {
        Self { elector, pause, controllers, informers, timing }
    }

    /// Leads or stands by until `stop` is cancelled. Releases the lease before it returns.
    ///
    /// # Errors
    /// If the syncs did not end within the shutdown timeout after `stop`.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), ShutdownTimeout> {
        let Some(elector) = &self.elector else { return self.controllers.run(stop, self.timing).await };
        loop {
            let acquired = CancellationToken::new();
            let acquire = async {
                let term = elector.acquire(stop).await;
                acquired.cancel();
                term
            };
            let (term, ()) = tokio::join!(acquire, self.controllers.stand_by(&acquired));
            let Some(term) = term else { return Ok(()) };

            // While standing by, the queues dropped their keys. A resync of the caches adds them again.
            self.informers.informers().iter().for_each(|informer| informer.resync());
            let leading = stop.child_token();
            let ended = {
                let work = self.controllers.run(&leading, self.timing);
                tokio::pin!(work);
                select! {
                    biased;
                    () = term.lost() => {
                        tracing::warn!("Leadership is lost: stopping controllers, keeping caches");
                        leading.cancel();
                        work.await
                    }
                    ended = &mut work => ended,
                }
            };
            term.release().await;
            if stop.is_cancelled() {
                return ended;
            }
            if let Err(error) = ended {
                tracing::error!(%error, "Dropped syncs that did not end in time; the fence keeps them from writing");
            }
            stop.run_until_cancelled(sleep(self.pause)).await;
        }
    }
}
