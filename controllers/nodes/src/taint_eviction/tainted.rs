//! The nodes that have taints with the effect `NoExecute`.

use std::collections::HashMap;

use steersman_api::{ArcStr, Time};
use steersman_kinds::node::Taint;
use tokio::time::Instant;

use super::verdict::{NoExecuteTaint, Since};

/// The taints with the effect `NoExecute`, by node.
///
/// Remembers since when each taint has been there. If this process saw the taint appear, that is the instant at which it saw
/// that: then no step of a wall clock can shorten or lengthen a toleration. A taint that is older than the cache counts from
/// its `timeAdded`, so that tolerations go on running out while managers come and go.
#[derive(Debug, Default)]
pub struct TaintedNodes(HashMap<ArcStr, Vec<NoExecuteTaint>>);

/// How a state of a node came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// In a first list: its taints may be old.
    Initially,
    /// In an event: taints that were not there before have just been added.
    Changing,
}

/// The present by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// By tokio's clock.
    pub instant: Instant,
    /// By the wall clock.
    pub stamp: Time,
}

impl TaintedNodes {
    /// Records the taints of a node. Returns whether those with the effect `NoExecute` have changed.
    pub fn update(&mut self, node: &ArcStr, taints: &[Taint], seen: Seen, now: Now) -> bool {
        let known = self.0.get(node).map(Vec::as_slice).unwrap_or_default();
        let taints: Vec<_> = taints
            .iter()
            .filter(|taint| taint.effect == "NoExecute")
            .map(|taint| {
                let before = known.iter().find(|known| known.key == taint.key && known.value == taint.value);
                NoExecuteTaint {
                    key: taint.key.clone(),
                    value: taint.value.clone(),
                    since: before.map_or_else(|| since(taint, seen, now), |before| before.since),
                }
            })
            .collect();
        let is_changed = known != taints;
        if taints.is_empty() {
            self.0.remove(node);
        } else if is_changed {
            self.0.insert(node.clone(), taints);
        }
        is_changed
    }

    /// Forgets a node that is gone.
    pub fn remove(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// The taints of a node.
    pub fn of(&self, node: &str) -> &[NoExecuteTaint] {
        self.0.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// The nodes that have such taints.
    pub fn nodes(&self) -> impl Iterator<Item = &ArcStr> {
        self.0.keys()
    }
}

fn since(taint: &Taint, seen: Seen, now: Now) -> Since {
    let added = taint.time_added.filter(|_| seen == Seen::Initially);
    Since { seen: now.instant, age: added.map_or_else(Default::default, |added| now.stamp.since(added)) }
}
