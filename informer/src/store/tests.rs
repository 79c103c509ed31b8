use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use steersman_api::meta::Labels;

use super::*;
use crate::wire::DecodeError;
use crate::wire::meta::MetaOnly;

fn object(name: &str, uid: &str, app: &str, version: u64) -> MetaOnly {
    MetaOnly(Meta {
        key: ObjectKey::new("default", name),
        uid: uid.into(),
        labels: [("app", app)].into_iter().collect::<Labels>(),
        resource_version: ResourceVersion(version),
        ..Meta::default()
    })
}

fn good(name: &str, uid: &str, app: &str, version: u64) -> Decoded<MetaOnly> {
    Decoded::Good(object(name, uid, app, version))
}

fn damage() -> DecodeError {
    DecodeError::Protobuf(crate::wire::WireError::Truncated)
}

fn by_app(store: &Store<MetaOnly>) -> IndexId {
    store.add_index(
        "app",
        Arc::new(|object: &Arc<MetaOnly>, found: &mut dyn FnMut(IndexValue)| {
            if let Some(app) = object.meta().labels.get("app") {
                found(app.clone().into());
            }
        }),
    )
}

fn names(objects: Result<Vec<Arc<MetaOnly>>, Unreadable>) -> BTreeSet<String> {
    objects.unwrap().iter().map(|object| object.meta().key.name.to_string()).collect()
}

#[test]
fn an_index_follows_an_object_whose_values_change() {
    let (mut writer, store) = store();
    let index = by_app(&store);
    writer.put(good("a", "1", "web", 1));
    writer.put(good("a", "1", "db", 2));
    assert!(names(store.by_index(index, &"web".into())).is_empty());
    assert_eq!(names(store.by_index(index, &"db".into())), ["a".to_owned()].into());
    writer.delete(good("a", "1", "db", 3));
    assert!(store.index_values(index).is_empty(), "no empty posting stays behind");
}

#[test]
fn an_index_that_comes_late_covers_what_is_cached() {
    let (mut writer, store) = store();
    writer.put(good("a", "1", "web", 1));
    let index = by_app(&store);
    assert_eq!(names(store.by_index(index, &"web".into())), ["a".to_owned()].into());
    assert_eq!(by_app(&store), index, "the same name is the same index");
}

#[test]
fn an_object_that_was_removed_is_held_no_more() {
    let (mut writer, store) = store();
    let is_here = |store: &Store<MetaOnly>| store.holds_any(|meta| meta.key.namespace == "default");
    assert!(!is_here(&store));
    writer.put(good("a", "1", "web", 1));
    assert!(is_here(&store) && !store.holds_any(|meta| meta.key.namespace == "other"));
    writer.delete(good("a", "1", "web", 2));
    assert!(!is_here(&store));
}

#[test]
fn another_object_of_the_same_name_has_another_uid() {
    let (mut writer, store) = store();
    writer.put(good("a", "1", "web", 1));
    writer.put(good("a", "2", "web", 2));
    assert_eq!(store.get_by_uid(&"1".into()).unwrap().map(|o| o.meta().uid.clone()), None);
    assert!(store.get_by_uid(&"2".into()).unwrap().is_some());
}

#[test]
fn a_relist_merges_at_once_and_sweeps_only_when_it_is_complete() {
    let (mut writer, store) = store();
    writer.begin_list();
    writer.put(good("a", "1", "web", 1));
    writer.put(good("b", "2", "web", 1));
    assert!(writer.complete_list(ResourceVersion(5)).is_empty());

    writer.begin_list();
    writer.put(good("c", "3", "web", 7));
    assert_eq!(store.len(), 3, "what the list has not named yet is still there");
    assert_eq!(store.last_sync_resource_version(), ResourceVersion(5));

    // It breaks off, and the next one names another object.
    writer.begin_list();
    writer.put(good("a", "1", "web", 8));
    let swept = writer.complete_list(ResourceVersion(9));
    assert_eq!(swept.len(), 2);
    assert!(swept.iter().all(|written| matches!(written, Written::Deleted(_))));
    assert_eq!(names(store.list()), ["a".to_owned()].into());
    assert_eq!(store.last_sync_resource_version(), ResourceVersion(9));
}

#[test]
fn a_list_with_an_object_that_nobody_can_tell_sweeps_nothing() {
    let (mut writer, store) = store();
    writer.put(good("a", "1", "web", 1));
    writer.begin_list();
    assert!(writer.put(Decoded::Lost(damage())).is_none());
    assert!(writer.complete_list(ResourceVersion(9)).is_empty());
    assert_eq!(store.len(), 1);
}

