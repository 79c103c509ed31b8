//! What is used of quotas, counted anew where it may have become less: upstream has a controller for that.
//!
//! Admission adds what is written; what goes, or ends, is found here, and so is what a quota that is new, or has changed,
//! is about. A namespace is counted a little later, once for all that has happened in it.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::server::ApiServer;
use crate::admission::{self, QUOTAS, Recount};
use crate::store::Object;

/// Between two counts: what comes in crowds is counted together.
const REST: Duration = Duration::from_millis(200);
/// After so long all is counted, whatever was seen: pods that should have gone count no more. Upstream's period.
const ALL: Duration = Duration::from_secs(300);

/// Namespaces whose quotas are to be counted.
#[derive(Default)]
pub(super) struct Uncounted {
    namespaces: Mutex<BTreeSet<String>>,
    woken: Notify,
}

impl ApiServer {
    /// An object was written, or has gone: is to be counted anew what is used? What is new has been counted as it was
    /// admitted.
    pub(super) fn note_usage(&self, old: Option<&Object>, new: Option<&Object>) {
        let Some(object) = new.or(old) else { return };
        let namespace = &object.key.namespace;
        if !self.settings().counts_quotas || namespace.is_empty() || self.store().len(&QUOTAS.into()) == 0 {
            return;
        }
        let is_quota = new.is_some() && object.resource.table == QUOTAS;
        if is_quota || old.is_some_and(|old| admission::makes_difference(self.store(), old, new)) {
            let uncounted = self.uncounted();
            uncounted.namespaces.lock().insert(namespace.to_string());
            uncounted.woken.notify_one();
        }
    }

    /// Counts, until it is dropped.
    pub(crate) async fn count_quotas(&self) {
        loop {
            self.count_all().await;
            // Ends where it is time to count all.
            let _ = timeout(ALL, self.count_as_they_come()).await;
        }
    }

    async fn count_all(&self) {
        let quotas = self.store().snapshot(&QUOTAS.into(), "", None);
        let quotas = quotas.map(|snapshot| snapshot.objects).unwrap_or_default();
        let namespaces = quotas.iter().map(|quota| quota.key.namespace.to_string());
        self.count_in(namespaces.collect()).await;
    }

    async fn count_as_they_come(&self) {
        loop {
            self.uncounted().woken.notified().await;
            let namespaces = std::mem::take(&mut *self.uncounted().namespaces.lock());
            self.count_in(namespaces).await;
            sleep(REST).await;
        }
    }

    async fn count_in(&self, namespaces: BTreeSet<String>) {
        for namespace in namespaces {
            let recount = Recount::begin(self.store(), &namespace, self.clock().now());
            {
                // Nobody is admitted meanwhile.
                let _turn = self.turn().lock();
                recount.finish();
            }
            yield_now().await;
        }
    }
}
