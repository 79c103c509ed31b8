//! Tests of the beginning and end of terms.

use std::{sync::Arc, time::Duration};

use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    candidates::{candidate, secs},
    lease_server::{LeaseServer, Weather},
};
use crate::gate::WriteGate;

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_renews_without_reading() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    assert!(!one.may_write());
    assert_eq!(one.metrics.read("test"), (false, 0));
    let term = one.leads().await;
    assert!(one.may_write());
    assert_eq!(one.metrics.read("test"), (true, 0));
    assert_eq!(one.elector.leader().borrow().as_deref(), Some("one"));
    let methods =
        |calls: Vec<super::lease_server::Call>| calls.into_iter().map(|call| call.method).collect::<Vec<_>>();
    assert_eq!(methods(server.take_calls()), [Method::GET, Method::POST]);
    sleep(secs(21)).await;
    assert_eq!(methods(server.take_calls()), vec![Method::PUT; 10]);
    assert!(one.may_write());
    term.release().await;
    assert_eq!(one.metrics.read("test"), (false, 0));
    let said: Vec<_> = std::iter::from_fn(|| one.events.try_next()).collect();
    let [became, stopped] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(became.message.as_deref(), Some("one became leader"));
    assert_eq!(stopped.message.as_deref(), Some("one stopped leading"));
    assert_eq!(became.reason.as_deref(), Some("LeaderElection"));
    assert_eq!(became.involved_object.kind.as_deref(), Some("Lease"));
    assert_eq!(became.involved_object.uid.as_deref(), Some("u-1"));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_free_at_once_and_its_fence_was_closed_before() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), candidate(&server, "two"));
    let term = one.leads().await;
    sleep(secs(5)).await;
    let lost = term.lost();
    term.release().await;
    timeout(Duration::ZERO, lost).await.expect("a released term is over");
    assert!(!one.may_write());
    let spec = &server.lease().unwrap()["spec"];
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    assert_eq!(*one.elector.leader().borrow(), None);
    let start = Instant::now();
    let _term = two.leads().await;
    assert!(start.elapsed() < secs(1), "took {:?}", start.elapsed());
    assert_eq!(server.lease().unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_follower_waits_a_lease_duration_from_the_last_change_it_saw_whatever_the_stamps_say() {
    for stamp in ["1990-01-01T00:00:00.000000Z", "2190-01-01T00:00:00.000000Z"] {
        let server = LeaseServer::default();
        server.put(json!({
            "holderIdentity": "gone", "leaseDurationSeconds": 15, "leaseTransitions": 7,
            "acquireTime": stamp, "renewTime": stamp,
        }));
        let two = candidate(&server, "two");
        let start = Instant::now();
        let _term = two.leads().await;
        let waited = start.elapsed();
        assert!(waited >= secs(15) && waited < Duration::from_millis(15_000 + 4_400), "waited {waited:?}");
        assert_eq!(server.lease().unwrap()["spec"]["leaseTransitions"], 8);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_writing_before_another_can_lead() {
    for weather in [Weather::Fails, Weather::Hangs, Weather::AnswersLost] {
        let server = LeaseServer::default();
        let (one, two) = (candidate(&server, "one"), candidate(&server, "two"));
        let term = one.leads().await;
        let mut tasks = JoinSet::new();
        let (successor, fence) = (two.elector.fence(), one.elector.fence());
        tasks.spawn(async move { two.leads().await });
        sleep(secs(7)).await;
        let last = server.take_calls().into_iter().rfind(|call| call.from == "one").unwrap().at;
        one.link.set(weather);
        let under_way = one.elector.fence().closed();
        under_way.await;
        assert_eq!(last.elapsed(), secs(10), "{weather:?}: the last renewal's start and the renew deadline");
        fence.admit().unwrap_err();
        successor.admit().expect_err("the next leader must not write before the last one has stopped");
        timeout(Duration::ZERO, term.lost()).await.unwrap();
        term.release().await;
        assert!(!one.metrics.read("test").0);
        let _next = timeout(secs(40), tasks.join_next()).await.unwrap().unwrap().unwrap();
        assert!(last.elapsed() >= secs(15), "{weather:?}: taken after {:?}", last.elapsed());
        successor.admit().unwrap();
        fence.admit().unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_the_lease_may_lead_again() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), candidate(&server, "two"));
    let term = one.leads().await;
    one.link.set(Weather::Fails);
    term.lost().await;
    term.release().await;
    let other = two.leads().await;
    one.link.set(Weather::Fair);
    timeout(secs(30), one.elector.acquire(&one.stop)).await.map(drop).expect_err("the lease is taken");
    assert_eq!(one.elector.leader().borrow().as_deref(), Some("two"));
    other.release().await;
    let _again = one.leads().await;
    assert!(one.may_write() && !two.may_write());
}

#[tokio::test(start_paused = true)]
async fn one_call_that_hangs_costs_no_leadership() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    let term = one.leads().await;
    for weather in [Weather::Hangs, Weather::AnswersLost] {
        // The renewal at 2 s hangs for 5 s; the read after it succeeds.
        one.link.set(weather);
        sleep(secs(3)).await;
        one.link.set(Weather::Fair);
        timeout(secs(20), term.lost()).await.expect_err("still the leader");
        assert!(one.may_write());
    }
    assert_eq!(one.metrics.read("test"), (true, 2), "both times by the slow path");
}

#[tokio::test(start_paused = true)]
async fn another_clients_write_into_our_lease_sends_the_renewal_through_a_read() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    let term = one.leads().await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({"a": "b"}));
    timeout(secs(20), term.lost()).await.expect_err("still the leader");
    assert_eq!(one.metrics.read("test"), (true, 1));
    assert_eq!(server.lease().unwrap()["metadata"]["labels"]["a"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_emptied_or_deleted_ends_the_term_at_the_next_renewal() {
    let edits: [fn(&LeaseServer); 3] = [
        |server| server.edit(|lease| lease["spec"]["holderIdentity"] = json!("two")),
        |server| server.edit(|lease| lease["spec"]["holderIdentity"] = json!("")),
        LeaseServer::delete,
    ];
    for edit in edits {
        let server = LeaseServer::default();
        let one = candidate(&server, "one");
        let term = one.leads().await;
        edit(&server);
        let start = Instant::now();
        term.lost().await;
        assert_eq!(start.elapsed(), secs(2));
        assert!(!one.may_write());
        term.release().await;
        let _again = one.leads().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_makes_no_second_leader_while_the_first_may_write() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), candidate(&server, "two"));
    let term = one.leads().await;
    let mut tasks = JoinSet::new();
    let (successor, fence) = (two.elector.fence(), one.elector.fence());
    tasks.spawn(async move { two.leads().await });
    sleep(secs(7)).await;
    // The leader can't learn that its lease is gone.
    one.link.set(Weather::Hangs);
    server.delete();
    tokio::select! {
        biased;
        () = term.lost() => {}
        _ = tasks.join_next() => panic!("the candidate leads while the leader may write: {}", fence.admit().is_ok()),
    }
    successor.admit().unwrap_err();
    let _next = timeout(secs(40), tasks.join_next()).await.unwrap().unwrap().unwrap();
    successor.admit().unwrap();
    fence.admit().unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_that_missed_its_successor_makes_no_second_leader_from_a_deleted_lease() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), candidate(&server, "two"));
    let term = one.leads().await;
    one.link.set(Weather::Hangs);
    let (successor, fence) = (two.elector.fence(), one.elector.fence());
    let term_of_two = two.leads().await;
    drop(term);
    let mut tasks = JoinSet::new();
    one.link.set(Weather::Fair);
    tasks.spawn(async move { one.leads().await });
    server.delete();
    two.link.set(Weather::Hangs);
    tokio::select! {
        biased;
        () = term_of_two.lost() => {}
        _ = tasks.join_next() => panic!("it leads while its successor may write: {}", successor.admit().is_ok()),
    }
    fence.admit().unwrap_err();
    let _next = timeout(secs(40), tasks.join_next()).await.unwrap().unwrap().unwrap();
    fence.admit().unwrap();
    successor.admit().unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_deleted_leads_again_before_others() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), candidate(&server, "two"));
    let term = one.leads().await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { two.leads().await });
    sleep(secs(7)).await;
    server.delete();
    term.lost().await;
    term.release().await;
    let start = Instant::now();
    let _again = one.leads().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(tasks.try_join_next().is_none() && one.may_write());
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_at_once_though_a_read_hangs() {
    let server = LeaseServer::default();
    let two = candidate(&server, "two");
    two.link.set(Weather::Hangs);
    let (start, at) = (Instant::now(), Duration::from_millis(500));
    let (won, ()) = tokio::join!(two.elector.acquire(&two.stop), async {
        sleep(at).await;
        two.stop.cancel();
    });
    assert!(won.is_none());
    assert_eq!(start.elapsed(), at);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_lease_is_being_taken_leaves_it_free() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    one.link.set(Weather::Slow);
    let (won, ()) = tokio::join!(one.elector.acquire(&one.stop), async {
        // The read takes one second, and the write another.
        sleep(Duration::from_millis(1500)).await;
        assert_eq!(server.holder(), "one");
        one.stop.cancel();
    });
    assert!(won.is_none() && !one.may_write());
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_term_is_over_and_its_lease_expires() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), candidate(&server, "two"));
    let term = one.leads().await;
    drop(term);
    assert!(!one.may_write());
    assert_eq!(server.holder(), "one");
    let start = Instant::now();
    let _term = two.leads().await;
    assert!(start.elapsed() >= secs(15));
}