#[test]
fn an_unreadable_object_exists_with_its_newest_metadata_and_fails_strict_reads() {
    let (mut writer, store) = store();
    let index = by_app(&store);
    let key = ObjectKey::new("default", "a");
    writer.put(good("a", "1", "web", 1));
    writer.put(Decoded::Unreadable(object("a", "1", "db", 2), damage()));
    assert_eq!(store.len(), 1);
    assert_eq!(store.get(&key).unwrap_err().key, key);
    assert!(store.by_index(index, &"web".into()).unwrap().is_empty());
    assert!(store.by_index(index, &"db".into()).is_err());
    let mut app = None;
    store.for_each(|object| app = object.meta().labels.get("app").cloned());
    assert_eq!(app.as_deref(), Some("db"));

    writer.put(good("a", "1", "web", 3));
    assert!(store.get(&key).unwrap().is_some());
    assert_eq!(store.unreadable_len(), 0);
}

#[test]
fn an_object_that_comes_again_in_the_version_that_is_cached_changes_nothing() {
    let (mut writer, store) = store();
    writer.put(good("a", "1", "web", 1));
    writer.begin_list();
    assert!(writer.put(good("a", "1", "web", 1)).is_none());
    assert!(writer.complete_list(ResourceVersion(5)).is_empty(), "but the list has named it");
    assert!(writer.put(good("a", "2", "web", 1)).is_some(), "it is another one");
    let unversioned = good("b", "3", "web", 0);
    writer.put(unversioned);
    assert!(
        writer.put(good("b", "3", "db", 0)).is_some(),
        "an object without a version always counts as changed"
    );
    assert_eq!(store.len(), 2);
}

#[test]
fn an_unreadable_object_harms_only_those_who_want_it() {
    let (mut writer, store) = store();
    let namespace = store.add_index(
        "namespace",
        Arc::new(|object: &Arc<MetaOnly>, found: &mut dyn FnMut(IndexValue)| {
            found(object.meta().key.namespace.clone().into());
        }),
    );
    writer.put(good("a", "1", "web", 1));
    writer.put(Decoded::Unreadable(object("b", "2", "db", 2), damage()));
    let of_app = |app: &str| {
        let wanted = |meta: &Meta| meta.labels.get("app").is_some_and(|value| value == app);
        store.by_index_where(namespace, &"default".into(), wanted)
    };
    assert_eq!(names(of_app("web")), ["a".to_owned()].into());
    assert!(of_app("db").is_err());
}

#[test]
fn an_unreadable_object_of_a_new_uid_replaces_the_old_one() {
    let (mut writer, store) = store();
    writer.put(good("a", "1", "web", 1));
    writer.put(Decoded::Unreadable(object("a", "2", "", 2), damage()));
    assert_eq!(store.meta(&ObjectKey::new("default", "a")).unwrap().uid, "2".into());
    writer.delete(Decoded::Unreadable(object("a", "2", "", 3), damage()));
    assert!(store.is_empty());
    assert_eq!(store.unreadable_len(), 0);
}

#[test]
fn the_version_never_goes_back_within_a_watch() {
    let (mut writer, store) = store::<MetaOnly>();
    writer.advance(ResourceVersion(9));
    writer.advance(ResourceVersion(7));
    assert_eq!(store.last_sync_resource_version(), ResourceVersion(9));
}

#[test]
fn a_list_of_what_can_be_read_names_all_that_cannot() {
    let (mut writer, store) = store();
    writer.put(good("a", "1", "web", 1));
    writer.put(Decoded::Unreadable(object("b", "2", "", 2), damage()));
    writer.put(Decoded::Unreadable(object("c", "3", "", 3), damage()));
    assert!(store.list().is_err());
    let (readable, unreadable) = store.list_readable();
    assert_eq!(names(Ok(readable)), ["a".to_owned()].into());
    let unreadable: BTreeSet<_> = unreadable.iter().map(|error| error.key.name.as_str()).collect();
    assert_eq!(unreadable, ["b", "c"].into());
}

/// An index that panics for objects of the app "trap".
fn by_app_with_a_trap(store: &Store<MetaOnly>) -> IndexId {
    store.add_index(
        "trap",
        Arc::new(|object: &Arc<MetaOnly>, found: &mut dyn FnMut(IndexValue)| {
            if let Some(app) = object.meta().labels.get("app") {
                found("any".into());
                assert_ne!(app, "trap", "as this test wants");
                found(app.clone().into());
            }
        }),
    )
}

