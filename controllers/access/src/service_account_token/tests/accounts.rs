//! The Secrets of accounts that are gone.

use steersman_api::ObjectKey;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::super::accounts::{Orphan, plan};

#[test]
fn all_secrets_of_an_account_that_is_gone_are_tried() {
    assert_eq!(plan(&[]), Plan::done());
    let orphan = |name: &str| Orphan { key: ObjectKey::new("shop", name), uid: name.into() };
    let orphans = vec![orphan("a"), orphan("b")];
    let (pace, on_failure) = (Pace::Together(5), OnFailure::Stop);
    assert_eq!(plan(&orphans), Plan::Act(Batch { steps: orphans, pace, on_failure }));
}
