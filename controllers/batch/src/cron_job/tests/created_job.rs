//! The job of a run.

use serde_json::{Value, json};
use steersman_api::wire::Writer;
use steersman_api::{OwnerReference, Uid, schema};
use steersman_controller::call::{Content, PROTOBUF};
use steersman_informer::wire::{FieldValue, Opaque};

use super::*;
use crate::cron_job::job::{self, JobDraft};

fn draft(zone: &str) -> JobDraft {
    let zone = Zones::with_local(TimeZone::UTC).load(zone).unwrap();
    let run = at("2026-05-19T10:00:00Z");
    JobDraft {
        name: job::name("backup", run),
        owner: OwnerReference::controller("batch/v1", "CronJob", "backup", Uid::from("u")),
        scheduled: job::stamp(run, &zone),
    }
}

#[test]
fn a_job_says_when_it_was_scheduled_in_the_zone_of_the_cron_job() {
    for (zone, expected) in [
        ("", "2026-05-19T10:00:00Z"),
        ("Atlantic/Reykjavik", "2026-05-19T10:00:00Z"),
        ("Asia/Kolkata", "2026-05-19T15:30:00+05:30"),
        ("America/New_York", "2026-05-19T06:00:00-04:00"),
    ] {
        assert_eq!(draft(zone).scheduled, expected);
    }
}

fn job_of(content: &Content) -> Value {
    match content.media_type {
        PROTOBUF => schema::decode(&content.bytes).unwrap(),
        _ => serde_json::from_slice(&content.bytes).unwrap(),
    }
}

#[test]
fn a_job_is_the_template_with_additions_in_either_encoding() {
    let mut newer = Writer::new();
    newer.message(1, |metadata| {
        metadata.text(1, "ignored");
        metadata.entry(11, "app", "backup");
        metadata.entry(12, "note", "x");
        metadata.text(14, "ignored/finalizer");
    });
    newer.message(2, |spec| {
        spec.int64(1, 3);
        spec.text(9_000, "newer");
    });
    let protobuf = draft("").fill_in(&Opaque::Protobuf(newer.into_bytes().into())).unwrap();
    assert!(protobuf.bytes.windows(5).any(|window| window == b"newer"), "unknown fields survive");
    let template = json!({
        "metadata": {
            "name": "ignored", "labels": {"app": "backup"}, "annotations": {"note": "x"},
            "finalizers": ["ignored/finalizer"],
        },
        "spec": {"parallelism": 3, "newer": {"still": 1}},
    });
    let json = draft("").fill_in(&Opaque::from_json(&template).unwrap()).unwrap();
    assert_eq!(job_of(&json)["spec"]["newer"], json!({"still": 1}));
    for content in [protobuf, json] {
        let job = job_of(&content);
        let meta = &job["metadata"];
        assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("batch/v1"), &json!("Job")));
        assert_eq!((&meta["name"], &meta["labels"]), (&json!("backup-29653080"), &json!({"app": "backup"})));
        let scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp";
        assert_eq!(meta["annotations"], json!({"note": "x", scheduled: "2026-05-19T10:00:00Z"}));
        let owner = json!([{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": "backup", "uid": "u",
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!((&meta["ownerReferences"], &meta["finalizers"]), (&owner, &Value::Null));
        assert_eq!(job["spec"]["parallelism"], 3);
    }
}
