use serde_json::json;

use super::*;

fn ready(status: ConditionStatus, second: i64, reason: &str) -> Condition {
    Condition {
        kind: "Ready".into(),
        status,
        last_transition_time: Some(Time::from_seconds(second)),
        reason: reason.into(),
        message: ArcStr::new(),
    }
}

#[test]
fn setting_a_condition_keeps_its_transition_time_unless_the_status_changes() {
    use ConditionStatus::{False, True};
    let old = ready(True, 1, "a");
    let cases = [
        ("the same", ready(True, 9, "a"), false, ready(True, 1, "a")),
        ("another reason", ready(True, 9, "b"), true, ready(True, 1, "b")),
        ("another status", ready(False, 9, "a"), true, ready(False, 9, "a")),
        (
            "another message",
            Condition { message: "m".into(), ..ready(True, 9, "a") },
            true,
            Condition { message: "m".into(), ..ready(True, 1, "a") },
        ),
    ];
    for (name, new, changes, expected) in cases {
        let other = Condition { kind: "Other".into(), ..Condition::default() };
        let mut typed = vec![old.clone(), other.clone()];
        assert_eq!(set(&mut typed, new.clone()), changes, "{name}");
        assert_eq!(typed, [expected, other], "{name}");

        let json = |conditions: &[Condition]| match json!(conditions) {
            Value::Array(list) => list,
            _ => unreachable!("a slice must be a list in JSON"),
        };
        let mut untyped = json(&[old.clone(), typed[1].clone()]);
        assert_eq!(set(&mut untyped, json!(new)), changes, "{name}, in JSON");
        assert_eq!(untyped, json(&typed), "{name}, in JSON");
    }
}

#[test]
fn a_condition_of_a_new_type_is_appended_with_the_time_that_the_caller_gave() {
    let mut conditions = vec![Condition { kind: "Other".into(), ..Condition::default() }];
    let new = ready(ConditionStatus::False, 9, "a");
    assert!(set(&mut conditions, new.clone()));
    assert_eq!(conditions[1..], [new]);
}

#[test]
fn a_transition_time_that_was_not_set_stays_so_in_json() {
    let mut conditions = vec![json!({"type": "Ready", "status": "True"})];
    set(
        &mut conditions,
        json!({"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"}),
    );
    assert_eq!(conditions, [json!({"type": "Ready", "status": "True", "lastTransitionTime": null})]);
}

#[test]
fn only_conditions_of_the_given_type_are_found_and_removed() {
    let other = Condition { kind: "Other".into(), ..ready(ConditionStatus::True, 1, "") };
    let mut conditions = vec![ready(ConditionStatus::False, 1, ""), other.clone()];
    assert_eq!(find(&conditions, "Other"), Some(&other));
    assert!(is_true(&conditions, "Other"));
    assert!(!is_true(&conditions, "Ready") && !is_true(&conditions, "Absent"));
    assert!(remove(&mut conditions, "Ready"));
    assert!(!remove(&mut conditions, "Ready"));
    assert_eq!(conditions, [other]);
}

#[test]
fn a_condition_is_written_in_upstreams_order_without_empty_texts() {
    let written = |condition: &Condition| serde_json::to_string(condition).unwrap();
    assert_eq!(
        written(&Condition { message: "m".into(), ..ready(ConditionStatus::True, 0, "R") }),
        r#"{"type":"Ready","status":"True","lastTransitionTime":"1970-01-01T00:00:00Z","reason":"R","message":"m"}"#
    );
    assert_eq!(
        written(&Condition { kind: "Ready".into(), ..Condition::default() }),
        r#"{"type":"Ready","status":"Unknown"}"#
    );
}
