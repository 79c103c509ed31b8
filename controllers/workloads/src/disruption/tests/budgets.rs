//! What a budget's status says, and which events tell of.

use std::time::Duration;

use steersman_controller::controller::SyncError;
use steersman_kinds::selector::{SelectorRequirement, SelectorSpec};

use super::*;

fn seven_of_set() -> Vec<Pod> {
    (0..7).map(|at| pod(&at.to_string()).of("set", 7)).collect()
}

fn unready(mut pods: Vec<Pod>, count: usize) -> Vec<Pod> {
    pods.iter_mut().take(count).for_each(|pod| pod.ready = false);
    pods
}

#[test]
fn a_budget_allows_as_many_disruptions_as_there_are_healthy_pods_beyond_the_desired_ones() {
    let three = || vec![pod("a"), pod("b"), pod("c")];
    let cases: Vec<(&str, Bound, Vec<Pod>, [i32; 4])> = vec![
        ("min, no pods", min(3), vec![], [0, 0, 3, 0]),
        ("min, too few pods", min(3), vec![pod("a")], [0, 1, 3, 1]),
        ("min, just enough", min(3), three(), [0, 3, 3, 3]),
        ("min, one to spare", min(2), three(), [1, 3, 2, 3]),
        ("min 0", min(0), three(), [3, 3, 0, 3]),
        ("min 0, no pods", min(0), vec![], [0, 0, 0, 0]),
        ("min, one unready", min(2), vec![pod("a"), pod("b"), pod("c").unready()], [0, 2, 2, 3]),
        ("min, one being deleted", min(2), vec![pod("a"), pod("b"), pod("c").deleting()], [0, 2, 2, 3]),
        ("min percent, rounded up", min_percent("50%"), seven_of_set(), [3, 7, 4, 7]),
        ("min 28%", min_percent("28%"), seven_of_set(), [5, 7, 2, 7]),
        ("min 100%", min_percent("100%"), seven_of_set(), [0, 7, 7, 7]),
        ("min 0%", min_percent("0%"), seven_of_set(), [7, 7, 0, 7]),
        (
            "min percent, of replicas, not of pods",
            min_percent("20%"),
            vec![pod("a").of("set", 10)],
            [0, 1, 2, 10],
        ),
        ("min percent, no owner", min_percent("28%"), vec![pod("naked")], [0, 1, 0, 0]),
        ("min percent, no pods", min_percent("28%"), vec![], [0, 0, 0, 0]),
        ("max", max(2), seven_of_set(), [2, 7, 5, 7]),
        ("max, two unready", max(2), unready(seven_of_set(), 2), [0, 5, 5, 7]),
        ("max, three unready", max(2), unready(seven_of_set(), 3), [0, 4, 5, 7]),
        ("max, few pods of many replicas", max(2), vec![pod("a").of("set", 7)], [0, 1, 5, 7]),
        ("max 0", max(0), seven_of_set(), [0, 7, 7, 7]),
        ("max beyond the replicas", max(9), seven_of_set(), [7, 7, 0, 7]),
        ("max percent, rounded up", max_percent("30%"), seven_of_set(), [3, 7, 4, 7]),
        ("max 1% of 7 is one", max_percent("1%"), seven_of_set(), [1, 7, 6, 7]),
        ("max percent of three", max_percent("30%"), vec![pod("a").of("set", 3)], [0, 1, 2, 3]),
        ("max 100%", max_percent("100%"), seven_of_set(), [7, 7, 0, 7]),
        ("max, no owner", max(1), vec![pod("naked")], [0, 1, 0, 0]),
        ("two owners", max(1), vec![pod("a").of("x", 2), pod("b").of("y", 3)], [0, 2, 4, 5]),
        (
            "an owner of some pods",
            max(1),
            vec![pod("a").of("x", 2), pod("b").of("x", 2), pod("c")],
            [2, 3, 1, 2],
        ),
        ("an owner without replicas", max(1), vec![pod("a").of("x", 0)], [0, 1, 0, 0]),
        ("no bound", Bound::None, three(), [0, 3, 0, 0]),
    ];
    for (name, bound, pods, expected) in cases {
        let status = written(&observed(bound, pods)).unwrap();
        assert_eq!(numbers(&status), expected, "{name}");
        assert_eq!(status.observed_generation, 3, "{name}");
        let said = match expected[0] {
            0 => (ConditionStatus::False, "InsufficientPods", ""),
            _ => (ConditionStatus::True, "SufficientPods", ""),
        };
        assert_eq!(condition(&status), said, "{name}");
    }
}

