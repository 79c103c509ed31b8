//! What is used of the quotas of a namespace, counted anew.
//!
//! ```text
//! begin: list, read and add up all objects (takes its time; all may go on)
//!   ─> finish: add and take off what has changed since, and write (nobody is admitted meanwhile)
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::quota::{Count, Measured};
use super::{QUOTAS, list};
use crate::object;
use crate::store::{Object, Store};

/// A count that has begun.
pub(crate) struct Recount<'a> {
    store: &'a Store,
    namespace: &'a str,
    now: Timestamp,
    counts: Vec<Count>,
    /// The objects that were added up, by their tables and versions.
    counted: BTreeMap<String, HashMap<u64, Arc<Object>>>,
}

impl<'a> Recount<'a> {
    /// Adds up what is there.
    pub(crate) fn begin(store: &'a Store, namespace: &'a str, now: Timestamp) -> Self {
        let mut counts: Vec<Count> = counts(store, namespace).collect();
        let tables: BTreeSet<String> = counts.iter().flat_map(Count::tables).collect();
        let mut counted = BTreeMap::new();
        for table in tables {
            let objects = list(store, &table, namespace);
            let measured = Measured { table: &table, now };
            for object in &objects {
                let value = measured_part(&table, object);
                counts.iter_mut().for_each(|count| count.add(&measured, &value));
            }
            counted.insert(table, objects.into_iter().map(|object| (object.version, object)).collect());
        }
        Self { store, namespace, now, counts, counted }
    }

    /// Adds up what has changed meanwhile, and writes what is used. The caller sees to it that nothing is written until this
    /// is done that counts for more. A quota that has been specified anew meanwhile is left for the next count.
    pub(crate) fn finish(mut self) {
        for (table, mut before) in std::mem::take(&mut self.counted) {
            let measured = Measured { table: &table, now: self.now };
            for object in list(self.store, &table, self.namespace) {
                if before.remove(&object.version).is_none() {
                    let value = measured_part(&table, &object);
                    self.counts.iter_mut().for_each(|count| count.add(&measured, &value));
                }
            }
            for gone in before.values() {
                let value = measured_part(&table, gone);
                self.counts.iter_mut().for_each(|count| count.take_off(&measured, &value));
            }
        }
        for quota in list(self.store, QUOTAS, self.namespace) {
            let value = quota.parsed();
            let Some(count) = self.counts.iter().find(|count| count.is_of(&value)) else { continue };
            let status = count.status();
            if !object::same(value.get("status"), Some(&status)) {
                let mut counted = Value::clone(&value);
                object::members(&mut counted).insert("status".to_owned(), status);
                let _ = self.store.replace(&quota, counted);
            }
        }
    }
}

/// Whether what has become of an object, or that it has gone, makes a difference to a quota of its namespace. That time goes
/// by is no difference here.
pub(crate) fn makes_difference(store: &Store, old: &Object, new: Option<&Object>) -> bool {
    let table = old.resource.table.as_str();
    let mut about = counts(store, &old.key.namespace).filter(|count| count.is_about(table)).peekable();
    if about.peek().is_none() {
        return false;
    }
    let measured = Measured::of_table(table);
    // These have just been read, or written: they are at hand.
    let value = |object: &Object| {
        if measured.looks_into_objects() { object.parsed() } else { Arc::default() }
    };
    let (before, after) = (value(old), new.map(value));
    about.any(|count| {
        let after = after.as_ref().map(|after| count.amounts_of(&measured, after));
        count.amounts_of(&measured, &before) != after.unwrap_or_default()
    })
}

fn counts(store: &Store, namespace: &str) -> impl Iterator<Item = Count> {
    list(store, QUOTAS, namespace).into_iter().map(|quota| Count::new(quota.parsed()))
}

