//! Which of an owner's revisions have its template, remembered from sync to sync.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion, Uid};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::{Group, Object, Opaque};
use steersman_kinds::controller_revision::{ControllerRevision, RevisionData};

use super::Owner;
use super::data::{self, Form, data};

/// Remembers for each owner how its template compares with the data of its revisions. The comparison takes a hundred times
/// longer than the rest of an observation, and hardly ever changes.
pub(super) struct Verdicts {
    form: Form,
    comparison: Comparison,
    hashes: RandomState,
    owners: Mutex<HashMap<ObjectKey, Known>>,
}

/// How revisions are compared with a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// By their data, and the last one by meaning if no data is that of the template.
    Meaning,
    /// By their data only.
    Data,
}

/// The verdicts on one template.
#[derive(Clone, Default)]
struct Known {
    /// The hash of the encoded template.
    template: u64,
    /// One entry for each revision of the last observation.
    revisions: Vec<Verdict>,
}

#[derive(Clone)]
struct Verdict {
    uid: Uid,
    version: ResourceVersion,
    is_same: bool,
    /// Whether the data restores the template by meaning. `None` if nobody has asked.
    restores: Option<bool>,
}

impl Verdicts {
    /// Remembers nothing yet. `form` is that of the data of the owners' kind.
    pub(super) fn new(form: Form) -> Self {
        let comparison = Comparison::Meaning;
        Self { form, comparison, hashes: RandomState::new(), owners: Mutex::default() }
    }

    /// The same verdicts, found by this comparison.
    pub(super) fn comparing(self, comparison: Comparison) -> Self {
        Self { comparison, ..self }
    }

    /// Whether each of these revisions has the owner's template. `revisions` are in the order of their numbers.
    ///
    /// A revision has the template if its data is the template's. If there is none, the last one has it if it restores a
    /// template that is equal by meaning, unless only data counts. That is upstream's rule for StatefulSets. For DaemonSets
    /// upstream lacks the second part: their pods restart where a new version of Kubernetes writes data in another way.
    ///
    /// # Errors
    /// The owner's template can't be read.
    pub(super) fn of<'a>(
        &self,
        owner: &Owner<'_>,
        revisions: impl Iterator<Item = &'a ControllerRevision>,
    ) -> Result<Vec<bool>, SyncError> {
        let hash = self.hash(owner.template);
        let key = &owner.meta.key;
        let before = self.owners.lock().get(key).filter(|known| known.template == hash).cloned();
        let mut known = Known { template: hash, revisions: Vec::new() };
        let (mut own, mut last) = (None, None);
        for revision in revisions {
            let meta = revision.meta();
            let is_it = |one: &&Verdict| one.uid == meta.uid && one.version == meta.resource_version;
            let remembered = before.iter().flat_map(|known| &known.revisions).find(is_it);
            let verdict = match remembered {
                Some(verdict) => verdict.clone(),
                None => {
                    let own = match &own {
                        Some(own) => own,
                        None => own.insert(
                            data(self.form, owner.template).map_err(|error| unreadable(owner, &error))?,
                        ),
                    };
                    let is_same = data::is_same(data_of(revision), own);
                    let (uid, version) = (meta.uid.clone(), meta.resource_version);
                    Verdict { uid, version, is_same, restores: None }
                }
            };
            known.revisions.push(verdict);
            last = Some(revision);
        }
        let mut has: Vec<bool> = known.revisions.iter().map(|verdict| verdict.is_same).collect();
        if self.comparison == Comparison::Meaning
            && !has.contains(&true)
            && let (Some(verdict), Some(last)) = (known.revisions.last_mut(), last)
        {
            let restores = match verdict.restores {
                Some(restores) => restores,
                None => data::restores(data_of(last), owner.template)
                    .map_err(|error| unreadable(owner, &error))?,
            };
            verdict.restores = Some(restores);
            if let Some(has) = has.last_mut() {
                *has = restores;
            }
        }
        self.owners.lock().insert(key.clone(), known);
        Ok(has)
    }

    /// Forgets all owners.
    pub(super) fn clear(&self) {
        *self.owners.lock() = HashMap::new();
    }

    /// Forgets an owner.
    pub(super) fn forget(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
    }

    fn hash(&self, template: &Opaque) -> u64 {
        let bytes: &[u8] = match template {
            Opaque::None => &[],
            Opaque::Protobuf(bytes) => bytes,
            Opaque::Json(text) => text.get().as_bytes(),
        };
        self.hashes.hash_one(bytes)
    }
}

pub(super) fn data_of(revision: &ControllerRevision) -> &[u8] {
    RevisionData::of(revision).map_or(&[], |data| &data.0)
}

fn unreadable(owner: &Owner<'_>, error: &crate::pod_template::Error) -> SyncError {
    SyncError::Failed(format!("{}: {error}", owner.meta.key))
}
