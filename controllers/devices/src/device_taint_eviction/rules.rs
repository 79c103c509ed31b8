//! The DeviceTaintRules, and what they did.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use steersman_api::{ObjectKey, Uid};
use steersman_controller::controller::SyncError;
use steersman_informer::{Lister, View};
use steersman_kinds::device_allocation::AllocatedDevice;
use steersman_kinds::device_taint::{DeviceTaint, NO_EXECUTE};
use steersman_kinds::device_taint_rule::TaintRule;

use super::CachedRule;
use super::eviction::{FoundTaint, RuleName};

/// The rules in the cache, and how many pods each has evicted since this process began to lead.
pub(super) struct Rules {
    pub rules: Lister<CachedRule>,
    pub evicted: Mutex<HashMap<Uid, u64>>,
}

/// The taints that rules give devices.
pub(super) struct RuleTaints(Vec<(RuleName, TaintRule)>);

impl Rules {
    /// The taints of all rules that end pods. A rule that can't be read ends none.
    pub(super) fn evicting(&self) -> RuleTaints {
        let (rules, _) = self.rules.list_readable();
        let evicting = rules.iter().filter(|rule| rule.get::<TaintRule>().taint.effect == NO_EXECUTE);
        RuleTaints(evicting.map(|rule| (name(rule), rule.get::<TaintRule>().clone())).collect())
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<View<CachedRule>>, SyncError> {
        let unreadable = crate::unreadable("DeviceTaintRule");
        self.rules.get(&ObjectKey::cluster(name)).map_err(unreadable)
    }

    /// Counts a pod that was evicted because of these rules.
    pub(super) fn count(&self, rules: &BTreeSet<RuleName>) {
        let mut evicted = self.evicted.lock();
        for rule in rules {
            *evicted.entry(rule.uid.clone()).or_default() += 1;
        }
    }

    pub(super) fn evicted(&self, rule: &Uid) -> u64 {
        self.evicted.lock().get(rule).copied().unwrap_or_default()
    }
}

impl RuleTaints {
    /// The taint of one rule, as if its effect were to end pods.
    pub(super) fn simulated(rule: &View<CachedRule>) -> Self {
        let TaintRule { selector, taint } = rule.get::<TaintRule>().clone();
        let taint = DeviceTaint { effect: NO_EXECUTE.into(), ..taint };
        Self(vec![(name(rule), TaintRule { selector, taint })])
    }

    /// The taints of a device.
    pub(super) fn of(&self, device: &AllocatedDevice) -> impl Iterator<Item = FoundTaint> {
        let taints = move |rule: &TaintRule| rule.taints(&device.driver, &device.pool, &device.device);
        let found = self.0.iter().filter(move |(_, rule)| taints(rule));
        found.map(|(name, rule)| FoundTaint { taint: rule.taint.clone(), rule: Some(name.clone()) })
    }
}

fn name(rule: &View<CachedRule>) -> RuleName {
    RuleName { name: rule.meta().key.name.clone(), uid: rule.meta().uid.clone() }
}
