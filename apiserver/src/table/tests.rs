//! Tables against what kube-apiserver 1.36.3 makes of the same objects.
//!
//! `testdata/rows.jsonl` has objects with the cells that it showed, `columns.jsonl` the columns of every resource that can
//! be listed, `custom.jsonl` the same for a custom resource.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_api::GroupVersion;

use super::{CustomColumns, Layout, conditions, format};

fn lines(text: &'static str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn check(layout: &Layout, vector: &Value) {
    let now: Timestamp = text(&vector["now"]).parse().unwrap();
    let object = &vector["object"];
    let cells = Value::from(layout.cells(object, now));
    assert_eq!(cells, vector["cells"], "{} {}", object["kind"], object["metadata"]["name"]);
}

#[test]
fn rows_are_upstreams_cell_by_cell() {
    for vector in lines(include_str!("testdata/rows.jsonl")) {
        let object = &vector["object"];
        let (group, _) = GroupVersion::split(text(&object["apiVersion"]));
        check(&Layout::of(group, text(&object["kind"])), &vector);
        let said = conditions(text(&object["kind"]), object);
        assert_eq!(said.as_ref(), vector.get("conditions"), "{}", object["metadata"]["name"]);
    }
}

#[test]
fn columns_are_upstreams_for_every_resource() {
    for vector in lines(include_str!("testdata/columns.jsonl")) {
        let (api_version, kind) = text(&vector[0]).split_once(' ').unwrap();
        let (group, _) = GroupVersion::split(api_version);
        assert_eq!(brief(&Layout::of(group, kind)), vector[1], "{}", vector[0]);
    }
}

/// Name, type, format and priority of each column.
fn brief(layout: &Layout) -> Value {
    let fields = ["name", "type", "format", "priority"];
    let columns = layout.definitions();
    columns.iter().map(|column| fields.iter().map(|field| column[field].clone()).collect::<Value>()).collect()
}

#[test]
fn custom_resources_have_the_columns_of_their_definition() {
    let mut vectors = lines(include_str!("testdata/custom.jsonl"));
    let definition = vectors.next().unwrap();
    let layout = Layout::Custom(CustomColumns::of_version(&definition["version"]));
    assert_eq!(brief(&layout), definition["columns"]);
    for vector in vectors {
        check(&layout, &vector);
    }
    let plain = Layout::Custom(CustomColumns::of_version(&json!({"name": "v1"})));
    assert_eq!(brief(&plain), json!([["Name", "string", "name", 0], ["Age", "date", "", 0]]));
}

#[test]
fn spans_have_two_or_three_significant_figures() {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    for (seconds, expected) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE + 59, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (7 * YEAR + 364 * DAY, "7y364d"),
        (8 * YEAR + 364 * DAY, "8y"),
    ] {
        assert_eq!(format::human(SignedDuration::from_secs(seconds)), expected, "{seconds}");
    }
    assert_eq!(format::human(SignedDuration::from_millis(-1999)), "0s");
}

#[test]
fn an_object_with_nothing_in_it_has_a_row_all_the_same() {
    let resources = steersman_api::schema::table().group_versions().iter().flat_map(|group| &group.resources);
    for resource in resources {
        let layout = Layout::of(resource.group, resource.kind);
        for object in [json!({}), json!({"metadata": null, "spec": [], "status": "x"})] {
            let cells = layout.cells(&object, Timestamp::UNIX_EPOCH);
            assert!(cells.len() >= layout.definitions().len(), "{}", resource.plural);
        }
    }
}
