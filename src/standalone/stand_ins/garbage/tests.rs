use super::*;

fn reference(api_version: &str, kind: &str, uid: &str) -> OwnerReference {
    OwnerReference::controller(api_version, kind, uid, uid.into())
}

fn to(kind: Kind, uid: &str) -> OwnerReference {
    let GroupVersionResource { group, version, .. } = kind.resource();
    let api_version = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
    reference(&api_version, kind.name(), uid)
}

fn id(kind: Kind, name: &str) -> Id {
    Id { kind, key: ObjectKey::new("ns", name), uid: name.into() }
}

fn object(kind: Kind, name: &str, owners: &[OwnerReference]) -> Object {
    Object { id: id(kind, name), owners: owners.to_vec(), deletion: None }
}

fn pod(owners: &[OwnerReference]) -> Object {
    object(Kind::Pod, "p", owners)
}

impl Object {
    fn going(self, deletion: Deletion) -> Self {
        Self { deletion: Some(deletion), ..self }
    }
}

fn collect(object: Kind, name: &str, owner: Kind, owner_name: &str) -> Step {
    Step::Collect { object: id(object, name), owner: id(owner, owner_name) }
}

fn delete(object: Kind, name: &str, propagation: Propagation) -> Step {
    Step::Delete { object: id(object, name), propagation }
}

fn release(object: Kind, name: &str, owner: &str) -> Step {
    Step::Release { object: id(object, name), owner_uid: owner.into() }
}

fn finish(owner: Kind, name: &str, finalizer: &'static str) -> Step {
    Step::Finish { owner: id(owner, name), finalizer }
}

/// The plan for a pod beside an owner of that kind, with the name `here`.
fn beside(kind: Kind, pod: Object, deletion: Option<Deletion>) -> Vec<Step> {
    plan(&[pod, Object { deletion, ..object(kind, "here", &[]) }])
}

#[test]
fn an_object_goes_with_its_only_owner() {
    for kind in Kind::ALL {
        let collect = collect(Kind::Pod, "p", kind, "gone");
        for (pod, expected) in [
            (pod(&[to(kind, "gone")]), vec![collect]),
            (pod(&[to(kind, "here")]), vec![]),
            (pod(&[to(kind, "gone"), reference("v1", "ConfigMap", "m")]), vec![]),
            (pod(&[to(kind, "gone"), to(Kind::Job, "gone")]), vec![]),
            (pod(&[reference("example.com/v1", kind.name(), "gone")]), vec![]),
            (pod(&[reference("autoscaling/v2", "HorizontalPodAutoscaler", "gone")]), vec![]),
            (pod(&[]), vec![]),
            (pod(&[to(kind, "gone")]).going(Deletion::Other), vec![]),
        ] {
            assert_eq!(beside(kind, pod.clone(), None), expected, "{pod:?}");
        }
    }
}

#[test]
fn an_owner_owns_nothing_in_another_namespace() {
    let elsewhere = ObjectKey::new("elsewhere", "p");
    for kind in Kind::ALL {
        let mut forged = pod(&[to(kind, "here")]);
        forged.id.key = elsewhere.clone();
        let owner = Id { key: ObjectKey::new("elsewhere", "here"), ..id(kind, "here") };
        let collect = Step::Collect { object: forged.id.clone(), owner };
        assert_eq!(beside(kind, forged.clone(), None), std::slice::from_ref(&collect));
        let steps = beside(kind, forged, Some(Deletion::Foreground));
        assert_eq!(steps, [collect, finish(kind, "here", FOREGROUND)]);
    }
}

#[test]
fn a_reference_with_the_uid_of_an_owner_of_another_kind_is_to_nothing() {
    let forged = pod(&[to(Kind::Job, "here")]);
    let steps = beside(Kind::ReplicaSet, forged, Some(Deletion::Orphan));
    let collect = collect(Kind::Pod, "p", Kind::Job, "here");
    assert_eq!(steps, [collect, finish(Kind::ReplicaSet, "here", ORPHAN)]);
}

