//! Persistent volumes that only one pod may use at a time (`ReadWriteOncePod`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use steersman_api::Uid;

use super::refusal::Refusal;

/// Why a volume is refused to a second pod, in upstream's words.
pub(super) const IN_USE: &str =
    "volume uses the ReadWriteOncePod access mode and is already in use by another pod";

/// Which pod has each such volume mounted, by the volume's name. As in upstream, it starts empty: a volume belongs to the first
/// pod that mounts it after a restart.
#[derive(Debug, Default)]
pub(super) struct OnePodVolumes(Mutex<HashMap<String, Uid>>);

impl OnePodVolumes {
    /// Mounts a volume for a pod. If `mount` succeeds, the pod has the volume until [`release`](Self::release). Mounts of one
    /// pod must not overlap.
    ///
    /// # Errors
    /// If another pod has the volume, the refusal that `in_use` makes; otherwise that of `mount`.
    pub(super) fn mount<T>(
        &self,
        volume: &str,
        pod: &Uid,
        in_use: impl FnOnce() -> Refusal,
        mount: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let is_first = match self.0.lock().entry(volume.to_owned()) {
            Entry::Occupied(by) if by.get() != pod => return Err(in_use()),
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(pod.clone());
                true
            }
        };
        let mounted = mount();
        if mounted.is_err() && is_first {
            self.0.lock().remove(volume);
        }
        mounted
    }

    /// Frees the volumes of a pod, which has none mounted any more.
    pub(super) fn release(&self, pod: &Uid) {
        self.0.lock().retain(|_, by| by != pod);
    }
}

#[cfg(test)]
mod tests {
    use super::super::refusal::Step;
    use super::*;

    #[test]
    fn a_volume_is_refused_to_a_second_pod_until_the_first_one_releases_it() {
        let (volumes, refusal) =
            (OnePodVolumes::default(), |reason: &str| Refusal::failed(Step::SetUp, "v", reason));
        let mount = |volume: &str, pod: &str, outcome: Result<(), Refusal>| {
            let mounted = volumes
                .mount(volume, &Uid::from(pod), || refusal(IN_USE), || outcome)
                .map_err(|why| why.to_string());
            mounted.err()
        };
        let (in_use, broken) = (Some(refusal(IN_USE).to_string()), Some(refusal("broken").to_string()));
        assert_eq!(mount("v", "a", Err(refusal("broken"))), broken);
        assert_eq!(mount("v", "b", Ok(())), None, "a failed mount does not keep the volume");
        assert_eq!(mount("v", "a", Ok(())), in_use);
        assert_eq!(mount("w", "a", Ok(())), None);
        assert_eq!(mount("v", "b", Err(refusal("broken"))), broken);
        assert_eq!(mount("v", "a", Ok(())), in_use, "the first mount of b is still there");
        volumes.release(&Uid::from("b"));
        assert_eq!(mount("v", "a", Ok(())), None);
    }
}
