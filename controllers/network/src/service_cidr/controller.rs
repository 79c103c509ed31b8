//! Syncs of ServiceCIDRs: where observations come from, and how steps are carried out.

use std::collections::HashSet;
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::{ObjectKey, ResourceVersion, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::{Changed, Client, Patch, Wrote, event_reference};
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::own_writes::{Awaited, Freshness, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_informer::wire::Group;
use steersman_informer::{Change, Informer, Lister, Object};
use steersman_kinds::service_cidr::{ServiceCIDR, ServiceCidrSpec, ServiceCidrStatus};

use super::observed::{Condition, FINALIZER, Observed, Outcome, READY};
use super::plan::{Step, plan};
use super::{COMPONENT, NamedAddress, SyncedServiceCidr, ranges, service_address};
use crate::membership::unreadable;

/// How long a sync waits for the cache to show the controller's own writes, before it reads the ServiceCIDR from the API server.
const PATIENCE: Duration = Duration::from_secs(5);
/// The label of an IPAddress with its IP family.
const IP_FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// Keeps the finalizer and the condition of ServiceCIDRs up to date.
pub(super) struct ServiceCidrController {
    cidrs: Lister<SyncedServiceCidr>,
    addresses: Lister<NamedAddress>,
    client: Client<ServiceCIDR>,
    recorder: Recorder,
    clock: Clock,
    own_writes: OwnWrites,
    /// The ServiceCIDRs whose finalizer this process has removed. They give no more addresses, though the cache may still show
    /// them.
    let_go: Mutex<HashSet<Uid>>,
}

impl ServiceCidrController {
    pub(super) fn new(
        context: &ControllerContext,
        cidrs: &Informer<SyncedServiceCidr>,
        addresses: Lister<NamedAddress>,
    ) -> Self {
        Self {
            cidrs: cidrs.lister(),
            addresses,
            client: Client::keeping::<SyncedServiceCidr>(context.client_for("service-cidrs-controller")),
            recorder: context.recorder(COMPONENT),
            clock: context.clock.clone(),
            own_writes: OwnWrites::new(PATIENCE).over(&cidrs.any()),
            let_go: Mutex::default(),
        }
    }

    /// Forgets a ServiceCIDR that the cache shows no more.
    pub(super) fn changed(&self, change: &Change<SyncedServiceCidr>) {
        let [old, new] = [change.old(), change.new()].map(|cidr| cidr.map(|cidr| &cidr.meta().uid));
        if old != new {
            old.into_iter().for_each(|uid| _ = self.let_go.lock().remove(uid));
        }
    }

    fn observed(&self, cidr: &ServiceCIDR) -> Observed {
        let groups = ServiceCidrSpec::of(cidr).zip(ServiceCidrStatus::of(cidr));
        let (spec, status) = groups.expect("the groups that the controller reads must be kept");
        let mut observed = Observed::of(cidr, &spec.cidrs.0, &status.conditions);
        if observed.deleted.is_some() {
            observed.others = self.others(&cidr.meta().key);
            self.addresses.for_each_meta(|address| {
                let ip = service_address(address).filter(|ip| {
                    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
                    address.labels.get(IP_FAMILY).is_some_and(|labelled| labelled == family)
                });
                observed.addresses.extend(ip);
            });
        }
        observed
    }

    /// The ranges of all other ServiceCIDRs. Leaves out those that can't be read, so that nothing relies on them.
    fn others(&self, own: &ObjectKey) -> Vec<Vec<IpNet>> {
        let (all, _) = self.cidrs.list_readable();
        let let_go = self.let_go.lock();
        let others = all.iter().filter(|cidr| cidr.meta().key != *own && !let_go.contains(&cidr.meta().uid));
        others.map(|cidr| ranges(cidr).to_vec()).collect()
    }

    /// The ServiceCIDR as the API server has it.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Observed>, SyncError> {
        let current = self.client.get(key).await?;
        let version = current.as_ref().map_or(ResourceVersion::ANY, |cidr| cidr.meta().resource_version);
        self.own_writes.reread(key, [Wrote::of::<ServiceCIDR>(version)], |_| true);
        Ok(current.map(|cidr| self.observed(&cidr)))
    }

    async fn patch(&self, key: &ObjectKey, patch: Patch) -> Result<Outcome, SyncError> {
        let patched = self.own_writes.write(key, self.client.patch(key, &patch)).await?;
        outcome(patched, key)
    }

    async fn remove_finalizer(&self, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let uid = self.cidrs.meta(key).map(|cidr| cidr.uid);
        // Even if no answer comes, the ServiceCIDR may be gone.
        self.let_go.lock().extend(uid.clone());
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
        let removed = self.patch(key, Patch::Strategic(patch)).await;
        if let (Some(uid), Err(error)) = (uid, &removed)
            && error.surely_not_done()
        {
            self.let_go.lock().remove(&uid);
        }
        removed
    }

    async fn set_ready(&self, key: &ObjectKey, condition: &Condition) -> Result<Outcome, SyncError> {
        let condition = json!({
            "type": READY, "status": condition.status.as_str(), "reason": &*condition.reason,
            "message": condition.message.as_str(), "lastTransitionTime": self.clock.now().to_string(),
        });
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": key.name.as_str()},
            "status": {"conditions": [condition]},
        });
        let apply = Patch::Apply { manager: COMPONENT, object };
        let applied = self.own_writes.write(key, self.client.patch_status(key, &apply)).await?;
        outcome(applied, key)
    }

    fn record_failure(&self, key: &ObjectKey, condition: &Condition, error: &SyncError) {
        if *condition != Condition::ready() || error.is_end_of_leadership() {
            return;
        }
        if let Some(cidr) = self.cidrs.meta(key) {
            let message = "The ServiceCIDR Status can not be set to Ready=True";
            let involved = event_reference::<ServiceCIDR>(&cidr);
            self.recorder.event(
                &involved,
                EventType::Warning,
                "KubernetesServiceCIDRError",
                message.to_owned(),
            );
        }
    }
}

fn outcome(changed: Changed<ServiceCIDR>, key: &ObjectKey) -> Result<Outcome, SyncError> {
    let changed = changed.or_conflict(|| format!("patching ServiceCIDR {key}"))?;
    Ok(changed.map_or(Outcome::Gone, |_| Outcome::Done))
}

impl Controller for ServiceCidrController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.own_writes.awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let observed = match self.own_writes.check(key) {
            Freshness::Current => {
                let cidr = self.cidrs.get(key).map_err(unreadable)?;
                cidr.map(|cidr| self.observed(cidr.object()))
            }
            Freshness::Behind { .. } => return Ok(Observation::Behind(PATIENCE)),
            Freshness::Doubtful => self.read(key).await?,
        };
        Ok(observed.map_or_else(
            || {
                self.own_writes.forget(key);
                Observation::Nothing
            },
            Observation::Ready,
        ))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        // The rest of the grace period has fractions of a second.
        plan(observed, self.clock.timestamp())
    }

    async fn act(&self, key: &ObjectKey, _: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::AddFinalizer => {
                let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
                self.patch(key, Patch::Strategic(patch)).await
            }
            Step::SetReady(condition) => self
                .set_ready(key, condition)
                .await
                .inspect_err(|error| self.record_failure(key, condition, error)),
            Step::RemoveFinalizer => self.remove_finalizer(key).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, &result);
    }
}
