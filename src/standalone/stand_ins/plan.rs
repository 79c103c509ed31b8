//! What the stand-ins have to do. Pure.

use std::collections::{BTreeMap, BTreeSet};

use steersman_api::{GroupVersionResource, ObjectKey, OwnerReference, Uid};

/// The finalizer of an owner whose pods shall be released before it goes.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer of an owner whose pods shall be deleted before it goes.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The objects that the stand-ins look at.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) namespaces: BTreeMap<String, Namespace>,
    /// The namespaces that have a service account `default`.
    pub(super) with_account: BTreeSet<String>,
    /// The namespaces that have a config map `kube-root-ca.crt`.
    pub(super) with_root_ca: BTreeSet<String>,
    pub(super) owners: Vec<Owner>,
    pub(super) pods: Vec<Pod>,
}

/// The state of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    /// Not being deleted.
    Active,
    /// Being deleted.
    Terminating,
}

/// A kind whose objects own pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerKind {
    Job,
    ReplicaSet,
    ReplicationController,
}

impl OwnerKind {
    /// All kinds.
    pub(super) const ALL: [Self; 3] = [Self::Job, Self::ReplicaSet, Self::ReplicationController];

    /// The kind's name in the API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
        }
    }

    /// The kind's API group, version and plural name.
    pub(super) fn resource(self) -> GroupVersionResource {
        match self {
            Self::Job => GroupVersionResource::new("batch", "v1", "jobs"),
            Self::ReplicaSet => GroupVersionResource::new("apps", "v1", "replicasets"),
            Self::ReplicationController => GroupVersionResource::new("", "v1", "replicationcontrollers"),
        }
    }

    /// The kind that a reference names, in any version of its group. `None` if it is not one of these.
    fn of(reference: &OwnerReference) -> Option<Self> {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        Self::ALL.into_iter().find(|kind| kind.name() == reference.kind && kind.resource().group == group)
    }
}

/// An object that owns pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: OwnerKind,
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
    /// `None` if the owner is not being deleted.
    pub(super) deletion: Option<Deletion>,
}

/// What an owner that is being deleted waits for. An owner that waits for nothing is gone at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// For the release of its pods.
    Orphan,
    /// For the deletion of its pods.
    Foreground,
    /// For a finalizer of another party.
    Other,
}

/// A pod with owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) deleting: bool,
}

/// A call. Repeating one that has been made does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the service account `default`.
    Account(String),
    /// Create the config map `kube-root-ca.crt`.
    RootCa(String),
    /// Delete the objects in the namespace, and finalize it once none is left.
    Empty(String),
    /// Delete the pod if the API server confirms that its owner is gone.
    Collect { pod: ObjectKey, uid: Uid, kind: OwnerKind, owner: ObjectKey, owner_uid: Uid },
    /// Delete the pod, because its owner is being deleted.
    Delete { pod: ObjectKey, uid: Uid },
    /// Remove the reference to the owner from the pod.
    Release { pod: ObjectKey, uid: Uid, owner_uid: Uid },
    /// Remove this finalizer from the owner, because what it asks for is done.
    Finish { kind: OwnerKind, owner: ObjectKey, uid: Uid, finalizer: &'static str },
}

/// All steps that are due.
pub(super) fn plan(observed: &Observed) -> Vec<Step> {
    let mut steps = Vec::new();
    for (name, state) in &observed.namespaces {
        match state {
            Namespace::Terminating => steps.push(Step::Empty(name.clone())),
            Namespace::Active => {
                if !observed.with_account.contains(name) {
                    steps.push(Step::Account(name.clone()));
                }
                if !observed.with_root_ca.contains(name) {
                    steps.push(Step::RootCa(name.clone()));
                }
            }
        }
    }
    let owners: BTreeMap<&Uid, &Owner> = observed.owners.iter().map(|owner| (&owner.uid, owner)).collect();
    for pod in &observed.pods {
        steps.extend(of_pod(pod, &owners));
    }
    for owner in &observed.owners {
        let finalizer = match owner.deletion {
            Some(Deletion::Orphan) => ORPHAN,
            Some(Deletion::Foreground) => FOREGROUND,
            Some(Deletion::Other) | None => continue,
        };
        let owns = |pod: &Pod| pod.owners.iter().any(|reference| is_to(reference, pod, owner));
        if !observed.pods.iter().any(owns) {
            let (kind, uid) = (owner.kind, owner.uid.clone());
            steps.push(Step::Finish { kind, owner: owner.key.clone(), uid, finalizer });
        }
    }
    steps
}

