use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_api::Time;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::{Batch, Plan};
use steersman_informer::View;
use steersman_kinds::service_cidr::{ServiceCidrSpec, ServiceCidrStatus};

use super::SyncedServiceCidr;
use super::observed::{Condition, FINALIZER, Observed, Outcome};
use super::plan::{Step, plan};
use super::ranges::{gives, may_go, overlap};

const NOW: i64 = 1_790_000_000;
const OWN: [&str; 2] = ["192.168.0.0/24", "2001:db2::/64"];

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn ranges(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A ServiceCIDR with this metadata and these conditions.
fn cidr(mut metadata: Value, conditions: &Value) -> Observed {
    metadata["name"] = json!("a");
    let object = json!({"metadata": metadata, "spec": {"cidrs": OWN}, "status": {"conditions": conditions}});
    let view = View::<SyncedServiceCidr>::from_json(&object);
    let (spec, status) = (view.get::<ServiceCidrSpec>(), view.get::<ServiceCidrStatus>());
    Observed::of(view.object(), &spec.cidrs.0, &status.conditions)
}

/// One that is being deleted since that many seconds.
fn deleted(seconds: i64) -> Observed {
    let since = Time::from_seconds(NOW - seconds).to_string();
    cidr(json!({"finalizers": [FINALIZER], "deletionTimestamp": since}), &json!([]))
}

/// The steps of a sync whose steps all succeed, and when it comes again.
fn steps(mut observed: Observed) -> (Vec<Step>, Option<Duration>) {
    let mut steps = Vec::new();
    loop {
        match plan(&observed, now()) {
            Plan::Done { requeue_after } => return (steps, requeue_after),
            Plan::Act(Batch { steps: next, .. }) => {
                for step in next {
                    steps.push(step.clone());
                    observed.absorb(step, &StepResult::Done(Outcome::Done));
                }
            }
        }
    }
}

#[test]
fn a_service_cidr_gets_the_finalizer_and_then_the_condition() {
    let ready = Step::SetReady(Condition::ready());
    let shown = |status: &str, reason: &str, message: &str| json!([{"type": "Other", "status": "False"}, {"type": "Ready", "status": status, "reason": reason, "message": message}]);
    let message = "Kubernetes Service CIDR is ready";
    let of_api_server = "Kubernetes default Service CIDR is ready";
    for (name, finalizers, conditions, expected) in [
        ("new", json!([]), json!([]), vec![Step::AddFinalizer, ready.clone()]),
        ("another's finalizer", json!(["a"]), json!([]), vec![Step::AddFinalizer, ready.clone()]),
        ("no condition", json!([FINALIZER]), json!([]), vec![ready.clone()]),
        ("up to date", json!([FINALIZER]), shown("True", "", message), vec![]),
        (
            "as the API server makes it",
            json!([FINALIZER]),
            shown("True", "", of_api_server),
            vec![ready.clone()],
        ),
        ("another status", json!([FINALIZER]), shown("False", "", message), vec![ready.clone()]),
        ("another reason", json!([FINALIZER]), shown("True", "R", message), vec![ready]),
    ] {
        let observed = cidr(json!({"finalizers": finalizers}), &conditions);
        assert_eq!(steps(observed), (expected, None), "{name}");
    }
}

#[test]
fn the_conditions_are_upstreams() {
    let ready = Condition::ready();
    assert_eq!((ready.status.as_str(), &*ready.reason), ("True", ""));
    let terminating = Condition::terminating();
    assert_eq!((terminating.status.as_str(), &*terminating.reason), ("False", "Terminating"));
}

#[test]
fn a_service_cidr_goes_after_its_grace_period() {
    for (name, observed, expected, again) in [
        ("just deleted", deleted(0), vec![], Some(Duration::from_secs(10))),
        ("the grace period is not over", deleted(9), vec![], Some(Duration::from_secs(1))),
        ("the grace period is over", deleted(10), vec![Step::RemoveFinalizer], None),
        ("long ago", deleted(11), vec![Step::RemoveFinalizer], None),
        ("it has the finalizer no more", Observed { has_finalizer: false, ..deleted(11) }, vec![], None),
        ("the API server's clock is ahead", deleted(-5), vec![], Some(Duration::from_secs(15))),
    ] {
        assert_eq!(steps(observed), (expected, again), "{name}");
    }
    let fraction = now() + SignedDuration::from_millis(400);
    let left = Some(Duration::from_millis(9_600));
    assert_eq!(plan(&deleted(0), fraction), Plan::Done { requeue_after: left });
}

#[test]
fn a_service_cidr_stays_while_a_service_has_an_address_of_its_own() {
    let terminating = vec![Step::SetReady(Condition::terminating())];
    let goes = vec![Step::RemoveFinalizer];
    let (v4, v6) = ("192.168.0.1", "2001:db2::1");
    for (name, other, used, expected) in [
        ("its IPv4 address", None, v4, &terminating),
        ("its IPv6 address", None, v6, &terminating),
        ("the same ranges", Some(OWN), v4, &goes),
        ("the same ranges, IPv6", Some(OWN), v6, &goes),
        ("a larger range", Some(["192.168.0.0/16", "2001:db2::/64"]), v4, &goes),
        ("a larger range, IPv6", Some(["192.168.0.0/16", "2001:db2::/48"]), v6, &goes),
        ("another range", Some(["192.168.255.0/26", "2001:db2::/64"]), v4, &terminating),
        ("another range, IPv6", Some(["192.168.255.0/26", "2001:db2:a:b::/64"]), v6, &terminating),
    ] {
        let others = other.iter().map(|other| ranges(other)).collect();
        let observed = Observed { others, addresses: vec![address(used)], ..deleted(11) };
        assert_eq!(steps(observed), (expected.clone(), None), "{name}");
    }
    let told = Observed { ready: Some(Condition::terminating()), addresses: vec![address(v4)], ..deleted(0) };
    assert_eq!(steps(told), (vec![], None), "the condition tells so already");
}

#[test]
fn a_service_cidr_that_is_gone_needs_nothing() {
    let mut observed = cidr(json!({}), &json!([]));
    observed.absorb(Step::AddFinalizer, &StepResult::Done(Outcome::Gone));
    assert_eq!(plan(&observed, now()), Plan::done());
}

#[test]
fn ranges_may_go_if_no_address_is_left_without_one() {
    for (name, others, addresses, goes) in [
        ("no addresses", &[][..], &[][..], true),
        ("an address", &[], &["192.168.0.24"], false),
        ("an address of no range", &[], &["192.168.1.24"], true),
        ("the first address, which no service can have", &[], &["192.168.0.0"], true),
        ("the last one, too", &[], &["192.168.0.255"], true),
        ("services can have the last one of IPv6", &[], &["2001:db2::ffff:ffff:ffff:ffff"], false),
        ("another has the same", &["192.168.0.0/24 2001:db2::/64"], &["192.168.0.23"], true),
        ("a smaller one has the address", &["192.168.0.0/26 2001:db2::/64"], &["192.168.0.23"], true),
        ("a smaller one lacks it", &["192.168.0.0/28 2001:db2::/64"], &["192.168.0.23"], false),
        ("it is the last one of the smaller", &["192.168.0.0/26"], &["192.168.0.63"], false),
        ("a larger one", &["192.168.0.0/16 2001:db2::/64"], &["192.168.0.23"], true),
        ("two others", &["2001:db2::/48", "192.0.0.0/8"], &["192.168.0.23", "2001:db2::1"], true),
    ] {
        let others: Vec<_> =
            others.iter().map(|other| ranges(&other.split(' ').collect::<Vec<_>>())).collect();
        let addresses: Vec<_> = addresses.iter().copied().map(address).collect();
        assert_eq!(may_go(&ranges(&OWN), &others, &addresses), goes, "{name}");
    }
}

#[test]
fn an_address_concerns_the_ranges_that_can_give_it() {
    for (range, text, given) in [
        ("192.168.0.0/24", "192.168.0.23", true),
        ("192.168.0.0/26", "192.168.0.63", false),
        ("192.168.0.0/24", "192.168.0.63", true),
        ("192.168.0.0/24", "192.168.0.0", false),
        ("192.168.0.0/32", "192.168.0.0", false),
        ("2001:db2::/64", "2001:db2::", false),
        ("2001:db2::/64", "2001:db2::ffff:ffff:ffff:ffff", true),
        ("2001:db2::/96", "2001:db2::ffff:ffff:ffff:ffff", false),
        ("2001:db2::/64", "192.168.0.1", false),
        ("0.0.0.0/0", "::1", false),
    ] {
        assert_eq!(gives(&ranges(&[range]), address(text)), given, "{text} of {range}");
    }
}

#[test]
fn ranges_concern_those_that_they_overlap() {
    for (other, expected) in [
        ("192.168.0.0/24", true),
        ("192.168.0.0/26", true),
        ("192.168.0.0/16", true),
        ("10.0.0.0/16", false),
        ("192.168.1.0/24", false),
        ("2001:db2::/96", true),
        ("2001:db3::/64", false),
    ] {
        assert_eq!(overlap(&ranges(&OWN), &ranges(&[other])), expected, "{other}");
        assert_eq!(overlap(&ranges(&[other]), &ranges(&OWN)), expected, "{other}");
    }
    assert!(!overlap(&ranges(&OWN), &[]));
}
