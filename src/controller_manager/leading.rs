//! Controllers run while this process leads.

use std::time::Duration;

use steersman_client::leader_election::Elector;
use steersman_controller::runner::{Controllers, ShutdownTimeout, Timing};
use steersman_informer::SharedInformerFactory;
use tokio::select;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Has the controllers run while this process leads, and stand by while it does not. A lost lease ends a term, never the
/// process.
pub(crate) struct Leadership {
    /// Absent where nobody is asked.
    elector: Option<Elector>,
    /// The wait after a term before standing again.
    pause: Duration,
    controllers: Controllers,
    informers: SharedInformerFactory,
    timing: Timing,
}

impl Leadership {
    /// Not running yet.
    pub(crate) fn new(
        elector: Option<Elector>,
        pause: Duration,
        controllers: Controllers,
        informers: SharedInformerFactory,
        timing: Timing,
    ) -> Self {
        Self { elector, pause, controllers, informers, timing }
    }

    /// Leads, or stands by, until `stop` is cancelled. The lease is released by then.
    ///
    /// # Errors
    /// At the stop, syncs did not end in time.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> Result<(), ShutdownTimeout> {
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

            // What was thrown away while standing by comes back from the caches.
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
