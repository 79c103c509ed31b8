//! What the stand-ins have to do. Pure.

use std::collections::{BTreeMap, BTreeSet};

use steersman_api::{ObjectKey, OwnerReference, Uid};

/// Finalizers by which a deletion asks to be done in a certain way.
pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// What is there.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) namespaces: BTreeMap<String, Namespace>,
    /// Those in which there is an account `default`.
    pub(super) with_account: BTreeSet<String>,
    /// Those in which there is a config map `kube-root-ca.crt`.
    pub(super) with_root_ca: BTreeSet<String>,
    pub(super) jobs: Vec<Job>,
    pub(super) pods: Vec<Pod>,
}

/// How far a namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    /// It is there.
    Active,
    /// Somebody deleted it.
    Terminating,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
    pub(super) deletion: Option<Deletion>,
}

/// How the job's deletion is to be done; of one that holds nothing up nothing is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// Its pods are let go first.
    Orphan,
    /// Its pods go first.
    Foreground,
    /// Somebody else holds it.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) deleting: bool,
}

/// One thing to do. Each is harmless where it was done already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Make the account `default`.
    Account(String),
    /// Make `kube-root-ca.crt`.
    RootCa(String),
    /// Delete what is in the namespace, and let it go once nothing is left.
    Empty(String),
    /// Delete the pod, if its job is gone indeed.
    Collect { pod: ObjectKey, uid: Uid, job: ObjectKey, job_uid: Uid },
    /// Delete the pod: its job is being deleted.
    Delete { pod: ObjectKey, uid: Uid },
    /// Take the job off the pod's owners.
    Release { pod: ObjectKey, uid: Uid, job_uid: Uid },
    /// Take this finalizer off the job: what it asked for is done.
    Finish { job: ObjectKey, uid: Uid, finalizer: &'static str },
}

/// All that is to be done now.
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
    let jobs: BTreeMap<&Uid, &Job> = observed.jobs.iter().map(|job| (&job.uid, job)).collect();
    for pod in &observed.pods {
        steps.extend(of_pod(pod, &jobs));
    }
    for job in &observed.jobs {
        let finalizer = match job.deletion {
            Some(Deletion::Orphan) => ORPHAN,
            Some(Deletion::Foreground) => FOREGROUND,
            Some(Deletion::Other) | None => continue,
        };
        let is_its_own = |pod: &Pod| {
            pod.key.namespace == job.key.namespace && pod.owners.iter().any(|owner| owner.uid == job.uid)
        };
        if !observed.pods.iter().any(is_its_own) {
            steps.push(Step::Finish { job: job.key.clone(), uid: job.uid.clone(), finalizer });
        }
    }
    steps
}

/// What becomes of a pod by way of its job. One that has other owners besides stays: nobody knows whether they are there.
fn of_pod(pod: &Pod, jobs: &BTreeMap<&Uid, &Job>) -> Option<Step> {
    let is_job = |owner: &&OwnerReference| owner.kind == "Job" && owner.api_version.starts_with("batch/");
    let owner = pod.owners.iter().find(is_job)?;
    let (key, uid) = (pod.key.clone(), pod.uid.clone());
    let alone = pod.owners.len() == 1 && !pod.deleting;
    // A job owns pods of its own namespace only, whatever uid a reference carries.
    let job = jobs.get(&owner.uid).filter(|job| job.key.namespace == pod.key.namespace);
    match job.map(|job| job.deletion) {
        None if alone => {
            let job = ObjectKey::new(pod.key.namespace.clone(), owner.name.clone());
            Some(Step::Collect { pod: key, uid, job, job_uid: owner.uid.clone() })
        }
        Some(Some(Deletion::Foreground)) if alone => Some(Step::Delete { pod: key, uid }),
        Some(Some(Deletion::Orphan)) => Some(Step::Release { pod: key, uid, job_uid: owner.uid.clone() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: if kind == "Job" { "batch/v1" } else { "apps/v1" }.into(),
            kind: kind.into(),
            name: "j".into(),
            uid: uid.into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    fn pod(owners: &[OwnerReference]) -> Pod {
        Pod { key: ObjectKey::new("ns", "p"), uid: "p".into(), owners: owners.to_vec(), deleting: false }
    }

    fn of_job(pod: Pod, deletion: Option<Deletion>) -> Vec<Step> {
        let job = Job { key: ObjectKey::new("ns", "j"), uid: "here".into(), deletion };
        plan(&Observed { jobs: vec![job], pods: vec![pod], ..Observed::default() })
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
    fn a_pod_goes_with_its_only_owner_if_that_is_a_job() {
        let collect = Step::Collect {
            pod: ObjectKey::new("ns", "p"),
            uid: "p".into(),
            job: ObjectKey::new("ns", "j"),
            job_uid: "gone".into(),
        };
        let deleting = Pod { deleting: true, ..pod(&[owner("Job", "gone")]) };
        for (pod, expected) in [
            (pod(&[owner("Job", "gone")]), vec![collect]),
            (pod(&[owner("Job", "here")]), vec![]),
            (pod(&[owner("Job", "gone"), owner("ReplicaSet", "r")]), vec![]),
            (pod(&[owner("ReplicaSet", "gone")]), vec![]),
            (pod(&[]), vec![]),
            (deleting, vec![]),
        ] {
            assert_eq!(of_job(pod.clone(), None), expected, "{pod:?}");
        }
    }

    #[test]
    fn a_job_owns_no_pod_of_another_namespace() {
        let key = ObjectKey::new("elsewhere", "p");
        let forged = Pod { key: key.clone(), ..pod(&[owner("Job", "here")]) };
        let job = ObjectKey::new("elsewhere", "j");
        let collect = Step::Collect { pod: key, uid: "p".into(), job, job_uid: "here".into() };
        assert_eq!(of_job(forged.clone(), None), std::slice::from_ref(&collect));
        let job = ObjectKey::new("ns", "j");
        let finish = Step::Finish { job, uid: "here".into(), finalizer: FOREGROUND };
        assert_eq!(of_job(forged, Some(Deletion::Foreground)), [collect, finish]);
    }

    #[test]
    fn a_deleted_job_is_held_until_its_pods_are_let_go_or_gone() {
        let owned = || pod(&[owner("Job", "here")]);
        let (key, uid) = (ObjectKey::new("ns", "p"), || Uid::from("p"));
        let release = Step::Release { pod: key.clone(), uid: uid(), job_uid: "here".into() };
        let finish =
            |finalizer| Step::Finish { job: ObjectKey::new("ns", "j"), uid: "here".into(), finalizer };
        assert_eq!(of_job(owned(), Some(Deletion::Orphan)), [release]);
        assert_eq!(of_job(owned(), Some(Deletion::Foreground)), [Step::Delete { pod: key, uid: uid() }]);
        assert_eq!(of_job(owned(), Some(Deletion::Other)), []);
        let going = Pod { deleting: true, ..owned() };
        assert_eq!(of_job(going, Some(Deletion::Foreground)), [], "the pod is awaited");
        assert_eq!(of_job(pod(&[]), Some(Deletion::Orphan)), [finish(ORPHAN)]);
        assert_eq!(of_job(pod(&[]), Some(Deletion::Foreground)), [finish(FOREGROUND)]);
    }
}
