//! What to do for a pod.

use steersman_api::{Meta, ObjectKey, OwnerReference, Uid};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_kinds::device_allocation::Consumer;
use steersman_kinds::device_requests::RequestFacts;
use steersman_kinds::pod_device_claims::{DeviceClaim, GeneratedClaim};

use super::super::facts::{ClaimFacts, Claimant, ClaimantKind};
use super::super::pod_plan::{PodObserved, PodStep, plan};
use super::super::pod_syncs::PodOutcome;

fn templated(name: &str, template: &str) -> DeviceClaim {
    DeviceClaim { name: name.into(), claim: None, template: Some(template.into()) }
}

fn shared(name: &str, claim: &str) -> DeviceClaim {
    DeviceClaim { name: name.into(), claim: Some(claim.into()), template: None }
}

fn generated(name: &str, claim: &str) -> GeneratedClaim {
    GeneratedClaim { name: name.into(), claim: Some(claim.into()) }
}

fn claim(name: &str) -> ClaimFacts {
    let meta = Meta { key: ObjectKey::new("ns", name), uid: name.into(), ..Meta::default() };
    ClaimFacts { meta, ..ClaimFacts::default() }
}

/// A claim that was made for the claim `pod_claim` of the pod of this uid.
fn made_for(pod: &str, pod_claim: &str, name: &str) -> ClaimFacts {
    let mut claim = claim(name);
    claim.meta.owners = [OwnerReference::controller("v1", "Pod", "web", pod.into())].into();
    ClaimFacts { pod_claim: Some(pod_claim.into()), ..claim }
}

fn allocated(claim: ClaimFacts, consumers: &[&str]) -> ClaimFacts {
    let consumer =
        |uid: &&str| Consumer { resource: "pods".into(), uid: (*uid).into(), ..Consumer::default() };
    ClaimFacts { is_allocated: true, reserved_for: consumers.iter().map(consumer).collect(), ..claim }
}

/// The pod `web`, with the template `t`.
fn observed(claims: &[DeviceClaim], generated: &[GeneratedClaim], existing: Vec<ClaimFacts>) -> PodObserved {
    PodObserved {
        pod: Claimant {
            key: ObjectKey::new("ns", "web"),
            uid: "web".into(),
            claims: claims.to_vec(),
            generated: generated.to_vec(),
            ..Claimant::default()
        },
        claims: existing.into_iter().map(|claim| (claim.meta.key.name.clone(), claim)).collect(),
        templates: [("t".into(), RequestFacts::default())].into(),
        allows_alternatives: true,
        is_confirmed: true,
        ..PodObserved::default()
    }
}

fn on_node(mut observed: PodObserved) -> PodObserved {
    observed.pod.is_scheduled = true;
    observed
}

fn steps(observed: &PodObserved) -> Vec<PodStep> {
    match plan(observed) {
        Plan::Done { requeue_after: None } => Vec::new(),
        Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::Stop }) => steps,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_step_for_a_pod_depends_on_its_claims() {
    let t = || templated("gpu", "t");
    let create = || vec![PodStep::Create(t())];
    let record = |claims: &[(&str, &str)]| {
        vec![PodStep::ApplyStatus(claims.iter().map(|(name, claim)| generated(name, claim)).collect())]
    };
    let unneeded = GeneratedClaim { name: "gpu".into(), claim: None };
    for (name, observed, expected) in [
        ("no claims", observed(&[], &[], vec![]), vec![]),
        ("create", observed(&[t()], &[], vec![]), create()),
        (
            "create several",
            observed(&[t(), shared("nic", "c"), templated("fpga", "t")], &[], vec![]),
            vec![PodStep::Create(t()), PodStep::Create(templated("fpga", "t"))],
        ),
        ("nop: claim is recorded", observed(&[t()], &[generated("gpu", "a")], vec![made_for("web", "gpu", "a")]), vec![]),
        ("nop: no claim is needed", observed(&[t()], &[unneeded], vec![]), vec![]),
        ("nop: shared claim", observed(&[shared("gpu", "a")], &[], vec![claim("a")]), vec![]),
        ("nop: shared claim is missing", observed(&[shared("gpu", "a")], &[], vec![]), vec![]),
        (
            "recreate: the recorded claim is gone",
            observed(&[t()], &[generated("gpu", "a")], vec![]),
            create(),
        ),
        (
            "the recorded claim belongs to another pod",
            observed(&[t()], &[generated("gpu", "a")], vec![made_for("other", "gpu", "a")]),
            vec![],
        ),
        (
            "find an existing claim by label",
            observed(&[t()], &[], vec![made_for("web", "gpu", "a"), made_for("web", "nic", "b")]),
            record(&[("gpu", "a")]),
        ),
        (
            "the existing claim is for another claim of the pod",
            observed(&[t()], &[], vec![made_for("web", "nic", "b")]),
            create(),
        ),
        (
            "the existing claim is not owned",
            observed(&[t()], &[], vec![made_for("other", "gpu", "a")]),
            create(),
        ),
        (
            "all claims are recorded together",
            observed(
                &[t(), templated("nic", "t")],
                &[generated("nic", "b")],
                vec![made_for("web", "gpu", "a"), made_for("web", "nic", "b")],
            ),
            record(&[("gpu", "a"), ("nic", "b")]),
        ),
        (
            "missing template",
            observed(&[templated("gpu", "none")], &[], vec![]),
            vec![PodStep::Refuse(
                "gpu".into(),
                "resource claim template \"none\": resourceclaimtemplate.resource.k8s.io \"none\" not found".to_owned(),
            )],
        ),
        (
            "the claims before a missing template are created, those after it are not",
            observed(&[t(), templated("nic", "none"), templated("fpga", "t")], &[], vec![]),
            vec![
                PodStep::Create(t()),
                PodStep::Refuse(
                    "nic".into(),
                    "resource claim template \"none\": resourceclaimtemplate.resource.k8s.io \"none\" not found".to_owned(),
                ),
            ],
        ),
        (
            "a source that is newer than this program",
            observed(&[DeviceClaim { name: "gpu".into(), claim: None, template: None }], &[], vec![]),
            vec![PodStep::Refuse(
                "gpu".into(),
                "checking for claim before creating it: pod \"ns/web\", spec.resourceClaim \"gpu\": none of the supported \
                 fields are set"
                    .to_owned(),
            )],
        ),
    ] {
        assert_eq!(steps(&observed), expected, "{name}");
    }
}

