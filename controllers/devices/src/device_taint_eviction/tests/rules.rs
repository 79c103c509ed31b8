//! DeviceTaintRules, and claims of PodGroups, in the situations of upstream's tests.

use steersman_kinds::device_taint_rule::{EVICTION_IN_PROGRESS, RuleCondition};

use super::super::rule::{Effects, NONE, Pending, Selected, condition, wait};
use super::*;

fn rule(name: &str) -> RuleName {
    RuleName { name: name.into(), uid: name.into() }
}

#[test]
fn the_reasons_of_an_eviction_are_the_rules_whose_taints_are_not_tolerated_for_ever() {
    let of = |name: &str, added| FoundTaint { rule: Some(rule(name)), taint: taint(name, added) };
    let forever = toleration("tolerated", NO_EXECUTE, None);
    let for_a_while = toleration("later", NO_EXECUTE, Some(60));
    let mut used = claim(vec![(vec![taint("published", 30)], vec![forever, for_a_while])]);
    used.devices[0].1.extend([of("tolerated", 1), of("later", 10), of("now", 20)]);
    let pod = Pod { uid: "p".into(), group: None };
    let expected = Eviction { due: at(20), rules: [rule("later"), rule("now")].into() };
    assert_eq!(eviction(&pod, &[used]), Some(expected));
}

#[test]
fn a_pod_uses_the_claims_of_its_group() {
    let tainted = claim(vec![(vec![taint("a", 10)], vec![])]);
    let group = Consumer {
        api_group: "scheduling.k8s.io".into(),
        resource: "podgroups".into(),
        name: "g".into(),
        uid: "group".into(),
    };
    let owners = [OwnerReference::controller("scheduling.k8s.io/v1alpha2", "PodGroup", "g", "group".into())];
    let shared = UsedClaim { reserved_for: vec![group], ..tainted };
    let generated = UsedClaim {
        is_generated: true,
        meta: Meta { owners: owners.into(), ..Meta::default() },
        ..shared.clone()
    };
    for (member, expected) in [(Some("g"), Some(at(10))), (Some("h"), None), (None, None)] {
        let pod = Pod { uid: "q".into(), group: member.map(Into::into) };
        for used in [&shared, &generated] {
            let due = eviction(&pod, std::slice::from_ref(used)).map(|eviction| eviction.due);
            assert_eq!(due, expected, "a member of {member:?}");
        }
    }
}

fn effects(pods: u64, namespaces: u64, evicted: u64) -> Effects {
    Effects { pending: Pending { pods, namespaces }, evicted, ..Effects::default() }
}

/// The status, the reason and the message of the condition of a new rule.
fn told(effect: &str, effects: Effects) -> [String; 3] {
    let told = condition(effect, 1, effects, None, at(NOW)).unwrap();
    assert_eq!((&*told.kind, told.observed_generation), (EVICTION_IN_PROGRESS, 1));
    assert_eq!(told.last_transition_time, Some(at(NOW)));
    [told.status.to_string(), told.reason.to_string(), told.message.to_string()]
}

#[test]
fn the_condition_tells_what_a_rule_does() {
    let selected = |published, allocated| Selected { published, allocated };
    let closing = "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to \
                   trigger an update.";
    for (effect, effects, expected) in [
        (NO_EXECUTE, effects(0, 0, 0), ["False", "NotStarted", ""]),
        (
            NO_EXECUTE,
            effects(1, 1, 0),
            ["True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."],
        ),
        (
            NO_EXECUTE,
            effects(3, 2, 1),
            [
                "True",
                "PodsPendingEviction",
                "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
            ],
        ),
        (
            NO_EXECUTE,
            effects(0, 0, 2),
            ["False", "Completed", "2 pods evicted since starting the controller."],
        ),
        (
            "NoSchedule",
            effects(0, 0, 0),
            ["False", "OtherEffect", "Eviction only happens for the NoExecute effect."],
        ),
        (
            NONE,
            Effects { selected: selected(0, 0), ..effects(0, 0, 0) },
            [
                "False",
                "NoEffect",
                &format!(
                    "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different \
                     namespaces {closing}"
                ),
            ],
        ),
        (
            NONE,
            Effects { selected: selected(1, 1), ..effects(1, 1, 1) },
            [
                "False",
                "NoEffect",
                &format!(
                    "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace \
                     {closing} 1 pod evicted since starting the controller."
                ),
            ],
        ),
    ] {
        assert_eq!(told(effect, effects), expected, "{effect} {effects:?}");
    }
}

#[test]
fn an_unchanged_condition_is_not_written_again() {
    let first = condition(NO_EXECUTE, 1, effects(1, 1, 0), None, at(NOW)).unwrap();
    let again = |generation, effects| condition(NO_EXECUTE, generation, effects, Some(&first), at(NOW + 60));
    assert_eq!(again(1, effects(1, 1, 0)), None);
    assert_eq!(again(2, effects(1, 1, 0)).unwrap().last_transition_time, Some(at(NOW + 60)), "another spec");
    assert!(again(1, effects(2, 1, 0)).is_some(), "another number of pods");
}

#[test]
fn the_condition_is_written_every_ten_seconds_unless_the_rule_changes() {
    let written = |ago: i64| RuleCondition {
        observed_generation: 1,
        last_transition_time: Some(at(NOW - ago)),
        ..RuleCondition::default()
    };
    let seconds = Duration::from_secs;
    for (what, existing, generation, expected) in [
        ("never written", None, 1, None),
        ("just written", Some(written(0)), 1, Some(seconds(10))),
        ("a while ago", Some(written(7)), 1, Some(seconds(3))),
        ("long enough ago", Some(written(10)), 1, None),
        ("of another spec", Some(written(7)), 2, None),
        ("by a clock that is ahead", Some(written(-500)), 1, Some(seconds(10))),
        ("at an unknown time", Some(RuleCondition { last_transition_time: None, ..written(0) }), 1, None),
    ] {
        assert_eq!(wait(existing.as_ref(), generation, now()), expected, "{what}");
    }
}
