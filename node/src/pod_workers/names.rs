//! Static pods of one name run one after the other. Pure.

use std::collections::{HashMap, VecDeque};

use steersman_api::Uid;

/// Which static pod has each full name, and who waits for it, in the order of coming.
#[derive(Debug, Default)]
pub(super) struct StaticNames {
    started: HashMap<String, Uid>,
    waiting: HashMap<String, VecDeque<Uid>>,
}

impl StaticNames {
    /// A pod comes that will want the name.
    pub(super) fn wait(&mut self, name: &str, pod: Uid) {
        self.waiting.entry(name.to_owned()).or_default().push_back(pod);
    }

    /// Takes the name for a pod, if it is free and no other pod waits longer of those that `may_start` yet.
    pub(super) fn take(&mut self, name: &str, pod: &Uid, may_start: impl Fn(&Uid) -> bool) -> bool {
        if let Some(started) = self.started.get(name) {
            return started == pod;
        }
        if let Some(waiting) = self.waiting.get_mut(name) {
            while waiting.front().is_some_and(|first| !may_start(first)) {
                waiting.pop_front();
            }
            if waiting.front().is_some_and(|first| first != pod) {
                return false;
            }
            waiting.pop_front();
            if waiting.is_empty() {
                self.waiting.remove(name);
            }
        }
        self.started.insert(name.to_owned(), pod.clone());
        true
    }

    /// Gives the name back, if the pod has it; whoever waits for it should try now.
    pub(super) fn release(&mut self, name: &str, pod: &Uid) -> Vec<Uid> {
        if self.started.get(name) == Some(pod) {
            self.started.remove(name);
        }
        if self.started.contains_key(name) {
            return Vec::new();
        }
        self.waiting.get(name).into_iter().flatten().filter(|other| *other != pod).cloned().collect()
    }

    /// Who has the name.
    pub(super) fn started(&self, name: &str) -> Option<&Uid> {
        self.started.get(name)
    }

    /// Forgets a pod that waits.
    pub(super) fn forget(&mut self, name: &str, pod: &Uid) {
        if let Some(waiting) = self.waiting.get_mut(name) {
            waiting.retain(|other| other != pod);
            if waiting.is_empty() {
                self.waiting.remove(name);
            }
        }
    }
}
