use steersman_api::{Deletion, Meta, Time};
use steersman_controller::controller::{StepResult, SyncError};
use steersman_controller::plan::Plan;

use super::super::ledger::{Certainty, Holding};
use super::super::plan::{Observed, Outcome, Step, plan};
use super::range;

fn node(cidrs: &[&str], holding: Option<Certainty>) -> Observed {
    let holding = holding.map(|certainty| Holding { ranges: vec![Some(range("10.0.0.0/24"))], certainty });
    let cidrs = cidrs.iter().map(|cidr| (*cidr).into()).collect();
    Observed { meta: Meta::default(), cidrs, holding, is_done: false }
}

#[test]
fn a_node_gets_ranges_once_and_keeps_them() {
    use Certainty::{InDoubt, Proposed, Written};
    let (done, step) = (Plan::done(), Plan::step);
    for (what, node, expected) in [
        ("new", node(&[], None), step(Step::Propose)),
        ("with blocks that were never written", node(&[], Some(Proposed)), step(Step::Write)),
        ("with blocks that may have been written", node(&[], Some(InDoubt)), step(Step::Write)),
        ("which the cache does not show yet", node(&[], Some(Written)), done.clone()),
        ("with ranges", node(&["10.0.0.0/24"], None), step(Step::Record)),
        ("with ranges and blocks", node(&["10.0.0.0/24"], Some(InDoubt)), step(Step::Record)),
        ("gone", Observed { is_done: true, ..node(&[], None) }, done.clone()),
    ] {
        assert_eq!(plan(&node), expected, "a node {what}");
    }
    let deleting = |node: Observed| {
        let meta = Meta { deletion: Deletion::at(Time::from_seconds(1)), ..Meta::default() };
        Observed { meta, ..node }
    };
    assert_eq!(plan(&deleting(node(&[], None))), done);
    assert_eq!(plan(&deleting(node(&["10.0.0.0/24"], None))), Plan::step(Step::Record));
}

#[test]
fn a_step_is_followed_by_the_next_one() {
    let mut observed = node(&[], None);
    let holding = Holding { ranges: vec![Some(range("10.0.0.0/24"))], certainty: Certainty::Proposed };
    observed.absorb(StepResult::Done(Outcome::Proposed(holding)));
    assert_eq!(plan(&observed), Plan::step(Step::Write));
    observed.absorb(StepResult::Failed(SyncError::Failed(String::new())));
    assert_eq!(plan(&observed), Plan::step(Step::Write));
    observed.absorb(StepResult::Done(Outcome::Done));
    assert_eq!(plan(&observed), Plan::done());
}
