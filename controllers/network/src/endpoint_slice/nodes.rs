//! The cluster's zones, and the services whose hints depend on them.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::Mutex;
use steersman_api::meta::Labels;
use steersman_api::{ArcStr, ObjectKey, Time};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::shared_informer::Change;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Lister, View, keep};
use steersman_kinds::endpoint_slice::AddressType;
use steersman_kinds::node::{Allocatable, Node, Readiness};

use super::topology::{NodeShare, Ratios, ZoneCounts, is_overloaded, ratios};

keep! {
    /// The fields of a node that hints depend on.
    pub struct ZonedNode: Node => Readiness, Allocatable
}

/// The label with a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The labels of nodes that run no pods of services.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// What the controller remembers of zones and hints between syncs.
pub(super) struct Topology {
    nodes: Lister<ZonedNode>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ratios: Ratios,
    /// The hints of each service that has some.
    hints: HashMap<ObjectKey, BTreeMap<AddressType, ZoneCounts>>,
    /// The services that have hints, as upstream's `hintsPopulatedByService`: the address type that was looked at last counts.
    hinted: HashSet<ObjectKey>,
}

impl Topology {
    pub(super) fn new(nodes: Lister<ZonedNode>) -> Self {
        Self { nodes, state: Mutex::default() }
    }

    /// Computes the zones' shares anew.
    pub(super) fn refresh(&self) {
        let (nodes, unreadable) = self.nodes.list_readable();
        for error in unreadable {
            tracing::error!(%error, "Node can't be read, hints do not count it");
        }
        let counts = |node: &&View<ZonedNode>| {
            let labels = &node.meta().labels;
            node.get::<Readiness>().ready.is_true()
                && EXCLUDED.iter().all(|label| labels.get(label).is_none())
        };
        let share = |node: &View<ZonedNode>| NodeShare {
            zone: zone(&node.meta().labels).unwrap_or_default(),
            milli_cpu: node.get::<Allocatable>().cpu.0,
        };
        self.state.lock().ratios = ratios(nodes.iter().filter(counts).map(share));
    }

    /// The services with too few endpoints in a zone.
    pub(super) fn overloaded(&self) -> Vec<ObjectKey> {
        let state = self.state.lock();
        let is = |counts: &BTreeMap<AddressType, ZoneCounts>| {
            counts.values().any(|counts| is_overloaded(counts, &state.ratios))
        };
        state.hints.iter().filter(|(_, counts)| is(counts)).map(|(service, _)| service.clone()).collect()
    }

    pub(super) fn ratios(&self) -> Ratios {
        self.state.lock().ratios.clone()
    }

    /// The zone of a node. The outer `None`: there is no such node.
    #[expect(clippy::option_option, reason = "a node without a zone differs from no node")]
    pub(super) fn zone(&self, node: &ArcStr) -> Option<Option<ArcStr>> {
        let meta = self.nodes.meta(&ObjectKey::new("", node.clone()))?;
        Some(zone(&meta.labels))
    }

    pub(super) fn has_hints(&self, service: &ObjectKey) -> bool {
        self.state.lock().hinted.contains(service)
    }

    /// Replaces the hints of a service's endpoints of one address type. `None`: they have none.
    pub(super) fn set_hints(
        &self,
        service: &ObjectKey,
        address_type: AddressType,
        hints: Option<ZoneCounts>,
    ) {
        let mut state = self.state.lock();
        if let Some(hints) = hints {
            state.hints.entry(service.clone()).or_default().insert(address_type, hints);
            state.hinted.insert(service.clone());
            return;
        }
        state.hinted.remove(service);
        if let Some(types) = state.hints.get_mut(service) {
            types.remove(&address_type);
            if types.is_empty() {
                state.hints.remove(service);
            }
        }
    }

    pub(super) fn forget(&self, service: &ObjectKey) {
        let mut state = self.state.lock();
        state.hints.remove(service);
        state.hinted.remove(service);
    }
}

fn zone(labels: &Labels) -> Option<ArcStr> {
    labels.get(ZONE).filter(|zone| !zone.is_empty()).cloned()
}

/// Whether a change of a node may change the zones' shares. As upstream, a change of processors alone is not looked at.
pub(super) fn concerns_zones(change: &Change<ZonedNode>) -> bool {
    match change {
        Change::Updated { old, new } => {
            let standing =
                |node: &View<ZonedNode>| (node.get::<Readiness>().ready.is_true(), zone(&node.meta().labels));
            standing(old) != standing(new)
        }
        Change::Added { .. } | Change::Deleted { .. } => true,
        Change::Resync { .. } => false,
    }
}

/// Computes the zones' shares after changes of nodes, and syncs the services that are overloaded since.
pub(super) struct TopologyController {
    pub(super) topology: std::sync::Arc<Topology>,
    pub(super) services: WorkQueue<ObjectKey>,
}

impl Controller for TopologyController {
    type Key = &'static str;
    type Observed = ();
    type Step = ();
    type Outcome = ();

    async fn observe(&self, _key: &&'static str) -> Result<Observation<()>, SyncError> {
        self.topology.refresh();
        self.topology.overloaded().into_iter().for_each(|service| self.services.add(service));
        Ok(Observation::Nothing)
    }

    fn plan(&self, _observed: &(), _now: Time) -> Plan<()> {
        Plan::done()
    }

    async fn act(&self, _key: &&'static str, _observed: &(), _step: &()) -> Result<(), SyncError> {
        Ok(())
    }

    fn absorb(&self, _observed: &mut (), _step: (), _result: StepResult<()>) {}
}