#[test]
fn a_deleted_owner_is_held_until_its_dependents_are_released_or_gone() {
    for kind in Kind::ALL {
        let owned = || pod(&[to(kind, "here")]);
        let release = release(Kind::Pod, "p", "here");
        assert_eq!(beside(kind, owned(), Some(Deletion::Orphan)), std::slice::from_ref(&release));
        let deleted = [delete(Kind::Pod, "p", Propagation::Background)];
        assert_eq!(beside(kind, owned(), Some(Deletion::Foreground)), deleted);
        assert_eq!(beside(kind, owned(), Some(Deletion::Other)), []);
        let going = owned().going(Deletion::Other);
        assert_eq!(beside(kind, going, Some(Deletion::Foreground)), [], "the pod is awaited");
        let shared = pod(&[reference("v1", "ConfigMap", "m"), to(Kind::Job, "gone"), to(kind, "here")]);
        for deletion in [Deletion::Orphan, Deletion::Foreground] {
            let steps = beside(kind, shared.clone(), Some(deletion));
            assert_eq!(steps, std::slice::from_ref(&release), "{deletion:?} of a pod with other owners");
        }
        let unblocking = OwnerReference { block_owner_deletion: None, ..to(kind, "here") };
        let finished = [finish(kind, "here", FOREGROUND)];
        assert_eq!(beside(kind, pod(&[unblocking]), Some(Deletion::Foreground)), finished);
        assert_eq!(beside(kind, pod(&[]), Some(Deletion::Foreground)), finished);
        assert_eq!(beside(kind, pod(&[]), Some(Deletion::Orphan)), [finish(kind, "here", ORPHAN)]);
    }
}

/// A Deployment with a ReplicaSet and a pod, as its deletion goes on.
#[test]
fn the_dependents_of_dependents_go_as_well() {
    let set = || object(Kind::ReplicaSet, "rs", &[to(Kind::Deployment, "d")]);
    let pod = || pod(&[to(Kind::ReplicaSet, "rs")]);
    let deployment = || object(Kind::Deployment, "d", &[]);
    let foreground = Deletion::Foreground;
    for (name, objects, expected) in [
        ("nothing is deleted", vec![pod(), set(), deployment()], vec![]),
        (
            "in the background, one after the other",
            vec![pod(), set()],
            vec![collect(Kind::ReplicaSet, "rs", Kind::Deployment, "d")],
        ),
        ("at last the pod", vec![pod()], vec![collect(Kind::Pod, "p", Kind::ReplicaSet, "rs")]),
        (
            "in the foreground, from the top",
            vec![pod(), set(), deployment().going(foreground)],
            vec![delete(Kind::ReplicaSet, "rs", Propagation::Foreground)],
        ),
        (
            "then the pod",
            vec![pod(), set().going(foreground), deployment().going(foreground)],
            vec![delete(Kind::Pod, "p", Propagation::Background)],
        ),
        (
            "then the ReplicaSet's finalizer",
            vec![set().going(foreground), deployment().going(foreground)],
            vec![finish(Kind::ReplicaSet, "rs", FOREGROUND)],
        ),
        (
            "and the Deployment's",
            vec![deployment().going(foreground)],
            vec![finish(Kind::Deployment, "d", FOREGROUND)],
        ),
        (
            "only the ReplicaSet is released",
            vec![pod(), set(), deployment().going(Deletion::Orphan)],
            vec![release(Kind::ReplicaSet, "rs", "d")],
        ),
    ] {
        assert_eq!(plan(&objects), expected, "{name}");
    }
}

#[test]
fn revisions_and_claims_go_with_their_sets() {
    for (dependent, owner) in [
        (Kind::ControllerRevision, Kind::StatefulSet),
        (Kind::ControllerRevision, Kind::DaemonSet),
        (Kind::PersistentVolumeClaim, Kind::StatefulSet),
        (Kind::PersistentVolumeClaim, Kind::Pod),
    ] {
        let owned = object(dependent, "x", &[to(owner, "gone")]);
        assert_eq!(plan(&[owned]), [collect(dependent, "x", owner, "gone")]);
    }
    // The claims of a set that retains them have no owner.
    assert_eq!(plan(&[object(Kind::PersistentVolumeClaim, "x", &[])]), []);
}
