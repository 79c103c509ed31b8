use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::Quantity;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

use super::super::amounts::Amounts;
use super::super::plan::{Observed, Outcome, Step, Tally, Uncounted, plan};
use super::quota;

/// A tally of these names, of which this is used.
fn tally(names: &[&str], used: Value) -> Tally {
    let mut amounts = Amounts::default();
    for (name, amount) in used.as_object().unwrap() {
        amounts.set(name.as_str(), amount.as_str().unwrap().parse::<Quantity>().unwrap());
    }
    Tally { names: names.iter().map(|name| (*name).into()).collect(), used: Ok(amounts) }
}

fn uncounted(names: &[&str], why: Uncounted) -> Tally {
    Tally { used: Err(why), ..tally(names, json!({})) }
}

fn observed(hard: Value, status: Value, tallies: Vec<Tally>) -> Observed {
    let quota = quota(json!({"hard": hard}), status);
    Observed { quota, tallies, next_overdue: None, outcome: None }
}

/// The status that the plan writes; null if it writes none.
fn written(observed: &Observed) -> Value {
    match plan(observed) {
        Plan::Act(batch) => match &batch.steps[..] {
            [Step::WriteStatus(status)] => serde_json::to_value(status).unwrap(),
            other => panic!("{other:?}"),
        },
        Plan::Done { .. } => Value::Null,
    }
}

#[test]
fn the_status_has_what_was_counted_of_each_bounded_name() {
    let pods = || tally(&["cpu", "pods"], json!({"cpu": "1500m", "pods": "3"}));
    for (hard, status, tallies, expected) in [
        // A new quota.
        (
            json!({"cpu": "2", "pods": "5"}),
            json!({}),
            vec![pods()],
            json!({"hard": {"cpu": "2", "pods": "5"}, "used": {"cpu": "1500m", "pods": "3"}}),
        ),
        // New limits, of which nothing is used.
        (
            json!({"pods": "5", "services": "1"}),
            json!({"hard": {"pods": "2"}, "used": {"pods": "3"}}),
            vec![pods(), tally(&["services"], json!({}))],
            json!({"hard": {"pods": "5", "services": "1"}, "used": {"pods": "3", "services": "0"}}),
        ),
        // A name that is no longer bounded.
        (
            json!({"pods": "5"}),
            json!({"hard": {"pods": "5", "cpu": "2"}, "used": {"pods": "3", "cpu": "1"}}),
            vec![tally(&["pods"], json!({"pods": "3"}))],
            json!({"hard": {"pods": "5"}, "used": {"pods": "3"}}),
        ),
        // Less is used than before.
        (
            json!({"pods": "5"}),
            json!({"hard": {"pods": "5"}, "used": {"pods": "4"}}),
            vec![tally(&["pods"], json!({"pods": "3"}))],
            json!({"hard": {"pods": "5"}, "used": {"pods": "3"}}),
        ),
        // A name of no known kind.
        (
            json!({"pods": "5", "count/widgets.example.com": "1"}),
            json!({}),
            vec![tally(&["pods"], json!({"pods": "3"}))],
            json!({"hard": {"pods": "5", "count/widgets.example.com": "1"}, "used": {"pods": "3"}}),
        ),
        // Pods and device claims use one name.
        (
            json!({"requests.example.com/gpu": "9"}),
            json!({}),
            vec![
                tally(&["requests.example.com/gpu"], json!({"requests.example.com/gpu": "2"})),
                tally(&["requests.example.com/gpu"], json!({"requests.example.com/gpu": "3"})),
            ],
            json!({"hard": {"requests.example.com/gpu": "9"}, "used": {"requests.example.com/gpu": "5"}}),
        ),
    ] {
        assert_eq!(written(&observed(hard.clone(), status, tallies)), expected, "{hard}");
    }
}

#[test]
fn nothing_is_written_if_the_values_are_equal_whatever_their_notation() {
    let status = json!({"hard": {"cpu": "2000m", "memory": "1Gi"}, "used": {"cpu": "1", "memory": "512Mi"}});
    let counted = tally(&["cpu", "memory"], json!({"cpu": "1000m", "memory": "0.5Gi"}));
    let same = observed(json!({"cpu": "2", "memory": "1024Mi"}), status.clone(), vec![counted]);
    assert_eq!(plan(&same), Plan::done());
    // An amount whose value is the same keeps its notation.
    let counted = tally(&["cpu", "memory"], json!({"cpu": "2", "memory": "536870912"}));
    let other = observed(json!({"cpu": "2", "memory": "1Gi"}), status, vec![counted]);
    assert_eq!(written(&other)["used"], json!({"cpu": "2", "memory": "512Mi"}));
    assert_eq!(plan(&observed(json!({}), json!({}), Vec::new())), Plan::done());
}

#[test]
fn names_whose_objects_can_not_be_counted_keep_their_figures() {
    let old = json!({"hard": {"pods": "5", "services": "2"}, "used": {"pods": "4", "services": "1"}});
    let services = || tally(&["services"], json!({"services": "2"}));
    let failed = || uncounted(&["pods"], Uncounted::Failed("Pod default/a can't be read".to_owned()));
    let hard = json!({"pods": "5", "services": "2"});
    let mut partly = observed(hard.clone(), old, vec![failed(), services()]);
    assert_eq!(written(&partly)["used"], json!({"pods": "4", "services": "2"}));
    partly.absorb(StepResult::Done(Outcome::Written));
    let fail = Plan::step(Step::Fail("Pod default/a can't be read".to_owned()));
    assert_eq!(plan(&partly), fail, "the quota is synced again after its back-off");

    let fresh = observed(hard.clone(), json!({}), vec![failed(), services()]);
    assert_eq!(written(&fresh), json!({"hard": hard, "used": {"services": "2"}}));
    let waiting =
        observed(hard.clone(), json!({}), vec![uncounted(&["pods"], Uncounted::NotYet), services()]);
    let mut done = waiting.clone();
    done.absorb(StepResult::Done(Outcome::Written));
    assert_eq!(plan(&done), Plan::done(), "the quota is synced again once the kind is cached");
    // One of two kinds that use a name is not enough.
    let extended = "requests.example.com/gpu";
    let tallies = vec![tally(&[extended], json!({extended: "1"})), uncounted(&[extended], Uncounted::NotYet)];
    let old = json!({"hard": {extended: "9"}, "used": {extended: "7"}});
    assert_eq!(plan(&observed(json!({extended: "9"}), old, tallies)), Plan::done());
}

#[test]
fn a_sync_ends_with_the_write_and_comes_again_after_a_conflict_or_when_a_pod_is_overdue() {
    let counted = || vec![tally(&["pods"], json!({"pods": "3"}))];
    let mut observed = observed(json!({"pods": "5"}), json!({}), counted());
    observed.next_overdue = Some(Duration::from_secs(9));
    let requeue = |observed: &Observed| match plan(observed) {
        Plan::Done { requeue_after } => requeue_after,
        acts @ Plan::Act(_) => panic!("{acts:?}"),
    };
    for (outcome, after) in [
        (Outcome::Written, Some(Duration::from_secs(9))),
        (Outcome::Conflict, Some(Duration::from_millis(10))),
        (Outcome::Gone, None),
    ] {
        let mut ended = observed.clone();
        ended.absorb(StepResult::Done(outcome));
        assert_eq!(requeue(&ended), after, "{outcome:?}");
    }
}