#[test]
fn alternatives_need_their_feature_gate() {
    let mut wanted = observed(&[templated("gpu", "t")], &[], vec![]);
    wanted.templates = [("t".into(), RequestFacts { alternatives: true, ..RequestFacts::default() })].into();
    assert_eq!(steps(&wanted), [PodStep::Create(templated("gpu", "t"))]);
    wanted.allows_alternatives = false;
    let why = "template includes a prioritized list of subrequests, but the feature is disabled".to_owned();
    assert_eq!(steps(&wanted), [PodStep::Refuse("gpu".into(), why)]);
}

#[test]
fn pods_that_end_get_no_claims() {
    for change in [|pod: &mut Claimant| pod.is_deleting = true, |pod: &mut Claimant| pod.is_terminal = true] {
        let mut ends = on_node(observed(
            &[templated("gpu", "t"), shared("nic", "c")],
            &[],
            vec![allocated(claim("c"), &["other"])],
        ));
        change(&mut ends.pod);
        assert_eq!(steps(&ends), []);
    }
}

#[test]
fn allocated_claims_are_reserved_for_pods_on_nodes() {
    let web = || Claimant { key: ObjectKey::new("ns", "web"), uid: "web".into(), ..Claimant::default() };
    let reserve = |name: &str| vec![PodStep::Reserve(name.into(), web().consumer())];
    let both = [shared("gpu", "a"), shared("nic", "b")];
    for (name, claims, existing, expected) in [
        ("allocated", &both[..1], vec![allocated(claim("a"), &[])], reserve("a")),
        ("for others", &both[..1], vec![allocated(claim("a"), &["x"])], reserve("a")),
        ("reserved", &both[..1], vec![allocated(claim("a"), &["web"])], vec![]),
        ("not allocated", &both[..1], vec![claim("a")], vec![]),
        (
            "the second of two",
            &both[..],
            vec![allocated(claim("a"), &["web"]), allocated(claim("b"), &[])],
            reserve("b"),
        ),
        ("the first is missing", &both[..], vec![allocated(claim("b"), &[])], vec![]),
    ] {
        let mut observed = observed(claims, &[], existing);
        assert_eq!(steps(&observed), [], "{name}: the scheduler reserves");
        observed.pod.is_scheduled = true;
        assert_eq!(steps(&observed), expected, "{name}");
    }
}

#[test]
fn a_claim_of_another_pod_is_not_reserved() {
    let foreign = allocated(made_for("other", "gpu", "a"), &[]);
    let observed = on_node(observed(&[templated("gpu", "t")], &[generated("gpu", "a")], vec![foreign]));
    assert_eq!(steps(&observed), []);
}

#[test]
fn claims_are_created_recorded_and_reserved_in_one_sync() {
    let mut observed = on_node(observed(&[templated("gpu", "t"), templated("nic", "t")], &[], vec![]));
    observed.is_confirmed = false;
    assert_eq!(steps(&observed), [PodStep::Confirm]);
    // The previous leader has made one already.
    let found = made_for("web", "nic", "b");
    let found = PodOutcome::Confirmed([(found.meta.key.name.clone(), found)].into());
    observed.absorb(PodStep::Confirm, found);
    let create = PodStep::Create(templated("gpu", "t"));
    assert_eq!(steps(&observed), std::slice::from_ref(&create));
    observed.absorb(create, PodOutcome::Created("a".into()));
    let record = PodStep::ApplyStatus(vec![generated("gpu", "a"), generated("nic", "b")]);
    assert_eq!(steps(&observed), std::slice::from_ref(&record));
    observed.absorb(record, PodOutcome::Applied);
    assert_eq!(steps(&observed), []);
}