/// Whether a pod's reference is to that owner. An owner owns pods of its own namespace only, whatever uid a reference
/// carries.
fn is_to(reference: &OwnerReference, pod: &Pod, owner: &Owner) -> bool {
    reference.uid == owner.uid
        && OwnerKind::of(reference) == Some(owner.kind)
        && pod.key.namespace == owner.key.namespace
}

/// The step that is due for a pod because of one of its owners.
///
/// A pod that has other owners besides is released instead of deleted, because this function cannot tell whether those
/// exist. Once one reference is left, the pod goes with that owner.
fn of_pod(pod: &Pod, owners: &BTreeMap<&Uid, &Owner>) -> Option<Step> {
    let (key, uid) = (&pod.key, &pod.uid);
    let alone = pod.owners.len() == 1;
    pod.owners.iter().find_map(|reference| {
        let kind = OwnerKind::of(reference)?;
        let owner = owners.get(&reference.uid).filter(|owner| is_to(reference, pod, owner));
        match owner.map(|owner| owner.deletion) {
            None if alone && !pod.deleting => Some(Step::Collect {
                pod: key.clone(),
                uid: uid.clone(),
                kind,
                owner: ObjectKey::new(key.namespace.clone(), reference.name.clone()),
                owner_uid: reference.uid.clone(),
            }),
            Some(Some(Deletion::Foreground)) if alone && !pod.deleting => {
                Some(Step::Delete { pod: key.clone(), uid: uid.clone() })
            }
            Some(Some(Deletion::Foreground)) if alone => None,
            Some(Some(Deletion::Foreground | Deletion::Orphan)) => {
                Some(Step::Release { pod: key.clone(), uid: uid.clone(), owner_uid: reference.uid.clone() })
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, kind: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "o".into(),
            uid: uid.into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    fn to(kind: OwnerKind, uid: &str) -> OwnerReference {
        let GroupVersionResource { group, version, .. } = kind.resource();
        let api_version = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
        reference(&api_version, kind.name(), uid)
    }

    fn pod(owners: &[OwnerReference]) -> Pod {
        Pod { key: ObjectKey::new("ns", "p"), uid: "p".into(), owners: owners.to_vec(), deleting: false }
    }

    /// The plan for a pod where there is an owner with the uid `here`.
    fn beside(kind: OwnerKind, pod: Pod, deletion: Option<Deletion>) -> Vec<Step> {
        let owner = Owner { kind, key: ObjectKey::new("ns", "o"), uid: "here".into(), deletion };
        plan(&Observed { owners: vec![owner], pods: vec![pod], ..Observed::default() })
    }

    #[test]
    fn a_namespace_gets_what_pods_need_until_it_is_deleted() {
        let mut observed = Observed {
            namespaces: [("a", Namespace::Active), ("b", Namespace::Terminating), ("c", Namespace::Active)]
                .map(|(name, state)| (name.to_owned(), state))
                .into(),
            with_account: ["c".to_owned()].into(),
            ..Observed::default()
        };
        let text = |step: fn(String) -> Step, name: &str| step(name.to_owned());
        assert_eq!(
            plan(&observed),
            [
                text(Step::Account, "a"),
                text(Step::RootCa, "a"),
                text(Step::Empty, "b"),
                text(Step::RootCa, "c")
            ]
        );
        observed.namespaces.retain(|name, _| name == "c");
        observed.with_root_ca.insert("c".to_owned());
        assert_eq!(plan(&observed), []);
    }

    #[test]
    fn a_pod_goes_with_its_only_owner() {
        for kind in OwnerKind::ALL {
            let collect = Step::Collect {
                pod: ObjectKey::new("ns", "p"),
                uid: "p".into(),
                kind,
                owner: ObjectKey::new("ns", "o"),
                owner_uid: "gone".into(),
            };
            let deleting = Pod { deleting: true, ..pod(&[to(kind, "gone")]) };
            for (pod, expected) in [
                (pod(&[to(kind, "gone")]), vec![collect]),
                (pod(&[to(kind, "here")]), vec![]),
                (pod(&[to(kind, "gone"), reference("v1", "ConfigMap", "m")]), vec![]),
                (pod(&[to(kind, "gone"), to(OwnerKind::Job, "gone")]), vec![]),
                (pod(&[reference("apps/v1", "StatefulSet", "gone")]), vec![]),
                (pod(&[reference("example.com/v1", kind.name(), "gone")]), vec![]),
                (pod(&[]), vec![]),
                (deleting, vec![]),
            ] {
                assert_eq!(beside(kind, pod.clone(), None), expected, "{pod:?}");
            }
        }
    }

    #[test]
    fn an_owner_owns_no_pod_of_another_namespace() {
        for kind in OwnerKind::ALL {
            let key = ObjectKey::new("elsewhere", "p");
            let forged = Pod { key: key.clone(), ..pod(&[to(kind, "here")]) };
            let owner = ObjectKey::new("elsewhere", "o");
            let collect = Step::Collect { pod: key, uid: "p".into(), kind, owner, owner_uid: "here".into() };
            assert_eq!(beside(kind, forged.clone(), None), std::slice::from_ref(&collect));
            let owner = ObjectKey::new("ns", "o");
            let finish = Step::Finish { kind, owner, uid: "here".into(), finalizer: FOREGROUND };
            assert_eq!(beside(kind, forged, Some(Deletion::Foreground)), [collect, finish]);
        }
    }

    #[test]
    fn a_reference_with_the_uid_of_an_owner_of_another_kind_is_to_nothing() {
        let forged = pod(&[to(OwnerKind::Job, "here")]);
        let steps = beside(OwnerKind::ReplicaSet, forged, Some(Deletion::Orphan));
        assert!(
            matches!(&steps[..], [Step::Collect { kind: OwnerKind::Job, .. }, Step::Finish { .. }]),
            "{steps:?}"
        );
    }

    #[test]
    fn a_deleted_owner_is_held_until_its_pods_are_released_or_gone() {
        for kind in OwnerKind::ALL {
            let owned = || pod(&[to(kind, "here")]);
            let (key, uid) = (ObjectKey::new("ns", "p"), || Uid::from("p"));
            let release = Step::Release { pod: key.clone(), uid: uid(), owner_uid: "here".into() };
            let finish = |finalizer| {
                let owner = ObjectKey::new("ns", "o");
                Step::Finish { kind, owner, uid: "here".into(), finalizer }
            };
            assert_eq!(beside(kind, owned(), Some(Deletion::Orphan)), std::slice::from_ref(&release));
            let delete = Step::Delete { pod: key, uid: uid() };
            assert_eq!(beside(kind, owned(), Some(Deletion::Foreground)), [delete]);
            assert_eq!(beside(kind, owned(), Some(Deletion::Other)), []);
            let going = Pod { deleting: true, ..owned() };
            assert_eq!(beside(kind, going, Some(Deletion::Foreground)), [], "the pod is awaited");
            let shared =
                pod(&[reference("v1", "ConfigMap", "m"), to(OwnerKind::Job, "gone"), to(kind, "here")]);
            for deletion in [Deletion::Orphan, Deletion::Foreground] {
                let steps = beside(kind, shared.clone(), Some(deletion));
                assert_eq!(steps, std::slice::from_ref(&release), "{deletion:?} of a pod with other owners");
            }
            assert_eq!(beside(kind, pod(&[]), Some(Deletion::Orphan)), [finish(ORPHAN)]);
            assert_eq!(beside(kind, pod(&[]), Some(Deletion::Foreground)), [finish(FOREGROUND)]);
        }
    }
}
