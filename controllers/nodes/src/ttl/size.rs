//! The size of the cluster, in steps with hysteresis.

use parking_lot::Mutex;
use steersman_kinds::node::ObjectTtl;

/// A range of cluster sizes. The ranges of neighbouring steps overlap, so that a cluster whose size varies a little does not
/// change its TTL again and again.
struct Step {
    /// A cluster with fewer nodes goes one step down.
    min: usize,
    /// A cluster with more nodes goes one step up.
    max: usize,
    /// The TTL in seconds.
    ttl: i64,
}

/// Upstream's steps.
const STEPS: [Step; 5] = [
    Step { min: 0, max: 100, ttl: 0 },
    Step { min: 90, max: 500, ttl: 15 },
    Step { min: 450, max: 1000, ttl: 30 },
    Step { min: 900, max: 2000, ttl: 60 },
    Step { min: 1800, max: usize::MAX, ttl: 300 },
];

/// The step of the cluster's size. Begins at the lowest one.
#[derive(Debug, Default)]
pub(super) struct ClusterSize {
    /// An index of [`STEPS`].
    step: Mutex<usize>,
}

impl ClusterSize {
    /// Sets the number of nodes. Returns whether that changes the TTL.
    pub(super) fn resize(&self, nodes: usize) -> bool {
        let mut step = self.step.lock();
        let before = *step;
        while nodes > STEPS[*step].max {
            *step += 1;
        }
        while nodes < STEPS[*step].min {
            *step -= 1;
        }
        *step != before
    }

    /// The TTL in seconds that all nodes should have.
    pub(super) fn ttl(&self) -> i64 {
        STEPS[*self.step.lock()].ttl
    }

    /// Whether a node has that TTL.
    pub(super) fn fits(&self, node: &ObjectTtl) -> bool {
        node.seconds.0 == Some(self.ttl())
    }
}
