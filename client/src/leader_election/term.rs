//! A term of leadership, and the task that renews it.

use std::{future::Future, sync::Arc};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::{select, sync::OwnedMutexGuard, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::elector::{Aim, Candidate, Shared, Tried};
use crate::{events::EventType, fence::Opening};

/// The time during which this process leads: until the lease is lost, [released](Self::release), or this is dropped.
///
/// The fence is open during the term and closed after it. Dropping ends the term at once, but leaves the lease to
/// expire; [`release`](Self::release) frees it for others.
pub struct Term {
    opening: Arc<Opening>,
    resign: CancellationToken,
    renewal: JoinSet<()>,
}

/// What is undone when a term ends, however it ends.
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

    /// Resolves when this process does not lead any more.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        self.opening.ended()
    }

    /// Ends the term and frees the lease, within the renew deadline. The caller has stopped everything that only a
    /// leader may do; writes still under way are given up. After a loss there is nothing to free.
    pub async fn release(mut self) {
        self.resign.cancel();
        while let Some(ended) = self.renewal.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "The renewal of the lease broke off");
            }
        }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.opening.close();
    }
}

/// Renews until the term is lost or resigned; nothing else may use the candidate meanwhile.
async fn renew(tenure: Tenure, mut candidate: OwnedMutexGuard<Candidate>, resign: CancellationToken) {
    let config = &tenure.shared.config;
    let mut ended = std::pin::pin!(tenure.opening.ended());
    loop {
        let tried = select! {
            // Time first: a process that was stopped for too long must not renew.
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
            // If the answer came too late, the term has ended, as the next turn will find.
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
    // The fence closes before others may lead.
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