/// The PodGroup `g` with these claims, and the claims that it owns.
fn group(claims: &[DeviceClaim], generated: &[GeneratedClaim]) -> Claimant {
    Claimant {
        kind: ClaimantKind::PodGroup,
        key: ObjectKey::new("ns", "g"),
        uid: "g".into(),
        claims: claims.to_vec(),
        generated: generated.to_vec(),
        ..Claimant::default()
    }
}

fn made_for_group(pod_claim: &str, name: &str) -> ClaimFacts {
    let mut claim = made_for("g", pod_claim, name);
    claim.meta.owners =
        [OwnerReference::controller("scheduling.k8s.io/v1alpha2", "PodGroup", "g", "g".into())].into();
    claim
}

fn member(mut observed: PodObserved, group: Option<Claimant>) -> PodObserved {
    observed.pod.group = Some("g".into());
    PodObserved { group, ..observed }
}

#[test]
fn a_pod_shares_the_claims_of_its_group() {
    let t = || templated("gpu", "t");
    let both = || Some(group(&[t()], &[]));
    let reserve = |name: &str| vec![PodStep::Reserve(name.into(), group(&[], &[]).consumer())];
    let recorded = |existing| observed(&[t()], &[generated("gpu", "a")], existing);
    for (name, observed, expected) in [
        ("the group is not there yet", member(observed(&[t()], &[], vec![]), None), vec![]),
        ("the group's claim is not there yet", member(observed(&[t()], &[], vec![]), both()), vec![]),
        (
            "the group's claim is recorded",
            member(observed(&[t()], &[], vec![made_for_group("gpu", "a")]), both()),
            vec![PodStep::ApplyStatus(vec![generated("gpu", "a")])],
        ),
        (
            "the group has another claim of the name",
            member(observed(&[t()], &[], vec![]), Some(group(&[templated("gpu", "u")], &[]))),
            vec![PodStep::Create(t())],
        ),
        ("recorded", member(recorded(vec![made_for_group("gpu", "a")]), both()), vec![]),
        ("recorded, and gone: the group makes it", member(recorded(vec![]), both()), vec![]),
        (
            "allocated, on a node",
            on_node(member(recorded(vec![allocated(made_for_group("gpu", "a"), &[])]), both())),
            reserve("a"),
        ),
        (
            "without the gate it is another's",
            on_node(recorded(vec![allocated(made_for_group("gpu", "a"), &[])])),
            vec![],
        ),
    ] {
        assert_eq!(steps(&observed), expected, "{name}");
    }
    let mut reserved = allocated(made_for_group("gpu", "a"), &[]);
    reserved.reserved_for = vec![group(&[], &[]).consumer()];
    assert_eq!(steps(&on_node(member(recorded(vec![reserved]), both()))), [], "reserved for the group");
}

#[test]
fn a_group_gets_its_claims_as_a_pod_does() {
    let t = || templated("gpu", "t");
    let of_group = |generated: &[GeneratedClaim], existing: Vec<ClaimFacts>| PodObserved {
        pod: group(&[t()], generated),
        ..observed(&[], &[], existing)
    };
    for (name, observed, expected) in [
        ("create", of_group(&[], vec![]), vec![PodStep::Create(t())]),
        (
            "record",
            of_group(&[], vec![made_for_group("gpu", "a")]),
            vec![PodStep::ApplyStatus(vec![generated("gpu", "a")])],
        ),
        ("recorded", of_group(&[generated("gpu", "a")], vec![made_for_group("gpu", "a")]), vec![]),
        (
            "never reserve",
            of_group(&[generated("gpu", "a")], vec![allocated(made_for_group("gpu", "a"), &[])]),
            vec![],
        ),
    ] {
        assert_eq!(steps(&observed), expected, "{name}");
    }
}

#[test]
fn a_pod_that_is_gone_ends_the_sync() {
    let mut observed = observed(&[templated("gpu", "t")], &[], vec![made_for("web", "gpu", "a")]);
    let record = steps(&observed).remove(0);
    observed.absorb(record, PodOutcome::Gone);
    assert_eq!(steps(&observed), []);
}

#[test]
fn a_pod_is_done_once_no_container_will_run() {
    for (is_terminal, is_deleting, is_scheduled, is_done) in [
        (false, false, false, false),
        (false, false, true, false),
        (false, true, true, false),
        (false, true, false, true),
        (true, false, true, true),
    ] {
        let pod =
            Claimant { is_terminal, is_deleting, is_scheduled, uid: Uid::default(), ..Claimant::default() };
        assert_eq!(pod.is_done(), is_done, "{pod:?}");
    }
}
