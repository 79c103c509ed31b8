//! What is remembered of jobs from one sync to the next, within one term of leadership.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion, Uid};

use super::backoff::Backoff;
use super::observed::Grounds;

/// What the controller remembers of each job that has not ended.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    jobs: HashMap<ObjectKey, Remembered>,
    /// A version of jobs from after the beginning of this term.
    horizon: Option<ResourceVersion>,
}

#[derive(Debug)]
struct Remembered {
    uid: Uid,
    grounds: Grounds,
    /// `None` until something was counted.
    backoff: Option<Backoff>,
}

impl Memory {
    /// Whether the job may be acted upon, as far as this process knows.
    pub(super) fn grounds(&self, key: &ObjectKey, uid: &Uid) -> Grounds {
        let state = self.0.lock();
        state.jobs.get(key).filter(|job| job.uid == *uid).map_or(Grounds::Unsure, |job| job.grounds)
    }

    /// The job may be acted upon from now on: it was read anew, or nobody but this process has ever acted on it.
    pub(super) fn be_sure(&self, key: &ObjectKey, uid: &Uid) {
        self.update(key, uid, |job| job.grounds = Grounds::Sure);
    }

    /// The job's failures so far, if any pod was counted.
    pub(super) fn backoff(&self, key: &ObjectKey, uid: &Uid) -> Option<Backoff> {
        self.0.lock().jobs.get(key).filter(|job| job.uid == *uid)?.backoff
    }

    /// A status was written.
    pub(super) fn set_backoff(&self, key: &ObjectKey, uid: &Uid, backoff: Backoff) {
        self.update(key, uid, |job| job.backoff = Some(backoff));
    }

    /// A version of jobs from after the beginning of this term, once one is known.
    pub(super) fn horizon(&self) -> Option<ResourceVersion> {
        self.0.lock().horizon
    }

    /// This version was read just now.
    pub(super) fn set_horizon(&self, version: ResourceVersion) {
        self.0.lock().horizon.get_or_insert(version);
    }

    /// The job is gone or has ended.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().jobs.remove(key);
    }

    /// A new term begins.
    pub(super) fn clear(&self) {
        *self.0.lock() = State::default();
    }

    fn update(&self, key: &ObjectKey, uid: &Uid, change: impl FnOnce(&mut Remembered)) {
        let mut state = self.0.lock();
        let new = || Remembered { uid: uid.clone(), grounds: Grounds::Unsure, backoff: None };
        let job = state.jobs.entry(key.clone()).or_insert_with(new);
        if job.uid != *uid {
            *job = new();
        }
        change(job);
    }
}