#[test]
fn events_tell_of_budgets_without_pods_and_of_pods_without_owners() {
    let label = |key: &str| [(key, "a")].into_iter().collect();
    let requirement = SelectorRequirement {
        key: "tier".into(),
        operator: "In".into(),
        values: vec!["front".into(), "back".into()],
    };
    let mut naked = observed(max(1), vec![pod("a"), pod("b")]);
    naked.budget.selector =
        Some(SelectorSpec { match_labels: label("app"), match_expressions: vec![requirement] });
    let unmanaged = "Pods selected by this PodDisruptionBudget (selector: \
        &LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{\
        LabelSelectorRequirement{Key:tier,Operator:In,Values:[front back],},},}) were found to be unmanaged. As a result, the \
        status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods \
        please set \".spec.minAvailable\" field of the PDB to an integer value.";
    assert_eq!(events(&naked), [("UnmanagedPods", unmanaged.to_owned())]);
    assert_eq!(events(&observed(min(1), vec![pod("a")])), [], "a number of pods needs no owners");
    let nothing = [("NoPods", "No matching pods found".to_owned())];
    assert_eq!(events(&observed(min(1), vec![])), nothing);
    assert_eq!(events(&observed(max(1), vec![])), nothing);
}

#[test]
fn what_keeps_pods_from_being_counted_forbids_disruptions_and_leaves_the_other_numbers() {
    let no_owner = Replicas::NoOwner;
    let failed = |why: &str| Replicas::Failed(why.to_owned());
    let no_match = "no matches for kind \"Widget\" in version \"example.com/v1\"";
    let invalid = "invalid value for IntOrString: invalid type: string is not a percentage";
    let no_number =
        "invalid value for IntOrString: invalid value \"x%\": strconv.Atoi: parsing \"x\": invalid syntax";
    let of_widget = || vec![pod("a").of_foreign("w")];
    let unreadable = Pod { owner: Owner::Unreadable("ReplicaSet ns/a can't be read".to_owned()), ..pod("a") };
    for (bound, pods, answer, why) in [
        (max(1), of_widget(), Some(no_owner), "found no controllers for pod \"a\""),
        (min_percent("5%"), of_widget(), Some(failed(no_match)), no_match),
        (min_percent("five"), vec![pod("a").of("set", 1)], None, invalid),
        (max_percent("x%"), vec![pod("a").of("set", 1)], None, no_number),
        (max(1), vec![unreadable], None, "ReplicaSet ns/a can't be read"),
    ] {
        let mut observed = observed(bound, pods);
        observed.foreign.extend(answer.map(|answer| ("w".into(), answer)));
        observed.budget.status = Status {
            observed_generation: 2,
            disruptions_allowed: 2,
            current_healthy: 7,
            desired_healthy: 5,
            expected_pods: 7,
            disrupted_pods: [("a".into(), ago(5))].into(),
            conditions: Vec::new(),
        };
        let message = format!("Failed to calculate the number of expected pods: {why}");
        assert_eq!(events(&observed), [("CalculateExpectedPodCountFailed", message)]);
        let status = written(&observed).unwrap();
        assert_eq!(numbers(&status), [0, 7, 5, 7], "{why}");
        assert_eq!((status.observed_generation, disrupted(&status)), (2, vec!["a"]), "{why}");
        assert_eq!(condition(&status), (ConditionStatus::False, "SyncFailed", why));
        assert_eq!(status.conditions[0].observed_generation, 2);
        observed.budget.status = status;
        assert_eq!(written(&observed), None, "{why}: nothing changes");
    }
    let mut observed = observed(min(1), Vec::new());
    observed.pods = Err("Pod ns/a can't be read".to_owned());
    let message = "Failed to get pods: Pod ns/a can't be read".to_owned();
    assert_eq!(events(&observed), [("NoPods", message)]);
    assert_eq!(
        condition(&written(&observed).unwrap()),
        (ConditionStatus::False, "SyncFailed", "Pod ns/a can't be read")
    );
}

