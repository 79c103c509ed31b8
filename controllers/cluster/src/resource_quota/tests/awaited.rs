use std::time::Duration;

use steersman_api::{ObjectKey, ResourceVersion};
use tokio::time::advance;

use super::super::awaited::{Awaited, PATIENCE};

const SHOWN: ResourceVersion = ResourceVersion(5);
const NEWER: ResourceVersion = ResourceVersion(6);

#[tokio::test(start_paused = true)]
async fn a_quota_waits_until_the_cache_shows_the_awaited_version() {
    let (awaited, quota) = (Awaited::default(), ObjectKey::new("default", "q"));
    assert!(!awaited.holds(&quota, SHOWN));
    awaited.add(&quota, NEWER);
    assert!(awaited.holds(&quota, SHOWN));
    assert!(!awaited.holds(&quota, NEWER));
    assert!(awaited.is(&quota, NEWER));
    awaited.forget(&quota);
    assert!(!awaited.holds(&quota, SHOWN));
}

#[tokio::test(start_paused = true)]
async fn a_quota_does_not_wait_for_ever_for_a_version_that_never_comes() {
    let (awaited, quota) = (Awaited::default(), ObjectKey::new("default", "q"));
    awaited.add(&quota, NEWER);
    advance(PATIENCE - Duration::from_millis(1)).await;
    assert!(awaited.holds(&quota, SHOWN));
    advance(Duration::from_millis(1)).await;
    assert!(!awaited.holds(&quota, SHOWN));
    awaited.add(&quota, NEWER);
    assert!(awaited.holds(&quota, SHOWN), "another conflict");
}
