//! A term of leadership, and the task that renews it.

use std::{future::Future, sync::Arc};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::{select, sync::OwnedMutexGuard, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::elector::{Aim, Candidate, Shared, Tried};
use crate::{events::EventType, fence::Opening};

/// A term of leadership. It ends when the lease is lost, when the caller [releases](Self::release) it, or when this
/// is dropped.
///
/// The fence is open during the term and closed after it. Dropping the term ends it at once, but other candidates
/// must wait until the lease expires. [`release`](Self::release) frees the lease for them.
pub struct Term {
    opening: Arc<Opening>,
    resign: CancellationToken,
    renewal: JoinSet<()>,
}

/// Closes the fence and reports the end of a term when dropped, however the term ends.
struct Tenure {
    shared: Arc<Shared>,
    opening: Arc<Opening>,
    lease: ObjectReference,
}

impl Term {
    pub(super) fn begin(
        shared: Arc<Shared>,
        candidate: OwnedMutexGuard<Candidate>,
        opening: Opening,
    ) -> Self {
        let (opening, resign) = (Arc::new(opening), CancellationToken::new());
        let span = tracing::info_span!("lease_renewal", lease = shared.config.name);
        let tenure = Tenure::begin(shared, opening.clone(), candidate.reference());
        let mut renewal = JoinSet::new();
        renewal.spawn(renew(tenure, candidate, resign.clone()).instrument(span));
        Self { opening, resign, renewal }
    }

    /// Resolves when the term is over.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        self.opening.ended()
    }

    /// Ends the term and releases the lease, within the renew deadline. The caller must have stopped everything that
    /// only a leader may do. Writes still under way are abandoned. If the lease is lost already, does nothing.
    pub async fn release(mut self) {
        self.resign.cancel();
        while let Some(ended) = self.renewal.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "Lease renewal task failed");
            }
        }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.opening.close();
    }
}

/// Renews the lease until the term is lost or the caller resigns. Holds the candidate all the time.
async fn renew(tenure: Tenure, mut candidate: OwnedMutexGuard<Candidate>, resign: CancellationToken) {
    let config = &tenure.shared.config;
    let mut ended = std::pin::pin!(tenure.opening.ended());
    loop {
        let tried = select! {
            // The end first: a process that was stopped for too long must not renew.
            biased;
            () = &mut ended => {
                tracing::warn!(lease = config.name, "Lost lease: not renewed in time");
                return;
            }
            () = resign.cancelled() => break,
            tried = async {
                sleep(config.retry_period).await;
                candidate.attempt(Aim::Keep).await
            } => tried,
        };
        match tried {
            // If the response came too late, the term has ended: the next iteration finds that.
            Ok(Tried::Ours { since }) => {
                tenure.opening.extend(since + config.renew_deadline);
            }
            Ok(Tried::NotOurs(why)) => {
                tracing::warn!(lease = config.name, %why, "Lost lease");
                return;
            }
            Err(error) => {
                tracing::warn!(lease = config.name, %error, "Failed to renew lease, will try again")
            }
        }
    }
    // Closes the fence before other candidates may lead.
    drop(tenure);
    candidate.release().await;
}

impl Tenure {
    fn begin(shared: Arc<Shared>, opening: Arc<Opening>, lease: ObjectReference) -> Self {
        let tenure = Self { shared, opening, lease };
        tenure.shared.metrics.leading(&tenure.shared.config.name);
        tenure.record("became leader");
        tracing::info!(lease = tenure.shared.config.name, "Successfully acquired lease");
        tenure
    }

    fn record(&self, what: &str) {
        let message = format!("{} {what}", self.shared.config.identity);
        self.shared.recorder.event(&self.lease, EventType::Normal, "LeaderElection", message);
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.opening.close();
        self.shared.metrics.following(&self.shared.config.name);
        self.record("stopped leading");
    }
}
