//! Which ReplicaSets have the template of their Deployment.

use std::collections::HashMap;

use parking_lot::Mutex;
use steersman_api::{Meta, ObjectKey, Uid};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::{Group, Object, Opaque};
use steersman_kinds::replica_set::{ReplicaSet, ReplicaSetTemplate};

use crate::pod_template;

/// Remembers the result of each comparison of two templates until one of the objects has a new generation: templates are
/// large, and most syncs see the same ones.
#[derive(Default)]
pub(super) struct Templates {
    deployments: Mutex<HashMap<ObjectKey, Compared>>,
}

/// The comparisons with a Deployment's template.
#[derive(Clone)]
struct Compared {
    uid: Uid,
    generation: i64,
    sets: Vec<(Uid, i64, bool)>,
}

impl Templates {
    /// Whether each of these ReplicaSets has the Deployment's template but for the label `pod-template-hash`, in their
    /// order.
    ///
    /// # Errors
    /// A template can't be decoded.
    pub(super) fn compare<'a>(
        &self,
        deployment: &Meta,
        template: &Opaque,
        sets: impl Iterator<Item = &'a ReplicaSet>,
    ) -> Result<Vec<bool>, SyncError> {
        let known = self.deployments.lock().get(&deployment.key).cloned();
        let known =
            known.filter(|known| known.uid == deployment.uid && known.generation == deployment.generation);
        let known = known.map(|known| known.sets).unwrap_or_default();
        let compare = |set: &ReplicaSet| {
            let meta = set.meta();
            let is_it =
                |(uid, generation, _): &&(Uid, i64, bool)| *uid == meta.uid && *generation == meta.generation;
            if let Some(known) = known.iter().find(is_it) {
                return Ok(known.clone());
            }
            let equal = has_template(template, set)?;
            Ok((meta.uid.clone(), meta.generation, equal))
        };
        let compared: Vec<_> = sets.map(compare).collect::<Result<_, SyncError>>()?;
        let result = compared.iter().map(|(_, _, equal)| *equal).collect();
        if compared != known {
            let (uid, generation) = (deployment.uid.clone(), deployment.generation);
            let entry = Compared { uid, generation, sets: compared };
            self.deployments.lock().insert(deployment.key.clone(), entry);
        }
        Ok(result)
    }

    /// Forgets a Deployment that is gone.
    pub(super) fn forget(&self, deployment: &ObjectKey) {
        self.deployments.lock().remove(deployment);
    }
}

/// Whether a ReplicaSet has this template but for the label `pod-template-hash`.
///
/// # Errors
/// A template can't be decoded.
pub(super) fn has_template(template: &Opaque, set: &ReplicaSet) -> Result<bool, SyncError> {
    let of_set = ReplicaSetTemplate::of(set).expect("the groups that the controller reads must be kept");
    pod_template::equal_but_for_hash(template, &of_set.template).map_err(|error| {
        SyncError::Failed(format!("comparing the template of ReplicaSet {}: {error}", set.meta().key))
    })
}
