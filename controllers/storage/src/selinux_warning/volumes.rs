//! The volumes of all pods, and who uses them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use steersman_api::{ArcStr, ObjectKey, Uid};

use super::conflict::{Conflict, Property};
use super::uses::{Manner, Use};

/// Maximum number of conflicts that one change reports. A volume of thousands of pods has millions of conflicts; the queue of
/// events has room for this many at a time.
pub(super) const MOST_REPORTED: usize = 1_000;

/// The volumes that pods use.
///
/// For each volume, the pods are kept by the manner in which they use it. So the work of a change grows with the number of different manners,
/// and with the number of conflicts that are reported.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    volumes: HashMap<ArcStr, Volume>,
    pods: HashMap<ObjectKey, PodUses>,
}

/// A volume, and the pods that use it.
#[derive(Debug, Default)]
struct Volume {
    /// The CSI driver.
    driver: Option<ArcStr>,
    pods: BTreeMap<Manner, BTreeSet<ObjectKey>>,
}

/// What a pod uses.
#[derive(Debug)]
struct PodUses {
    uid: Uid,
    /// How the pod uses each volume.
    manners: HashMap<ArcStr, Manner>,
}

impl Volumes {
    /// Notes how a pod uses a volume. Returns the conflicts of the pod with others if that is new, in both directions, and at
    /// most [`MOST_REPORTED`].
    pub(super) fn add(&mut self, pod: &ObjectKey, uid: &Uid, used: &Use) -> Vec<Conflict> {
        if self.pods.get(pod).is_some_and(|known| known.uid != *uid) {
            // Another pod had the name.
            self.remove(pod);
        }
        let Use { volume: shared, manner } = used;
        let uses = self
            .pods
            .entry(pod.clone())
            .or_insert_with(|| PodUses { uid: uid.clone(), manners: HashMap::new() });
        let old = uses.manners.insert(shared.name.clone(), manner.clone());
        if old.as_ref() == Some(manner) {
            return Vec::new();
        }
        let volume = self.volumes.entry(shared.name.clone()).or_default();
        volume.driver.clone_from(&shared.driver);
        if let Some(old) = old {
            volume.leave(pod, &old);
        }
        volume.pods.entry(manner.clone()).or_default().insert(pod.clone());
        let mut conflicts = Vec::new();
        for (other_manner, others) in &volume.pods {
            for other in others {
                if conflicts.len() >= MOST_REPORTED {
                    return conflicts;
                }
                conflicts.extend(between((pod, manner), (other, other_manner)));
            }
        }
        conflicts
    }

    /// Forgets a pod.
    pub(super) fn remove(&mut self, pod: &ObjectKey) {
        let Some(uses) = self.pods.remove(pod) else { return };
        for (name, manner) in uses.manners {
            let Some(volume) = self.volumes.get_mut(&name) else { continue };
            volume.leave(pod, &manner);
            if volume.pods.is_empty() {
                self.volumes.remove(&name);
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The pods that use volumes of a CSI driver.
    pub(super) fn pods_of_driver(&self, driver: &str) -> BTreeSet<ObjectKey> {
        let volumes = self.volumes.values().filter(|volume| volume.driver.as_deref() == Some(driver));
        volumes.flat_map(|volume| volume.pods.values().flatten().cloned()).collect()
    }

    /// The conflicts that there are, in both directions and each once, and at most this many.
    pub(super) fn conflicts(&self, at_most: usize) -> BTreeSet<Conflict> {
        let mut all = BTreeSet::new();
        for volume in self.volumes.values().filter(|volume| volume.pods.len() > 1) {
            for (index, (manner, pods)) in volume.pods.iter().enumerate() {
                for (other_manner, others) in volume.pods.iter().skip(index + 1) {
                    if !Property::ALL.iter().any(|property| property.differs(manner, other_manner)) {
                        continue;
                    }
                    for pod in pods {
                        for other in others {
                            if all.len() >= at_most {
                                return all;
                            }
                            all.extend(between((pod, manner), (other, other_manner)));
                        }
                    }
                }
            }
        }
        all
    }
}

impl Volume {
    fn leave(&mut self, pod: &ObjectKey, manner: &Manner) {
        if let Some(pods) = self.pods.get_mut(manner) {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(manner);
            }
        }
    }
}

/// The conflicts of two pods that use the same volume, in both directions.
fn between(
    (pod, manner): (&ObjectKey, &Manner),
    (other, other_manner): (&ObjectKey, &Manner),
) -> impl Iterator<Item = Conflict> {
    let differs = |property: &Property| property.differs(manner, other_manner);
    Property::ALL.into_iter().filter(differs).flat_map(move |property| {
        let (value, other_value) = (property.of(manner), property.of(other_manner));
        let [mine, others] = [(pod, &value, other, &other_value), (other, &other_value, pod, &value)];
        [mine, others].map(|(pod, value, other, other_value)| Conflict {
            property,
            pod: pod.clone(),
            value: value.clone(),
            other: other.clone(),
            other_value: other_value.clone(),
        })
    })
}
