//! What an object is to an owner.

use steersman_api::{Deletion, OwnerReference};
use steersman_kinds::replica_set::ReplicaSet;

use super::*;

fn meta(name: &str, labels: &[(&str, &str)]) -> Meta {
    Meta {
        key: ObjectKey::new("default", name),
        uid: name.into(),
        labels: labels.iter().copied().collect(),
        ..Meta::default()
    }
}

fn deleting(meta: Meta) -> Meta {
    Meta { deletion: Deletion::at(steersman_api::Time::from_seconds(0)), ..meta }
}

fn owned(meta: Meta, owner: OwnerReference) -> Meta {
    Meta { owners: [owner].into(), ..meta }
}

#[test]
fn an_owner_claims_what_it_owns_and_what_it_selects() {
    let selector = LabelSelector::from_labels([("app", "a")]);
    let owner = meta("set", &[]);
    let ours = controller_reference::<ReplicaSet>(&owner);
    let (a, b) = (|| meta("pod", &[("app", "a")]), || meta("pod", &[("app", "b")]));
    let elsewhere = |child: Meta| Meta { key: ObjectKey::new("other", "pod"), ..child };
    let of_kind = OwnerReference { kind: "Job".into(), ..ours.clone() };
    let of_name = OwnerReference { name: "other".into(), ..ours.clone() };
    let of_uid = OwnerReference { uid: "other".into(), ..ours.clone() };
    for (name, child, expected, of_dying_owner) in [
        ("ours", owned(a(), ours.clone()), Some(Claim::Owned), Some(Claim::Owned)),
        ("ours, going", owned(deleting(a()), ours.clone()), Some(Claim::Owned), Some(Claim::Owned)),
        ("ours, not selected", owned(b(), ours.clone()), Some(Claim::Stray), None),
        ("nobody's", a(), Some(Claim::Orphan), None),
        ("nobody's, not selected", b(), None, None),
        ("nobody's, going", deleting(a()), None, None),
        ("nobody's, elsewhere", elsewhere(a()), None, None),
        ("ours by uid, elsewhere", elsewhere(owned(a(), ours.clone())), None, None),
        ("of an owner of another kind", owned(a(), of_kind), None, None),
        ("of an owner of another name", owned(a(), of_name), None, None),
        ("of an owner of another uid", owned(a(), of_uid), None, None),
    ] {
        assert_eq!(Claim::of::<ReplicaSet>(&owner, &selector, &child), expected, "{name}");
        let dying = deleting(owner.clone());
        assert_eq!(Claim::of::<ReplicaSet>(&dying, &selector, &child), of_dying_owner, "{name}, dying owner");
    }
}

keep! {
    /// An owner that goes by owner references.
    struct ByReference: ReplicationController => ReplicationControllerSpec, ReplicationControllerStatus
}

impl Owns for ByReference {
    type Child = Child;

    const BY_REFERENCE_ONLY: bool = true;

    fn selector(_: &ReplicationController) -> Result<LabelSelector, InvalidSelector> {
        Ok(LabelSelector::everything())
    }

    fn is_untouched(_: &ReplicationController) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_by_reference_only_has_the_children_that_name_it_and_adopts_none() {
    let scene = Scene::start(&[owner("a", &[("app", "a")])], &["free"]).await;
    let owner = scene.children.owner_client.get(&key("a")).await.unwrap().unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "owned", "ownerReferences": [controller_reference::<ReplicationController>(owner.meta())],
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    scene.children.child_client.create("default", Content::json(JSON, &pod)).await.unwrap();

    let (context, _writers) = context(&scene.server, OptionSet::default());
    let children = Children::<ByReference>::new(&context, &context.client_for("test")).unwrap();
    context.informers.start();
    context.informers.wait_for_cache_sync(&children.caches(), Duration::from_secs(60)).await;
    for family in [children.cached(&children.by_controller, &key("a")).await, children.read(&key("a")).await]
    {
        let found = family.unwrap().unwrap().children;
        let names: Vec<_> = found.iter().map(|(pod, claim)| (&*pod.meta().key.name, *claim)).collect();
        assert_eq!(names, [("owned", Claim::Owned)]);
    }
    let labels = [("app", "a")].into_iter().collect();
    assert!(children.selecting(&"default".into(), &labels).is_empty());
}
