//! Whether the annotation of a node must be written.

use steersman_controller::plan::Plan;

/// The TTL of a node, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// The annotation's value. `None` if the node has no such annotation, or its value is not a number.
    pub current: Option<i64>,
    /// The value that fits the size of the cluster.
    pub wanted: i64,
}

/// Sets the annotation to this number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Annotate(pub i64);

pub(super) fn plan(observed: Observed) -> Plan<Annotate> {
    if observed.current == Some(observed.wanted) {
        return Plan::done();
    }
    Plan::step(Annotate(observed.wanted))
}
