use serde_json::{Value, json};
use steersman_api::Meta;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_informer::View;
use steersman_kinds::volume_source::VolumeSource;

use super::GrowingVolume;
use super::plan::{Expander, Observed, Outcome, Step, Volume, plan};

fn observed(request: &str, capacity: &str) -> Observed {
    Observed {
        claim: Meta { key: "ns/c".parse().unwrap(), uid: "claim".into(), ..Meta::default() },
        request: request.parse().unwrap(),
        capacity: capacity.parse().unwrap(),
        volume: None,
        resizer: "".into(),
        is_told: false,
    }
}

fn volume(source: Value) -> Volume {
    let volume = View::<GrowingVolume>::from_json(&json!({"spec": source}));
    Volume { claim: Some(("ns".into(), "claim".into())), source: volume.get::<VolumeSource>().clone() }
}

#[test]
fn only_claims_that_ask_for_more_than_they_have_are_looked_at() {
    for (request, capacity, expected) in [
        ("1Gi", "1Gi", Plan::done()),
        ("1Gi", "2Gi", Plan::done()),
        ("1024Mi", "1Gi", Plan::done()),
        ("2Gi", "1Gi", Plan::step(Step::ReadVolume)),
        ("2G", "2Gi", Plan::done()),
        ("1Gi", "0", Plan::step(Step::ReadVolume)),
    ] {
        assert_eq!(plan(&observed(request, capacity)), expected, "{request} {capacity}");
    }
}

#[test]
fn a_volume_that_names_another_claim_is_an_error() {
    let of = |claim: Option<(&str, &str)>| {
        let claim = claim.map(|(namespace, uid)| (namespace.into(), uid.into()));
        let volume = Volume { claim, source: VolumeSource::default() };
        plan(&Observed { volume: Some(volume), ..observed("2Gi", "1Gi") })
    };
    assert_eq!(of(None), Plan::step(Step::Fail));
    assert_eq!(of(Some(("other", "claim"))), Plan::step(Step::Fail));
    assert_eq!(of(Some(("ns", "earlier"))), Plan::step(Step::Fail));
    assert_eq!(of(Some(("ns", "claim"))), Plan::step(Step::Tell(Expander::External)));
}

#[test]
fn the_source_of_a_volume_tells_who_expands_it() {
    for (source, expander, resizer) in [
        (json!({"csi": {"driver": "d", "volumeHandle": "h"}}), Expander::External, None),
        (json!({"hostPath": {"path": "/p"}}), Expander::External, None),
        (json!({"unknown": {}}), Expander::External, None),
        (json!({"flexVolume": {"driver": "d"}}), Expander::Declined, None),
        (
            json!({"awsElasticBlockStore": {"volumeID": "v"}}),
            Expander::Migrated("kubernetes.io/aws-ebs"),
            Some("ebs.csi.aws.com"),
        ),
        (
            json!({"azureDisk": {"diskName": "n", "diskURI": "u"}}),
            Expander::Migrated("kubernetes.io/azure-disk"),
            Some("disk.csi.azure.com"),
        ),
    ] {
        let mut observed = Observed { volume: Some(volume(source.clone())), ..observed("2Gi", "1Gi") };
        let tell = Step::Tell(expander);
        assert_eq!(plan(&observed), Plan::step(tell.clone()), "{source}");
        observed.absorb(tell, StepResult::Done(Outcome::Done));
        let Some(driver) = resizer else {
            assert_eq!(plan(&observed), Plan::done(), "{source}");
            continue;
        };
        let set = Step::SetResizer(driver);
        assert_eq!(plan(&observed), Plan::step(set.clone()), "{source}");
        observed.absorb(set, StepResult::Done(Outcome::Done));
        assert_eq!(plan(&observed), Plan::done(), "{source}");
    }
}