#[test]
fn an_object_that_an_index_function_panics_on_may_be_under_any_of_its_values() {
    let (mut writer, store) = store();
    writer.put(good("old", "0", "trap", 1));
    let (trap, app) = (by_app_with_a_trap(&store), by_app(&store));
    writer.put(good("a", "1", "web", 1));
    writer.put(good("b", "2", "trap", 2));
    writer.put(good("c", "3", "web", 3));
    assert_eq!(store.len(), 4);
    let unplaced = store.by_index(trap, &"web".into()).unwrap_err();
    assert!(["old", "b"].contains(&unplaced.key.name.as_str()), "{unplaced}");
    let only_c = |meta: &Meta| meta.key.name == "c";
    assert_eq!(names(store.by_index_where(trap, &"web".into(), only_c)), ["c".to_owned()].into());
    assert_eq!(names(store.by_index(app, &"web".into())), ["a".to_owned(), "c".to_owned()].into());
    assert!(store.get(&ObjectKey::new("default", "b")).unwrap().is_some(), "the object itself can be read");
    assert_eq!(store.count_by_index(trap, &"web".into()), 4);

    writer.put(good("b", "2", "web", 4));
    writer.delete(good("old", "0", "trap", 5));
    let all = ["a".to_owned(), "b".to_owned(), "c".to_owned()].into();
    assert_eq!(names(store.by_index(trap, &"web".into())), all);
    writer.put(good("b", "2", "trap", 6));
    for (name, uid, app) in [("a", "1", "web"), ("b", "2", "trap"), ("c", "3", "web")] {
        assert!(writer.delete(good(name, uid, app, 7)).is_some());
    }
    assert!(store.index_values(trap).is_empty(), "nothing stays behind of what was found before the panic");
    assert!(store.by_index(trap, &"web".into()).unwrap().is_empty());
}

/// A closure that asks the store it is called by while a writer waits must get its answer.
fn asks_within(call: impl FnOnce(&Store<MetaOnly>, &dyn Fn(&Meta)) + Send + 'static) {
    let (mut writer, store) = store();
    writer.put(good("a", "1", "web", 1));
    let (answered, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let writing = std::cell::Cell::new(Some(writer));
        call(&store, &|meta| {
            let mut writer = writing.take().expect("there is one object");
            let write = std::thread::spawn(move || writer.put(good("b", "2", "web", 2)).is_some());
            // Until the writer waits for this closure, or had no need to.
            while store.tables.try_read().is_some() && !write.is_finished() {
                std::thread::yield_now();
            }
            answered.send(store.meta(&meta.key)).unwrap();
        });
    });
    let answer = answer.recv_timeout(std::time::Duration::from_secs(20));
    assert!(answer.expect("the store must answer").is_some());
}

#[test]
fn a_closure_may_ask_the_store_that_calls_it_whoever_waits_to_write() {
    asks_within(|store, ask| store.for_each(|object| ask(object.meta())));
}

#[test]
fn so_may_one_that_filters() {
    asks_within(|store, ask| {
        let index = by_app(store);
        let filter = |meta: &Meta| {
            ask(meta);
            true
        };
        assert_eq!(store.by_index_where(index, &"web".into(), filter).unwrap().len(), 1);
    });
}

#[test]
fn so_may_one_that_goes_through_an_index() {
    asks_within(|store, ask| {
        let index = by_app(store);
        store.for_each_by_index(index, &"web".into(), |object| ask(object.meta()));
    });
}

#[test]
#[should_panic(expected = "the index must be of the store that is asked")]
fn an_index_of_another_store_is_refused() {
    let ((_, one), (_, other)) = (store(), store());
    let index = by_app(&one);
    let _ = other.add_index("other", Arc::new(|_: &Arc<MetaOnly>, _: &mut dyn FnMut(IndexValue)| {}));
    let _ = other.by_index(index, &"web".into());
}

proptest! {
    /// Whatever is written, every index holds just what a scan would find.
    #[test]
    fn indexes_agree_with_a_scan(writes in proptest::collection::vec((0..8_u8, 0..3_u8, 0..4_u8, any::<bool>()), 0..200)) {
        let (mut writer, store) = store();
        let index = by_app(&store);
        let mut model = BTreeMap::new();
        for (version, (name, uid, app, present)) in writes.into_iter().enumerate() {
            let (name, uid, app) = (format!("n{name}"), format!("{name}-{uid}"), format!("a{app}"));
            let decoded = good(&name, &uid, &app, version as u64);
            if present {
                writer.put(decoded);
                model.insert(name, (uid, app));
            } else {
                prop_assert_eq!(writer.delete(decoded).is_some(), model.remove(&name).is_some());
            }
            prop_assert_eq!(store.len(), model.len());
            for app in (0..4).map(|app| format!("a{app}")) {
                let expected: BTreeSet<_> =
                    model.iter().filter(|(_, (_, a))| *a == app).map(|(name, _)| name.clone()).collect();
                prop_assert_eq!(names(store.by_index(index, &app.as_str().into())), expected);
            }
            for (name, (uid, _)) in &model {
                let found = store.get_by_uid(&uid.as_str().into()).unwrap().unwrap();
                prop_assert_eq!(found.meta().key.name.as_str(), name);
            }
        }
    }
}