#[test]
fn the_scale_of_each_foreign_owner_is_read_once() {
    let pods = vec![
        pod("a").of_foreign("w"),
        pod("b").of_foreign("w"),
        pod("c").of_foreign("x"),
        pod("d").of("s", 2),
    ];
    let mut observed = observed(max(5), pods);
    assert_eq!(steps(&observed), [Step::ReadScale(foreign("w")), Step::ReadScale(foreign("x"))]);
    let replicas = |uid: &str, replicas| Replicas::Of(Scale { uid: uid.into(), replicas });
    let done = |replicas| StepResult::Done(Outcome::Scale(replicas));
    observed.absorb(Step::ReadScale(foreign("w")), done(replicas("w", 10)));
    observed.absorb(Step::ReadScale(foreign("x")), done(replicas("x", 1)));
    assert_eq!(numbers(&written(&observed).unwrap()), [0, 4, 8, 13]);

    let refusal = steersman_api::Status::failure(403, "Forbidden", "widgets.example.com \"x\" is forbidden");
    let error = SyncError::Refused { what: "reading".to_owned(), status: Box::new(refusal) };
    observed.absorb(Step::ReadScale(foreign("x")), StepResult::Failed(error));
    let why = "widgets.example.com \"x\" is forbidden";
    assert_eq!(condition(&written(&observed).unwrap()), (ConditionStatus::False, "SyncFailed", why));
    let by_number = super::observed(min(1), vec![pod("a").of_foreign("w")]);
    assert_eq!(numbers(&written(&by_number).unwrap()), [0, 1, 1, 1], "a number of pods needs no scale");
}

#[test]
fn evicted_pods_do_not_count_until_they_should_have_been_deleted() {
    let mut observed = observed(min(1), vec![pod("new"), pod("old"), pod("going").deleting(), pod("other")]);
    let entries = [("new", 20), ("old", 121), ("going", 5), ("gone", 5)];
    observed.budget.status.disrupted_pods = entries.map(|(name, seconds)| (name.into(), ago(seconds))).into();
    let status = written(&observed).unwrap();
    assert_eq!(disrupted(&status), ["new"]);
    assert_eq!(numbers(&status), [1, 2, 1, 4]);
    let message = "Pod was expected by PDB ns/ns to be deleted but it wasn't".to_owned();
    assert_eq!(events(&observed), [("NotDeleted", message)]);
    for step in steps(&observed) {
        let outcome = match &step {
            Step::WriteStatus(_) => Outcome::Written(ResourceVersion(11)),
            _ => Outcome::Done,
        };
        observed.absorb(step, StepResult::Done(outcome));
    }
    let recheck = Step::Recheck(Duration::from_secs(100));
    assert_eq!(steps(&observed), std::slice::from_ref(&recheck));
    observed.absorb(recheck, StepResult::Done(Outcome::Done));
    assert_eq!(steps(&observed), []);
}

