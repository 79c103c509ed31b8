//! Claims of pods: their creation and their owners.

use steersman_api::OwnerReference;

use super::super::claims::{Fate, Retention};
use super::super::observed::Order;
use super::*;

const KEEP: Retention = Retention { when_deleted: Fate::Retain, when_scaled: Fate::Retain };
const WITH_SET: Retention = Retention { when_deleted: Fate::Delete, when_scaled: Fate::Retain };
const WITH_POD: Retention = Retention { when_deleted: Fate::Retain, when_scaled: Fate::Delete };
const WITH_BOTH: Retention = Retention { when_deleted: Fate::Delete, when_scaled: Fate::Delete };
const ALL: [Retention; 4] = [KEEP, WITH_SET, WITH_POD, WITH_BOTH];

fn of_set() -> OwnerReference {
    OwnerReference::controller("apps/v1", "StatefulSet", "web", "set".into())
}

fn of_pod(number: i32) -> OwnerReference {
    let pod = pod(number);
    OwnerReference::controller("v1", "Pod", pod.key.name, pod.uid)
}

fn of_other() -> OwnerReference {
    OwnerReference::controller("example.com/v1", "Backup", "b", "backup".into())
}

fn passive(owner: OwnerReference) -> OwnerReference {
    OwnerReference { controller: None, ..owner }
}

fn reborn(owner: OwnerReference) -> OwnerReference {
    OwnerReference { uid: "earlier".into(), ..owner }
}

fn claim(owners: Vec<OwnerReference>) -> Claim {
    Claim { uid: "claim".into(), owners, ..Claim::default() }
}

/// A set with one claim for each pod. It wants one pod.
fn stored(retention: Retention, pods: Vec<Pod>, claims: &[(&str, Claim)]) -> Observed {
    let mounted = |pod: Pod| {
        let name = format!("data-{}", pod.key.name);
        pod.with_volume("data", &name)
    };
    let mut observed = settled(1, pods.into_iter().map(mounted).collect());
    observed.set.claims = vec![template("data")];
    observed.set.retention = retention;
    observed.claims = claims.iter().map(|(name, claim)| (ArcStr::from(*name), claim.clone())).collect();
    observed
}

/// The owners that the claim of a pod gets. `None`: the claim is not written.
fn owners_of(retention: Retention, number: i32, owners: &[OwnerReference]) -> Option<Vec<OwnerReference>> {
    let name = format!("data-web-{number}");
    let mut observed = stored(retention, vec![pod(0), pod(1)], &[(&name, claim(owners.to_vec()))]);
    sync(&mut observed);
    let after = observed.claims[name.as_str()].owners.clone();
    (after != owners).then_some(after)
}

#[test]
fn a_claim_has_the_owner_that_the_policy_demands() {
    // Of the pods 0 and 1 the set wants only the first.
    for (retention, wanted, condemned) in [
        (KEEP, vec![], vec![]),
        (WITH_SET, vec![of_set()], vec![of_set()]),
        (WITH_POD, vec![], vec![of_pod(1)]),
        (WITH_BOTH, vec![of_set()], vec![of_pod(1)]),
    ] {
        for (number, expected) in [(0, wanted), (1, condemned)] {
            for before in [vec![], vec![of_set()], vec![of_pod(number)], vec![of_set(), of_pod(number)]] {
                let after = owners_of(retention, number, &before);
                assert_eq!(after.unwrap_or(before.clone()), expected, "{retention:?} {number} {before:?}");
            }
        }
    }
}

#[test]
fn owners_that_do_not_manage_a_claim_stay() {
    let other = passive(of_other());
    assert_eq!(owners_of(WITH_SET, 0, std::slice::from_ref(&other)), Some(vec![other.clone(), of_set()]));
    assert_eq!(owners_of(KEEP, 0, &[other.clone(), of_set()]), Some(vec![other]));
}

#[test]
fn an_owner_reference_of_ours_that_does_not_manage_is_mended() {
    assert_eq!(owners_of(WITH_SET, 0, &[passive(of_set())]), Some(vec![of_set()]));
    assert_eq!(owners_of(KEEP, 0, &[passive(of_set())]), Some(vec![]));
    assert_eq!(owners_of(WITH_POD, 1, &[passive(of_pod(1))]), Some(vec![of_pod(1)]));
}

#[test]
fn a_claim_of_an_earlier_set_or_pod_of_the_same_name_is_left_to_the_garbage_collector() {
    for retention in ALL {
        for (number, owner) in [(0, reborn(of_set())), (0, reborn(of_pod(0))), (1, reborn(of_pod(1)))] {
            assert_eq!(owners_of(retention, number, &[owner]), None, "{retention:?}");
        }
    }
}

