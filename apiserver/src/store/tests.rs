use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::registry::Resources;

fn maps() -> Arc<Resource> {
    Arc::clone(Resources::built_in().get("", "v1", "configmaps").unwrap())
}

/// What is done to one of a few keys.
#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u8),
    Remove(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![3 => (0..6_u8).prop_map(Act::Put), 1 => (0..6_u8).prop_map(Act::Remove)];
    proptest::collection::vec(act, 0..60)
}

fn key(n: u8) -> ObjectKey {
    ObjectKey::new(if n.is_multiple_of(2) { "even" } else { "odd" }, format!("k{n}"))
}

fn act(store: &Store, resource: &Arc<Resource>, act: Act) {
    let present = |n| store.get(&resource.table, &key(n));
    let value = json!({"metadata": {}});
    let _ = match act {
        Act::Put(n) => match present(n) {
            Some(seen) => store.replace(&seen, value),
            None => store.create(resource, key(n), value),
        },
        Act::Remove(n) => match present(n) {
            Some(seen) => store.remove(&seen),
            None => return,
        },
    };
}

fn keys(snapshot: &Snapshot) -> BTreeMap<ObjectKey, u64> {
    snapshot.objects.iter().map(|object| (object.key.clone(), object.version)).collect()
}

proptest! {
    #[test]
    fn every_remembered_version_reads_back_as_it_was(acts in acts()) {
        let store = Store::new(20);
        let resource = maps();
        let mut seen = Vec::new();
        for a in acts {
            act(&store, &resource, a);
            seen.push(store.snapshot(&resource.table, "", None).unwrap());
        }
        for then in &seen {
            match store.snapshot(&resource.table, "", Some(then.version)) {
                Ok(now) => prop_assert_eq!(keys(&now), keys(then)),
                Err(error) => prop_assert!(matches!(error, Error::Compacted(oldest) if then.version < oldest)),
            }
            if let Ok(odd) = store.snapshot(&resource.table, "odd", Some(then.version)) {
                let all = keys(then).into_iter().filter(|(key, _)| key.namespace == "odd");
                prop_assert_eq!(keys(&odd), all.collect::<BTreeMap<_, _>>());
            }
        }
    }

    #[test]
    fn a_follower_who_applies_the_changes_has_the_present_state(acts in acts(), pause in 1..10_usize) {
        let store = Arc::new(Store::new(1000));
        let resource = maps();
        let (start, mut cursor) = store.snapshot_and_follow(&resource.table, "");
        let mut state = keys(&start);
        for (at, a) in acts.into_iter().enumerate() {
            act(&store, &resource, a);
            if at % pause == 0 {
                apply(&mut state, &mut cursor);
            }
        }
        apply(&mut state, &mut cursor);
        prop_assert_eq!(state, keys(&store.snapshot(&resource.table, "", None).unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_settled_is_there_again_when_the_folder_is_opened_anew(
        lives in proptest::collection::vec(acts(), 1..4)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let resource = maps();
        let mut expected = (0, BTreeMap::new());
        for acts in lives {
            let (journal, loaded) = Journal::open(folder.path(), EncryptionKeys::default()).unwrap();
            prop_assert_eq!(loaded.revision, expected.0);
            let store = Arc::new(Store::from_revision(100, loaded.revision));
            for (table, key, state) in loaded.objects {
                prop_assert_eq!(&table, &resource.table);
                store.restore(&resource, key, state).unwrap();
            }
            store.keep_in(journal, || {});
            prop_assert_eq!(keys(&store.snapshot(&resource.table, "", None).unwrap()), expected.1);
            for a in acts {
                act(&store, &resource, a);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(store.settled()).unwrap();
            let wrote = store.revision() > loaded.revision.max(1);
            let revision = if wrote { store.revision() } else { loaded.revision };
            expected = (revision, keys(&store.snapshot(&resource.table, "", None).unwrap()));
        }
    }
}

#[tokio::test]
async fn followers_hear_of_a_write_when_it_is_settled() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(folder.path(), EncryptionKeys::default()).unwrap();
    let store = Arc::new(Store::new(100));
    store.keep_in(journal, || {});
    let resource = maps();
    let (_, mut cursor) = store.snapshot_and_follow(&resource.table, "");
    for n in 0..50 {
        act(&store, &resource, Act::Put(n));
        let (settled, given) = {
            let given = cursor.take().unwrap();
            (store.shared.state.read().settled, given)
        };
        assert!(given.version <= settled && given.changes.iter().all(|change| change.version() <= settled));
    }
    store.settled().await.unwrap();
    cursor.take().unwrap();
    assert_eq!(cursor.take().unwrap().version, store.revision(), "all is settled, so all is known");
}

#[test]
fn versions_of_an_earlier_life_are_compacted() {
    let store = Arc::new(Store::from_revision(100, 40));
    let resource = maps();
    let untouched = store.snapshot(&resource.table, "", Some(39));
    assert!(matches!(untouched, Err(Error::Compacted(40))), "it may have had objects then");
    act(&store, &resource, Act::Put(1));
    let earlier = store.snapshot(&resource.table, "", Some(39));
    assert!(matches!(earlier, Err(Error::Compacted(40))));
    assert!(matches!(store.follow(&resource.table, 39).take(), Err(Error::Compacted(40))));
    assert_eq!(store.snapshot(&resource.table, "", Some(40)).unwrap().objects.len(), 0);
    assert_eq!(store.snapshot(&resource.table, "", Some(41)).unwrap().objects.len(), 1);
}

fn apply(state: &mut BTreeMap<ObjectKey, u64>, cursor: &mut Cursor) {
    for change in cursor.take().unwrap().changes {
        match change.kind {
            ChangeKind::Deleted => assert!(state.remove(&change.object.key).is_some()),
            ChangeKind::Added => assert!(state.insert(change.object.key.clone(), change.version()).is_none()),
            ChangeKind::Modified => {
                let before = state.insert(change.object.key.clone(), change.version());
                assert_eq!(before, change.before.as_ref().map(|before| before.version));
            }
        }
    }
}

#[test]
fn a_write_of_a_state_that_is_no_longer_present_is_stale() {
    let store = Store::new(10);
    let resource = maps();
    let first = store.create(&resource, key(0), json!({})).unwrap();
    assert_eq!(store.create(&resource, key(0), json!({})).err(), Some(Error::Exists));
    let second = store.replace(&first, json!({})).unwrap();
    assert_eq!(store.replace(&first, json!({})).err(), Some(Error::Stale));
    assert_eq!(store.remove(&first).err(), Some(Error::Stale));
    let removed = store.remove(&second).unwrap();
    assert!(removed.version > second.version);
    assert_eq!(store.replace(&second, json!({})).err(), Some(Error::Stale));
    assert_eq!(store.snapshot(&resource.table, "", Some(99)).err(), Some(Error::Future(removed.version)));
}

#[test]
fn versions_count_the_writes_of_all_tables() {
    let store = Store::new(10);
    let secrets = Arc::clone(Resources::built_in().get("", "v1", "secrets").unwrap());
    let first = store.create(&maps(), key(0), json!({})).unwrap();
    let second = store.create(&secrets, key(0), json!({})).unwrap();
    assert_eq!((first.version, second.version, store.revision()), (2, 3, 3));
    assert_eq!(second.parsed()["metadata"]["resourceVersion"], "3");
}

#[test]
fn heavy_states_are_forgotten_sooner() {
    let (store, resource) = (Store::new(10_000), maps());
    let heavy = || json!({"metadata": {}, "data": {"k": "x".repeat(1 << 20)}});
    let mut seen = store.create(&resource, key(0), heavy()).unwrap();
    for _ in 0..40 {
        seen = store.replace(&seen, heavy()).unwrap();
    }
    let versions = (2..=seen.version).rev();
    let known = versions.take_while(|version| store.snapshot(&resource.table, "", Some(*version)).is_ok());
    // Those of 31 changes, and the one before them.
    assert_eq!(known.count(), 32);
    // However light what follows is, it is one change after the other that goes.
    store.create(&resource, key(1), json!({"metadata": {}})).unwrap();
    assert!(store.snapshot(&resource.table, "", Some(seen.version)).is_ok());
    store.compact();
    store.create(&resource, key(2), json!({"metadata": {}})).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_written_long_ago_is_forgotten() {
    let (store, resource) = (Arc::new(Store::new(100)), maps());
    let secrets = Arc::clone(Resources::built_in().get("", "v1", "secrets").unwrap());
    let first = store.create(&secrets, key(0), json!({})).unwrap();
    act(&store, &resource, Act::Put(0));
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    let then = Instant::now();
    act(&store, &resource, Act::Put(0));
    store.forget(then);
    let at = |table: &TableId, version| store.snapshot(table, "", Some(version)).map(|found| found.version);
    assert_eq!(at(&resource.table, 2), Err(Error::Compacted(3)));
    assert_eq!((at(&resource.table, 3), at(&resource.table, 4)), (Ok(3), Ok(4)));
    assert_eq!(at(&secrets.table, 1), Err(Error::Compacted(first.version)));
    store.forget(then);
    assert_eq!(at(&resource.table, 3), Ok(3));
}

#[test]
fn an_object_that_was_let_cool_is_what_it_was() {
    let (store, resource) = (Store::new(10), maps());
    let fields = json!({"f:data": {"f:k": {}}});
    let managed = json!([{"manager": "m", "fieldsV1": fields.to_string()}]);
    let value = json!({"metadata": {"name": "k0", "managedFields": managed}, "data": {"k": "v"}});
    let written = store.create(&resource, key(0), value).unwrap();
    let (warm, json) = (written.parsed(), written.json().clone());
    let told: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(told["metadata"]["managedFields"][0]["fieldsV1"], fields);
    let form = || Form {
        event: "ADDED",
        format: crate::codec::Format::Json,
        view: View::Whole,
        resource: Arc::clone(&resource),
    };
    let bytes = |bytes: &'static str| {
        written.encoded(form(), store.warm(), || Ok::<_, Error>(Bytes::from_static(bytes.as_bytes())))
    };
    assert_eq!((bytes("a").unwrap(), bytes("b").unwrap()), (Bytes::from("a"), Bytes::from("a")));
    written.cool();
    assert!(!Arc::ptr_eq(&warm, &written.parsed()));
    assert_eq!((&written.parsed(), written.json()), (&warm, &json));
    assert_eq!(bytes("b").unwrap(), "b");
}

#[test]
fn the_objects_that_were_warm_first_cool_first() {
    let (store, resource) = (Store::new(10), maps());
    let heavy = || json!({"metadata": {}, "data": {"k": "x".repeat(1 << 20)}});
    let all: Vec<_> = (0..5).map(|n| store.create(&resource, key(n), heavy()).unwrap()).collect();
    let is_warm = |object: &Arc<Object>| Arc::ptr_eq(&object.parsed(), &object.parsed());
    assert_eq!(all.iter().map(is_warm).collect::<Vec<_>>(), [false, false, false, false, true]);
}
