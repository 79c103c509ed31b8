//! Tables of the plan.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use steersman_api::Time;
use steersman_controller::plan::{Batch, Plan};
use steersman_informer::View;

use super::plan::{Observed, Reason, plan};

const HOUR: i64 = 60 * 60;

fn now() -> Time {
    "2026-11-23T12:00:00Z".parse::<jiff::Timestamp>().unwrap().into()
}

fn ago(seconds: i64) -> Time {
    Time::from_seconds(now().seconds() - seconds)
}

/// A certificate that expires in that year, in PEM and in base64.
fn certificate(expires: i32) -> String {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(expires, 1, 1));
    STANDARD.encode(params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem())
}

/// Why a request goes that was created and whose conditions were written so many seconds ago.
fn reason(created: i64, conditions: &[(&str, i64)], certificate: &str) -> Option<Reason> {
    let condition = |(kind, written): &(&str, i64)| json!({"type": kind, "status": "True", "lastUpdateTime": ago(*written)});
    reason_of(&json!({
        "metadata": {"name": "r", "uid": "u", "creationTimestamp": ago(created)},
        "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>(), "certificate": certificate},
    }))
}

fn reason_of(request: &Value) -> Option<Reason> {
    match plan(&Observed { requests: vec![View::from_json(request)], is_cleaned: false }, now()) {
        Plan::Act(Batch { steps, .. }) => {
            assert_eq!(
                (steps.len(), steps[0].key.name.as_str(), steps[0].uid.to_string()),
                (1, "r", "u".to_owned())
            );
            Some(steps[0].reason)
        }
        Plan::Done { requeue_after } => {
            assert_eq!(requeue_after, None);
            None
        }
    }
}

#[test]
fn requests_go_when_their_time_is_over() {
    let (good, expired) = (certificate(2030), certificate(2020));
    let (good, expired, garbage, none) = (good.as_str(), expired.as_str(), "Z2FyYmFnZQ==", "");
    for (name, created, conditions, certificate, expected) in [
        ("just approved and signed", 60, vec![("Approved", 50 * 60)], good, None),
        ("approved and signed", 60, vec![("Approved", 2 * HOUR)], good, Some(Reason::Issued)),
        ("just approved, not signed", 60, vec![("Approved", 50 * 60)], none, None),
        ("approved, not signed", 60, vec![("Approved", 5 * HOUR)], none, None),
        ("approved long ago, not signed", 60, vec![("Approved", 25 * HOUR)], none, Some(Reason::Unsigned)),
        ("just denied", 60, vec![("Denied", 50 * 60)], none, None),
        ("denied", 60, vec![("Denied", 2 * HOUR)], none, Some(Reason::Denied)),
        ("approved, and just failed", 60, vec![("Approved", 2 * HOUR), ("Failed", 50 * 60)], none, None),
        (
            "approved, and failed",
            60,
            vec![("Approved", 2 * HOUR), ("Failed", 2 * HOUR)],
            none,
            Some(Reason::Failed),
        ),
        ("pending", 5 * HOUR, vec![], none, None),
        ("pending for long", 25 * HOUR, vec![], none, Some(Reason::Pending)),
        ("decided about in another way", 25 * HOUR, vec![("Odd", HOUR)], none, None),
        ("just signed, and expired", 60, vec![("Approved", 50 * 60)], expired, Some(Reason::Expired)),
        ("signed, expired, not approved", 60, vec![], expired, None),
        ("signed by something else", 60, vec![("Approved", 2 * HOUR)], garbage, Some(Reason::Issued)),
        ("just signed by something else", 60, vec![("Approved", 50 * 60)], garbage, None),
        ("approved for an hour", 60, vec![("Approved", HOUR)], good, None),
        ("approved for longer", 60, vec![("Approved", HOUR + 1)], good, Some(Reason::Issued)),
    ] {
        assert_eq!(reason(created, &conditions, certificate), expected, "{name}");
    }
}

#[test]
fn a_condition_without_a_time_does_not_age() {
    let conditions =
        json!([{"type": "Denied", "status": "True"}, {"type": "Approved", "lastUpdateTime": null}]);
    let request = json!({"metadata": {"name": "r", "uid": "u"}, "status": {"conditions": conditions}});
    assert_eq!(reason_of(&request), None);
}

#[test]
fn a_sync_tries_each_request_once() {
    let old = json!({"metadata": {"name": "r", "uid": "u", "creationTimestamp": ago(25 * HOUR)}});
    let requests = vec![View::from_json(&old)];
    assert_eq!(plan(&Observed { requests, is_cleaned: true }, now()), Plan::done());
}
