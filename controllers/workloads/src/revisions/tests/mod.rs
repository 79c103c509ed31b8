mod data;
mod history;
mod verdicts;

use serde_json::{Value, json};
use steersman_api::{LabelSelector, Meta, ObjectKey, Time};
use steersman_informer::wire::{Encoding, Object, Opaque};

use super::*;
use crate::pod_template::tests::{nginx, protobuf_of};

/// A revision as the cache keeps it, with data that is sent as it is.
fn revision(name: &str, version: u64, number: i64, data: &str) -> ControllerRevision {
    let metadata =
        json!({"namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string()});
    let text = format!(r#"{{"metadata":{metadata},"data":{data},"revision":{number}}}"#);
    ControllerRevision::decode(&text.into(), Encoding::Json, u64::MAX).unwrap()
}

/// An owner of revisions.
struct Set {
    meta: Meta,
    selector: LabelSelector,
    template: Opaque,
}

impl Set {
    fn new(name: &str, template: &Value) -> Self {
        let meta = Meta { key: ObjectKey::new("default", name), uid: name.into(), ..Meta::default() };
        Self {
            meta,
            selector: LabelSelector::from_labels([("app", "nginx")]),
            template: protobuf_of(template),
        }
    }

    fn owner(&self) -> Owner<'_> {
        Owner { meta: &self.meta, selector: &self.selector, template: &self.template }
    }
}

fn image(image: &str) -> Value {
    let mut template = nginx();
    template["spec"]["containers"][0]["image"] = image.into();
    template
}

#[test]
fn revisions_are_sorted_by_number_then_age_then_name() {
    let of = |name: &str, number, created: Option<i64>| {
        let revision = revision(name, 1, number, "{}");
        let created = created.map(Time::from_seconds);
        revision.with_meta(Meta { created, ..revision.meta().clone() })
    };
    // The names tell the expected order.
    for (case, mut revisions) in [
        ("sorted", vec![of("a", 1, Some(5)), of("b", 2, Some(4)), of("c", 3, Some(3))]),
        ("reversed", vec![of("c", 3, Some(3)), of("b", 2, Some(4)), of("a", 1, Some(5))]),
        ("out of order", vec![of("b", 2, None), of("c", 30, None), of("a", -1, None)]),
        ("equal numbers", vec![of("b", 1, Some(5)), of("a", 1, Some(4)), of("c", 1, Some(6))]),
        ("equal numbers and ages", vec![of("b", 1, Some(5)), of("a", 1, Some(5)), of("c", 2, Some(5))]),
        ("none", vec![]),
    ] {
        revisions.sort_by(in_order);
        let names: Vec<&str> = revisions.iter().map(|revision| &*revision.meta().key.name).collect();
        assert!(names.is_sorted(), "{case}: {names:?}");
    }
}