/// As much of an object as is measured: of most kinds that it is there.
fn measured_part<'o>(table: &str, object: &'o Object) -> Cow<'o, Value> {
    #[derive(Deserialize)]
    struct Part {
        metadata: Metadata,
        #[serde(default)]
        spec: Value,
        #[serde(default)]
        status: Value,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        annotations: Value,
        #[serde(default)]
        deletion_timestamp: Value,
        #[serde(default)]
        deletion_grace_period_seconds: Value,
    }
    static NOTHING: Value = Value::Null;
    if !Measured::of_table(table).looks_into_objects() {
        return Cow::Borrowed(&NOTHING);
    }
    let part = object.read::<Part>().map(|Part { metadata, spec, status }| {
        let metadata = json!({
            "annotations": metadata.annotations,
            "deletionTimestamp": metadata.deletion_timestamp,
            "deletionGracePeriodSeconds": metadata.deletion_grace_period_seconds,
        });
        json!({"metadata": metadata, "spec": spec, "status": status})
    });
    Cow::Owned(part.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Resources;
    use steersman_api::ObjectKey;

    const NAMESPACE: &str = "default";

    struct Fixture {
        store: Store,
        resources: Resources,
    }

    impl Fixture {
        fn new(hard: Value) -> Self {
            let fixture = Self { store: Store::new(10), resources: Resources::built_in() };
            fixture.make("resourcequotas", "q", json!({"spec": {"hard": hard}}));
            fixture
        }

        fn make(&self, plural: &str, name: &str, mut object: Value) -> Arc<Object> {
            let resource = self.resources.get("", "v1", plural).unwrap();
            object["metadata"] = json!({"name": name, "namespace": NAMESPACE, "uid": name});
            self.store.create(resource, ObjectKey::new(NAMESPACE, name), object).unwrap()
        }

        fn begin(&self) -> Recount<'_> {
            Recount::begin(&self.store, NAMESPACE, Timestamp::UNIX_EPOCH)
        }

        fn used(&self) -> Value {
            list(&self.store, QUOTAS, NAMESPACE)[0].parsed()["status"]["used"].clone()
        }
    }

    fn pod(cpu: &str, phase: &str) -> Value {
        json!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn what_happens_while_others_are_added_up_is_counted_too() {
        let fixture = Fixture::new(json!({"pods": "9", "cpu": "9", "secrets": "9"}));
        let [stays, goes, ends] =
            ["stays", "goes", "ends"].map(|name| fixture.make("pods", name, pod("1", "Running")));
        fixture.make("secrets", "s", json!({"data": {}}));
        let count = fixture.begin();
        fixture.make("pods", "comes", pod("250m", "Pending"));
        fixture.store.remove(&goes).unwrap();
        let mut ended = Value::clone(&ends.parsed());
        ended["status"]["phase"] = "Failed".into();
        fixture.store.replace(&ends, ended).unwrap();
        count.finish();
        assert_eq!(fixture.used(), json!({"pods": "2", "cpu": "1250m", "secrets": "1"}));
        fixture.store.remove(&stays).unwrap();
        fixture.begin().finish();
        assert_eq!(fixture.used(), json!({"pods": "1", "cpu": "250m", "secrets": "1"}));
    }

    #[test]
    fn a_quota_that_says_something_else_meanwhile_is_left_for_the_next_count() {
        let fixture = Fixture::new(json!({"pods": "9"}));
        let count = fixture.begin();
        let quota = Arc::clone(&list(&fixture.store, QUOTAS, NAMESPACE)[0]);
        let mut other = Value::clone(&quota.parsed());
        other["spec"]["hard"] = json!({"secrets": "1"});
        fixture.store.replace(&quota, other).unwrap();
        count.finish();
        assert_eq!(fixture.used(), Value::Null);
        fixture.begin().finish();
        assert_eq!(fixture.used(), json!({"secrets": "0"}));
    }

    #[test]
    fn what_no_quota_counts_makes_no_difference() {
        let fixture = Fixture::new(json!({"pods": "9", "limits.cpu": "1"}));
        let mut number = 0;
        let mut make = |plural: &str, object: Value| {
            number += 1;
            fixture.make(plural, &format!("o{number}"), object)
        };
        let running = make("pods", pod("1", "Running"));
        let ended = make("pods", pod("1", "Succeeded"));
        let mut with_limit = pod("1", "Running");
        with_limit["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "1"});
        let limited = make("pods", with_limit);
        let other = make("pods", pod("2", "Running"));
        let map = make("configmaps", json!({"data": {}}));
        make("resourcequotas", json!({"spec": {"hard": {"pods": "9"}, "scopes": ["Terminating"]}}));
        let mut with_deadline = pod("1", "Running");
        with_deadline["spec"]["activeDeadlineSeconds"] = 5.into();
        let ending = make("pods", with_deadline);
        for (old, new, expected) in [
            (&running, None, true),
            (&ended, None, false),
            (&running, Some(&ended), true),
            (&running, Some(&other), false),
            (&limited, Some(&running), true),
            (&running, Some(&ending), true),
            (&map, None, false),
        ] {
            let new = new.map(Arc::as_ref);
            assert_eq!(
                makes_difference(&fixture.store, old, new),
                expected,
                "{} {:?}",
                old.parsed(),
                new.map(Object::parsed)
            );
        }
    }
}
