//! How long operations take that other parties carry out.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_api::{ArcStr, ObjectKey};
use tokio::time::Instant;

use super::metrics::Metrics;

/// An operation that another party carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// The name of the plugin or of the external provisioner.
    pub plugin: ArcStr,
    /// `provision` or `delete`.
    pub name: &'static str,
}

/// Maximum number of operations whose time is measured. The times of further ones are not.
const MOST: usize = 100_000;

/// The operations under way, by the claim or the volume that they are for. Upstream's `OperationStartTimeCache`.
#[derive(Default)]
pub(super) struct Operations(Mutex<HashMap<ObjectKey, (Operation, Instant)>>);

impl Operations {
    /// Begins an operation, unless one is under way.
    pub(super) fn begin(&self, key: &ObjectKey, operation: &Operation) {
        let mut all = self.0.lock();
        if all.len() < MOST && !all.contains_key(key) {
            all.insert(key.clone(), (operation.clone(), Instant::now()));
        }
    }

    /// Ends an operation that succeeded, if one is under way.
    pub(super) fn succeeded(&self, key: &ObjectKey, metrics: &Metrics) {
        if let Some((operation, since)) = self.0.lock().remove(key) {
            metrics.took(&operation, since.elapsed());
        }
    }

    /// Counts a failure of an operation, if one is under way. It goes on.
    pub(super) fn failed(&self, key: &ObjectKey, metrics: &Metrics) {
        if let Some((operation, _)) = self.0.lock().get(key) {
            metrics.failed(operation);
        }
    }

    /// Forgets an operation that has become pointless.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// Forgets all operations.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
