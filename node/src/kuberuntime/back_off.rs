//! How long a container that keeps ending waits before it is started again (`CrashLoopBackOff`).

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use steersman_api::GoDuration;

use super::go_json;
use crate::container::{ContainerState, PodStatus};
use crate::pod_text::pod_text;

/// The first wait.
pub const INITIAL: Duration = Duration::from_secs(10);
/// The longest wait, unless `crashLoopBackOff.maxContainerRestartPeriod` says otherwise.
pub const MAX: Duration = Duration::from_secs(300);
/// A container that ended this much later than it was last started is given the first wait again.
pub const RESET_AFTER: Duration = Duration::from_secs(600);

/// The waits of all containers of a node.
///
/// A container's first restart is at once, and each one doubles the wait that the next one is held to, counted from the end
/// of the container before. These are wall-clock stamps, as the runtime gives the ends of containers in them; a restart of the
/// agent forgets the waits, as the kubelet's does.
#[derive(Debug)]
pub struct CrashLoopBackOff {
    initial: Duration,
    max: Duration,
    entries: HashMap<BackOffKey, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The wait that the next restart is held to.
    delay: Duration,
    /// When a restart was last allowed.
    updated: Timestamp,
}

/// What one wait belongs to: a container of a pod with its image and resources, so that a change of either starts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackOffKey(u64);

/// Whether a container may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start it now; the wait for the next time has been counted up.
    Start,
    /// Not before `until`.
    Wait {
        /// The whole wait, as messages tell it.
        delay: Duration,
        /// When it is over.
        until: Timestamp,
    },
}

impl BackOffKey {
    /// The key of one container of a pod.
    pub fn new(pod: &Pod, container: &Container) -> Self {
        let meta = &pod.metadata;
        let resources = go_json::to_string(&container.resources);
        let parts = [
            meta.name.as_deref().unwrap_or_default(),
            meta.namespace.as_deref().unwrap_or_default(),
            meta.uid.as_deref().unwrap_or_default(),
            &container.name,
            container.image.as_deref().unwrap_or_default(),
            &resources,
        ];
        // FNV-1a of 64 bits, as upstream; a key never leaves the process.
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([b'/']));
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
}

impl Default for CrashLoopBackOff {
    fn default() -> Self {
        Self::new(MAX)
    }
}

impl CrashLoopBackOff {
    /// Waits of at most `max`; one shorter than the first wait shortens that as well.
    pub fn new(max: Duration) -> Self {
        Self { initial: INITIAL.min(max), max, entries: HashMap::new() }
    }

    /// Whether `container` may be started now, judged by the end of the newest one of its name. One that never ended may.
    pub fn check(
        &mut self,
        pod: &Pod,
        container: &Container,
        status: &PodStatus,
        now: Timestamp,
    ) -> Decision {
        let mut of_name = status.containers.iter().filter(|other| other.name == container.name);
        let Some(ended) = of_name.find(|other| other.state == ContainerState::Exited) else {
            return Decision::Start;
        };
        self.check_key(
            BackOffKey::new(pod, container),
            ended.finished_at.unwrap_or(Timestamp::UNIX_EPOCH),
            now,
        )
    }

    /// As [`check`](Self::check), for a container that ended at `finished_at`.
    pub fn check_key(&mut self, key: BackOffKey, finished_at: Timestamp, now: Timestamp) -> Decision {
        let entry = self.entries.entry(key);
        let entry = match entry {
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(Entry { delay: self.initial, updated: now });
                return Decision::Start;
            }
            std::collections::hash_map::Entry::Occupied(occupied) => occupied.into_mut(),
        };
        let elapsed = |from: Timestamp, to: Timestamp| to.duration_since(from);
        if elapsed(entry.updated, finished_at) > signed(RESET_AFTER) {
            *entry = Entry { delay: self.initial, updated: now };
            return Decision::Start;
        }
        if elapsed(finished_at, now) < signed(entry.delay) {
            let until = finished_at.checked_add(signed(entry.delay)).unwrap_or(Timestamp::MAX);
            return Decision::Wait { delay: entry.delay, until };
        }
        *entry = Entry { delay: (entry.delay * 2).min(self.max), updated: now };
        Decision::Start
    }

    /// Forgets waits that would start over anyway. To be called now and then.
    pub fn collect_garbage(&mut self, now: Timestamp) {
        self.entries.retain(|_, entry| now.duration_since(entry.updated) <= signed(RESET_AFTER));
    }

    /// How many containers are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no container is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// What a container's waiting state says of its wait, for instance
/// `back-off 1m20s restarting failed container=app pod=web_shop(u-1)`.
pub fn message(delay: Duration, container: &str, pod: &Pod) -> String {
    format!("back-off {} restarting failed container={container} pod={}", GoDuration(delay), pod_text(pod))
}

#[cfg(test)]
mod tests;