#[test]
fn a_claim_that_another_controller_manages_gets_no_owner_and_the_user_is_told() {
    for retention in ALL {
        assert_eq!(owners_of(retention, 0, &[of_other()]), None, "{retention:?}");
    }
    let conflicting = || [("data-web-0", claim(vec![of_other(), passive(of_set())]))];
    assert_eq!(owners_of(KEEP, 0, &[of_other(), passive(of_set())]), Some(vec![of_other()]));
    for retention in [WITH_SET, WITH_POD, WITH_BOTH] {
        let observed = stored(retention, vec![pod(0)], &conflicting());
        let [Step::Pod(step)] = &steps(&observed)[..] else { panic!("{retention:?}") };
        assert_eq!(step.writes[0], Write::Warn("data-web-0".into()));
        assert!(matches!(&step.writes[1], Write::SetOwners { owners, .. } if *owners == [of_other()]));
    }
}

#[test]
fn a_pod_is_created_after_its_claims() {
    for (retention, owners) in
        [(KEEP, vec![]), (WITH_SET, vec![of_set()]), (WITH_POD, vec![]), (WITH_BOTH, vec![of_set()])]
    {
        let mut observed = stored(retention, vec![], &[]);
        observed.set.claims.push(template("logs"));
        let [Step::Pod(step)] = &steps(&observed)[..] else { panic!("{retention:?}") };
        let create =
            |template, name: &str| Write::CreateClaim { template, name: name.into(), owners: owners.clone() };
        let pod = Write::CreatePod(super::super::steps::Which::Update);
        assert_eq!(step.writes, [create(0, "data-web-0"), create(1, "logs-web-0"), pod]);
        assert_eq!(sync(&mut observed), ["create web-0"], "nothing is left to do about the claims");
    }
}

#[test]
fn a_claim_that_is_left_from_before_is_used_again() {
    let observed = stored(WITH_SET, vec![], &[("data-web-0", claim(vec![]))]);
    let [Step::Pod(step)] = &steps(&observed)[..] else { panic!("a pod must be created") };
    assert!(
        matches!(&step.writes[..], [Write::CreatePod(_), Write::SetOwners { owners, .. }] if *owners == [of_set()])
    );
}

#[test]
fn a_pod_waits_while_its_claim_is_about_to_go_with_an_earlier_pod() {
    let stale = || [("data-web-0", claim(vec![of_pod(0)]))];
    for (retention, expected) in
        [(WITH_POD, &[][..]), (WITH_BOTH, &[]), (KEEP, &["create web-0"]), (WITH_SET, &["create web-0"])]
    {
        for order in [Order::Ready, Order::Parallel] {
            let mut observed = stored(retention, vec![], &stale());
            observed.set.order = order;
            assert_eq!(said(&observed), expected, "{retention:?} {order:?}");
        }
    }
}

#[test]
fn a_pending_pod_gets_the_claims_that_it_lacks() {
    let mut observed = stored(KEEP, vec![pod(0).pending()], &[]);
    assert_eq!(sync(&mut observed), ["complete web-0"]);
    let mut running = stored(KEEP, vec![pod(0)], &[]);
    assert_eq!(sync(&mut running), [""; 0], "a running pod has its volumes");
}

#[test]
fn a_pod_can_not_use_a_claim_that_is_being_deleted() {
    for pods in [vec![], vec![pod(0).pending()]] {
        let going = Claim { deleting: true, ..claim(vec![]) };
        let observed = stored(KEEP, pods, &[("data-web-0", going)]);
        let [Step::Pod(step)] = &steps(&observed)[..] else { panic!("the pod needs its claim") };
        assert_eq!(step.writes[0], Write::WaitForClaim("data-web-0".into()));
    }
}

#[test]
fn a_pod_without_its_volumes_is_given_them() {
    let mut observed = stored(KEEP, vec![], &[]);
    observed.pods = vec![pod(0).with_volume("data", "another")];
    assert_eq!(sync(&mut observed), ["update web-0"]);
    assert!(observed.claims.contains_key("data-web-0"));
}

#[test]
fn claims_of_condemned_pods_get_their_owners_before_the_pods_go() {
    let claims = [("data-web-1", claim(vec![])), ("data-web-2", claim(vec![]))];
    let mut observed = stored(WITH_POD, vec![pod(0), pod(1), pod(2)], &claims);
    let expected = ["release claims of web-2", "release claims of web-1", "delete web-2"];
    assert_eq!(sync(&mut observed), expected);
}
