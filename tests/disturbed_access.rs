//! Identities, certificates, quotas and the like while the API server restarts, and while one of two managers is killed: no object
//! is left out, and nothing is made twice.
//!
//! `garbage.rs` and `namespaces.rs` show the same of the garbage collector and of the deletion of namespaces.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "disturbed_access/bootstrap.rs"]
mod bootstrap;
#[path = "disturbed_access/certificates.rs"]
mod certificates;
#[path = "disturbed_access/members.rs"]
mod members;
#[path = "disturbed_access/sweeps.rs"]
mod sweeps;
#[path = "disturbed_access/upkeep.rs"]
mod upkeep;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bootstrap::BootstrapTokens;
use certificates::Certificates;
use members::Members;
use support::managed::{Candidates, Managed};
use support::{Cluster, eventually};
use upkeep::Upkeep;

/// What controllers have made of numbered objects, by its kind and the object's number: its version, or its content.
type Made = BTreeMap<(&'static str, usize), String>;

/// Numbered objects of which some controllers make something.
trait Area {
    /// The controllers' names, as in `--controllers`.
    const CONTROLLERS: &'static str;
    /// The kinds of what the controllers make by a call for each object.
    const ONE_BY_ONE: &'static [&'static str];
    /// The kinds of what they make for several objects in one call.
    const AT_ONCE: &'static [&'static str];

    /// The area before it has any objects.
    async fn of(cluster: &Cluster) -> Self;

    /// Further flags of the managers.
    fn flags(&self) -> Vec<String>;

    /// Creates the objects with these numbers.
    async fn create(&self, numbers: Range<usize>);

    /// What the controllers have made of the first `count` objects. What is missing is left out.
    async fn made(&self, count: usize) -> Made;

    /// Checks what the controllers have made of the first `count` objects in the end.
    async fn check(&self, made: &Made, count: usize);
}

/// The flags of managers that make so few calls a second that a test sees each controller in the middle of its work.
fn slow_flags<A: Area>(area: &A) -> Vec<String> {
    let mut flags = vec![format!("--controllers={}", A::CONTROLLERS)];
    flags.extend(["--kube-api-qps=1", "--kube-api-burst=1"].map(str::to_owned));
    flags.extend(area.flags());
    flags
}

fn texts(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

/// Fails unless some of each kind that is made one by one is missing.
fn assert_in_the_middle<A: Area>(made: &Made, count: usize) {
    for kind in A::ONE_BY_ONE {
        let of_kind = made.keys().filter(|(made, _)| made == kind).count();
        assert!(of_kind < count, "there is each {kind} already: {made:?}");
    }
}

/// Fails unless all that was there before is there unchanged.
fn assert_kept(after: &Made, before: &Made) {
    for (what, version) in before {
        assert_eq!(after.get(what), Some(version), "{what:?}");
    }
}

/// Waits until the controllers have made all of the first `count` objects, and returns it.
async fn complete<A: Area>(area: &A, count: usize) -> Made {
    let kinds = A::ONE_BY_ONE.len() + A::AT_ONCE.len();
    eventually(&format!("{} leave nothing out", A::CONTROLLERS), || async {
        let made = area.made(count).await;
        (made.len() == kinds * count).then_some(made)
    })
    .await
}

async fn while_the_api_server_restarts<A: Area>() {
    let cluster = Cluster::start_own().await;
    let area = A::of(&cluster).await;
    let managed = Managed::on(cluster, &texts(&slow_flags(&area)));
    let mut before = Made::new();
    for (round, away) in [500, 1000, 100].into_iter().enumerate() {
        let count = 5 * (round + 1);
        area.create(5 * round..count).await;
        let made = area.made(count).await;
        assert_in_the_middle::<A>(&made, count);
        assert_kept(&made, &before);
        managed.cluster.restart(Duration::from_millis(away)).await;
        before = made;
    }
    let complete = complete(&area, 15).await;
    assert_kept(&complete, &before);
    area.check(&complete, 15).await;
}

async fn while_the_leader_is_killed<A: Area>() {
    let cluster = Cluster::start_own().await;
    let area = A::of(&cluster).await;
    let mut managers = Candidates::start(&cluster, &texts(&slow_flags(&area))).await;
    area.create(0..8).await;
    eventually("the leader has begun", || async { (!area.made(8).await.is_empty()).then_some(()) }).await;
    managers.kill_leader();
    let before = area.made(8).await;
    assert_in_the_middle::<A>(&before, 8);
    let complete = complete(&area, 8).await;
    assert!(managers.has_changed().await);
    assert_kept(&complete, &before);
    area.check(&complete, 8).await;
}

#[tokio::test]
async fn an_api_server_that_restarts_leaves_no_member_out_and_repeats_nothing() {
    while_the_api_server_restarts::<Members>().await;
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_leaves_no_member_out() {
    while_the_leader_is_killed::<Members>().await;
}

#[tokio::test]
async fn an_api_server_that_restarts_leaves_no_request_out_and_none_is_signed_twice() {
    while_the_api_server_restarts::<Certificates>().await;
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_signs_what_is_left() {
    while_the_leader_is_killed::<Certificates>().await;
}

#[tokio::test]
async fn an_api_server_that_restarts_leaves_out_no_quota_no_node_and_no_range() {
    while_the_api_server_restarts::<Upkeep>().await;
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_leaves_out_no_quota_no_node_and_no_range() {
    while_the_leader_is_killed::<Upkeep>().await;
}

#[tokio::test]
async fn an_api_server_that_restarts_leaves_no_bootstrap_token_out() {
    while_the_api_server_restarts::<BootstrapTokens>().await;
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_leaves_no_bootstrap_token_out() {
    while_the_leader_is_killed::<BootstrapTokens>().await;
}