#[test]
fn the_entry_of_a_pod_that_the_cache_may_not_show_yet_stays() {
    let mut observed = observed(min(1), vec![pod("a"), pod("b")]);
    observed.budget.status.disrupted_pods = [("c".into(), ago(1))].into();
    for (pods_version, expected) in [(9, &["c"][..]), (10, &[]), (11, &[])] {
        observed.pods_version = ResourceVersion(pods_version);
        let status = written(&observed).unwrap();
        assert_eq!((disrupted(&status), numbers(&status)), (expected.to_vec(), [1, 2, 1, 2]));
    }
}

#[test]
fn a_status_that_is_right_is_not_written() {
    let mut observed = observed(min(1), vec![pod("a"), pod("b")]);
    let settled = written(&observed).unwrap();
    observed.budget.status = settled.clone();
    assert_eq!(steps(&observed), []);
    // Whoever wrote another message has not said anything wrong.
    observed.budget.status.conditions[0].message = "enough".into();
    assert_eq!(steps(&observed), []);
    for (name, change) in [
        (
            "generation",
            Box::new(|status: &mut Status| status.observed_generation = 2) as Box<dyn Fn(&mut Status)>,
        ),
        ("allowed", Box::new(|status| status.disruptions_allowed = 2)),
        ("healthy", Box::new(|status| status.current_healthy = 1)),
        ("desired", Box::new(|status| status.desired_healthy = 2)),
        ("expected", Box::new(|status| status.expected_pods = 1)),
        ("disrupted", Box::new(|status| status.disrupted_pods = [("gone".into(), ago(1))].into())),
        ("no condition", Box::new(|status| status.conditions.clear())),
        ("reason", Box::new(|status| status.conditions[0].reason = "Other".into())),
        ("condition", Box::new(|status| status.conditions[0].status = ConditionStatus::False)),
    ] {
        observed.budget.status = settled.clone();
        change(&mut observed.budget.status);
        assert_eq!(written(&observed), Some(settled.clone()), "{name}");
    }
}

#[test]
fn conditions_of_others_stay_and_a_transition_has_the_time_of_its_status() {
    let mut observed = observed(min(1), vec![pod("a"), pod("b")]);
    let other =
        Condition { kind: "Other".into(), last_transition_time: Some(ago(500)), ..Condition::default() };
    let allowed = Condition {
        kind: DISRUPTION_ALLOWED.into(),
        status: ConditionStatus::True,
        reason: "SufficientPods".into(),
        last_transition_time: Some(ago(500)),
        ..Condition::default()
    };
    observed.budget.status.conditions = vec![other.clone(), allowed.clone()];
    let same = written(&observed).unwrap();
    assert_eq!(same.conditions, [other.clone(), Condition { observed_generation: 3, ..allowed }]);
    observed.pods = Ok(vec![pod("a")]);
    let changed = written(&observed).unwrap();
    assert_eq!(changed.conditions[0], other);
    assert_eq!(changed.conditions[1].last_transition_time, Some(now()));
}

#[test]
fn a_budget_that_has_changed_is_read_again_and_its_events_are_not_repeated() {
    let mut observed = observed(min(1), Vec::new());
    let [record @ Step::Record(_), write @ Step::WriteStatus(_)] = &steps(&observed)[..] else { panic!() };
    let (record, write) = (record.clone(), write.clone());
    observed.absorb(record, StepResult::Done(Outcome::Done));
    observed.absorb(write, StepResult::Done(Outcome::Outdated));
    assert_eq!(steps(&observed), [Step::Reread]);
    let mut newer = observed.budget.clone();
    newer.meta.resource_version = ResourceVersion(12);
    newer.status.disrupted_pods = [("a".into(), now())].into();
    observed.absorb(Step::Reread, StepResult::Done(Outcome::Reread(Box::new(newer))));
    assert_eq!(events(&observed), []);
    assert_eq!(disrupted(&written(&observed).unwrap()), ["a"], "the cache of pods may lack it");
    observed.absorb(Step::Reread, StepResult::Done(Outcome::Gone));
    assert_eq!(steps(&observed), []);
}