#[tokio::test(start_paused = true)]
async fn running_leads_again_and_again_until_stopped_and_then_releases() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    let log = Arc::new(Mutex::new(Vec::new()));
    let fence = one.elector.fence();
    let (stop, link, start) = (one.stop.clone(), one.link.clone(), Instant::now());
    let mut tasks = JoinSet::new();
    let entries = log.clone();
    tasks.spawn(async move {
        one.elector
            .run(one.stop.clone(), |leading| {
                let (log, fence) = (entries.clone(), fence.clone());
                async move {
                    log.lock().push("leads");
                    leading.cancelled().await;
                    // A sync that takes a while to end.
                    sleep(secs(4)).await;
                    log.lock().push(if fence.admit().is_ok() { "ends, may write" } else { "ends, lost" });
                }
            })
            .await;
    });
    sleep(secs(5)).await;
    link.set(Weather::Fails);
    sleep(secs(30)).await;
    assert_eq!(*log.lock(), ["leads", "ends, lost"]);
    link.set(Weather::Fair);
    sleep(secs(5)).await;
    assert_eq!(server.holder(), "one");
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(*log.lock(), ["leads", "ends, lost", "leads", "ends, may write"]);
    assert_eq!(server.holder(), "");
    assert!(start.elapsed() < secs(60));
}
