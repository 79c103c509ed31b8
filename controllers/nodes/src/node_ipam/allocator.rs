//! The ledger of the current term, which syncs and changes of the cache share.

use std::collections::HashSet;

use parking_lot::Mutex;
use steersman_api::{ArcStr, ObjectKey, Uid};
use steersman_controller::controller::SyncError;

use super::ledger::{Certainty, Exhausted, Holding, Ledger, Misfit};
use super::metrics::Metrics;

/// The ledger of the current term. It keeps the metrics up to date.
pub(super) struct Allocator {
    /// The ledger in which no node holds anything.
    empty: Ledger,
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until this term's first list of nodes.
    ledger: Option<Ledger>,
    /// The nodes that found no free block.
    waiting: HashSet<ObjectKey>,
}

/// A node of this term's first list.
pub(super) struct Listed {
    /// The node.
    pub uid: Uid,
    /// The node's name.
    pub name: ArcStr,
    /// The node's ranges.
    pub cidrs: Vec<ArcStr>,
}

impl Allocator {
    /// An allocator over this ledger, in which no node holds anything yet.
    pub(super) fn new(mut empty: Ledger, metrics: Metrics) -> Self {
        metrics.report(empty.sets());
        Self { empty, metrics, state: Mutex::default() }
    }

    /// Forgets all nodes: another process may have led and allocated meanwhile.
    pub(super) fn forget(&self) {
        *self.state.lock() = State::default();
    }

    /// Whether this term's first list has been [taken in](Self::begin).
    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().ledger.is_some()
    }

    /// Takes in this term's first list. `is_gone` tells of a node whether the cache has seen its deletion since: its
    /// [`release`](Self::release) came before the list, and had nothing to release.
    pub(super) fn begin(&self, nodes: &[Listed], is_gone: impl Fn(&Uid) -> bool) {
        let mut state = self.state.lock();
        let mut ledger = self.empty.clone();
        for node in nodes.iter().filter(|node| !node.cidrs.is_empty()) {
            // The sync of the node reports the misfit again, and returns it.
            if let Err(error) = ledger.written(&node.uid, &node.name, &node.cidrs) {
                tracing::error!(%error, "Node has a range that the cluster ranges do not provide for");
            }
        }
        for node in ledger.nodes() {
            if is_gone(&node) {
                ledger.release(&node);
            }
        }
        self.metrics.report(ledger.sets());
        state.ledger = Some(ledger);
    }

    /// What a node holds.
    pub(super) fn holding(&self, node: &Uid) -> Option<Holding> {
        self.state.lock().ledger.as_ref()?.holding(node).cloned()
    }

    /// Records the ranges that a node has.
    ///
    /// # Errors
    /// The cluster ranges do not provide for one of them, or no term has begun.
    pub(super) fn written(&self, node: &Uid, name: &str, cidrs: &[ArcStr]) -> Result<(), SyncError> {
        let recorded: Result<(), Misfit> = self.change(|ledger| ledger.written(node, name, cidrs))?;
        recorded.map_err(|misfit| SyncError::Failed(misfit.to_string()))
    }

    /// Holds the next free blocks for a node. If there are none, remembers the node until blocks become free.
    ///
    /// # Errors
    /// No term has begun.
    pub(super) fn propose(
        &self,
        node: &Uid,
        key: &ObjectKey,
    ) -> Result<Result<Holding, Exhausted>, SyncError> {
        let mut state = self.state.lock();
        let State { ledger, waiting } = &mut *state;
        let ledger = ledger.as_mut().ok_or_else(not_begun)?;
        let proposed = ledger.propose(node).cloned();
        self.metrics.report(ledger.sets());
        if proposed.is_err() {
            waiting.insert(key.clone());
        }
        Ok(proposed)
    }

    /// Records what the outcome of a write says about the blocks of a node.
    pub(super) fn now(&self, node: &Uid, certainty: Certainty) {
        if let Some(ledger) = &mut self.state.lock().ledger {
            ledger.now(node, certainty);
        }
    }

    /// Releases the blocks of a node. Returns the nodes that waited for free blocks.
    pub(super) fn release(&self, node: &Uid) -> HashSet<ObjectKey> {
        let mut state = self.state.lock();
        let State { ledger: Some(ledger), waiting } = &mut *state else { return HashSet::new() };
        if !ledger.release(node) {
            return HashSet::new();
        }
        self.metrics.report(ledger.sets());
        std::mem::take(waiting)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> Result<T, SyncError> {
        let mut state = self.state.lock();
        let ledger = state.ledger.as_mut().ok_or_else(not_begun)?;
        let result = change(ledger);
        self.metrics.report(ledger.sets());
        Ok(result)
    }
}

fn not_begun() -> SyncError {
    SyncError::Failed("the nodes that have ranges are not known yet".to_owned())
}
