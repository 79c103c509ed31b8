//! Syncs of DeviceTaintRules: their status.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::Meta;
use steersman_controller::client::{Patch, group_version_kind};
use steersman_controller::controller::SyncError;
use steersman_controller::plan::Plan;
use steersman_informer::View;
use steersman_kinds::device_allocation::AllocatedDevices;
use steersman_kinds::device_taint::NO_EXECUTE;
use steersman_kinds::device_taint_rule::{DeviceTaintRule, RuleCondition, RuleStatus, TaintRule};
use steersman_kinds::pod::Placement;
use steersman_kinds::resource_slice::{PublishedDevices, TaintedDevices};

use super::controller::EvictionController;
use super::eviction::{Consumer, eviction};
use super::rule::{self, Effects, NONE, Pending, Selected};
use super::rules::{RuleTaints, Rules};
use super::{AllocatedClaim, CachedRule, NAME};

/// What a sync of a rule decides on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuleObserved {
    /// The rule's metadata.
    pub meta: Meta,
    /// The wait until the status may be written again.
    pub wait: Option<Duration>,
    /// The condition to write, unless the sync waits.
    pub condition: Option<RuleCondition>,
}

/// A step of a sync of a rule: write this condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tell(pub RuleCondition);

/// Decides on the next step for a rule.
pub(super) fn plan(observed: &RuleObserved) -> Plan<Tell> {
    match (&observed.wait, &observed.condition) {
        (Some(wait), _) => Plan::Done { requeue_after: Some(*wait) },
        (None, Some(condition)) => Plan::step(Tell(condition.clone())),
        (None, None) => Plan::done(),
    }
}

impl EvictionController {
    pub(super) fn observe_rule(&self, name: &str) -> Result<Option<RuleObserved>, SyncError> {
        let Some(rules) = &self.rules else { return Ok(None) };
        let Some(found) = rules.get(name)? else { return Ok(None) };
        let meta = found.meta().clone();
        let existing = found.get::<RuleStatus>().eviction.0.as_ref();
        let wait = rule::wait(existing, meta.generation, self.clock.timestamp());
        if wait.is_some() {
            return Ok(Some(RuleObserved { meta, wait, condition: None }));
        }
        let effects = self.effects(rules, &found)?;
        let effect = &found.get::<TaintRule>().taint.effect;
        let condition = rule::condition(effect, meta.generation, effects, existing, self.clock.now());
        Ok(Some(RuleObserved { meta, wait, condition }))
    }

    fn effects(&self, rules: &Rules, rule: &View<CachedRule>) -> Result<Effects, SyncError> {
        let evicted = rules.evicted(&rule.meta().uid);
        let TaintRule { taint, .. } = rule.get();
        let is_none = taint.effect == NONE;
        if !is_none && taint.effect != NO_EXECUTE {
            return Ok(Effects { evicted, ..Effects::default() });
        }
        let (claims, _) = self.claims.list_readable();
        let pending = self.pending(rule, &claims)?;
        let selected = if is_none { self.selected(rule.get(), &claims)? } else { Selected::default() };
        Ok(Effects { pending, selected, evicted })
    }

    /// The pods that the rule evicts, or would evict: among the consumers of claims with devices that the rule selects.
    fn pending(
        &self,
        rule: &View<CachedRule>,
        claims: &[View<AllocatedClaim>],
    ) -> Result<Pending, SyncError> {
        let taints = RuleTaints::simulated(rule);
        let mut candidates = BTreeSet::new();
        for claim in claims.iter().filter(|claim| selects_any(rule.get(), claim)) {
            self.consumers(claim).for_each(|pod| _ = candidates.insert(pod));
        }
        let mut pods = 0;
        let mut namespaces = BTreeSet::new();
        for key in candidates {
            let pod = self.pods.get(&key).map_err(crate::unreadable("Pod"))?;
            let Some(pod) = pod.filter(|pod| !pod.meta().is_deleting()) else { continue };
            if pod.get::<Placement>().node.is_empty() {
                continue;
            }
            let consumer = Consumer { uid: pod.meta().uid.clone(), group: self.group_of(&pod) };
            let used = self.used_claims(&pod, |device| Ok(taints.of(device).collect()))?;
            if eviction(&consumer, &used).is_some() {
                pods += 1;
                namespaces.insert(key.namespace);
            }
        }
        Ok(Pending { pods, namespaces: namespaces.len() as u64 })
    }

    fn selected(&self, rule: &TaintRule, claims: &[View<AllocatedClaim>]) -> Result<Selected, SyncError> {
        let mut selected = Selected::default();
        for claim in claims {
            let devices = claim.get::<AllocatedDevices>().allocation.devices.results.iter();
            let devices = devices.filter(|device| rule.taints(&device.driver, &device.pool, &device.device));
            selected.allocated += devices.count() as u64;
        }
        let Some(slices) = &self.published else { return Ok(selected) };
        let (slices, _) = slices.list_readable();
        let newest = newest_generations(slices.iter().map(|slice| slice.get::<TaintedDevices>()));
        for slice in &slices {
            let TaintedDevices { driver, pool, .. } = slice.get();
            if newest.get(&(&**driver, &*pool.name)) == Some(&pool.generation) {
                let devices = slice.get::<PublishedDevices>().devices.iter();
                let devices = devices.filter(|device| rule.taints(driver, &pool.name, &device.name));
                selected.published += devices.count() as u64;
            }
        }
        Ok(selected)
    }

    pub(super) async fn tell(&self, rule: &Meta, condition: &RuleCondition) -> Result<(), SyncError> {
        let apply = Patch::Apply { manager: NAME, object: status(rule, condition) };
        let applied = self.rule_client.patch_status(&rule.key, &apply).await?;
        applied.or_conflict(|| format!("add condition to DeviceTaintRule {} status", rule.key)).map(drop)
    }
}

/// Whether a rule selects any device of a claim.
fn selects_any(rule: &TaintRule, claim: &View<AllocatedClaim>) -> bool {
    let devices = &claim.get::<AllocatedDevices>().allocation.devices.results;
    devices.iter().any(|device| rule.taints(&device.driver, &device.pool, &device.device))
}

/// The highest generation in each pool, by the driver and the pool's name.
fn newest_generations<'a>(
    slices: impl Iterator<Item = &'a TaintedDevices>,
) -> HashMap<(&'a str, &'a str), i64> {
    let mut newest = HashMap::new();
    for TaintedDevices { driver, pool, .. } in slices {
        let known = newest.entry((&**driver, &*pool.name)).or_insert(pool.generation);
        *known = pool.generation.max(*known);
    }
    newest
}

/// A rule with this condition alone, for server-side apply.
fn status(rule: &Meta, condition: &RuleCondition) -> Value {
    json!({
        "apiVersion": group_version_kind::<DeviceTaintRule>().api_version(),
        "kind": "DeviceTaintRule",
        "metadata": {"name": rule.key.name.as_str(), "uid": rule.uid},
        "status": {"conditions": [{
            "type": &*condition.kind,
            "status": &*condition.status,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": condition.last_transition_time,
            "reason": &*condition.reason,
            "message": condition.message.as_str(),
        }]},
    })
}
