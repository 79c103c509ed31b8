//! Tests of candidates that wait for a lease which another one holds.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    candidates::{Candidate, candidate, secs},
    lease_server::{Call, LeaseServer, Watches, Weather, watch_method},
};
use crate::{
    gate::WriteGate,
    leader_election::{Term, lease_watch::LONGEST_PAUSE},
};

/// A candidate at work. The term is its result, with the time at which it began.
fn stands(candidate: &Arc<Candidate>) -> JoinSet<(Term, Instant)> {
    let (candidate, mut tasks) = (candidate.clone(), JoinSet::new());
    tasks.spawn(async move {
        let term = candidate.elector.acquire(&candidate.stop).await.unwrap();
        (term, Instant::now())
    });
    tasks
}

async fn term_of(mut standing: JoinSet<(Term, Instant)>) -> (Term, Instant) {
    timeout(secs(60), standing.join_next()).await.unwrap().unwrap().unwrap()
}

fn calls_of(server: &LeaseServer, name: &str) -> Vec<Call> {
    server.take_calls().into_iter().filter(|call| call.from == name).collect()
}

fn methods(calls: &[Call]) -> Vec<&Method> {
    calls.iter().map(|call| &call.method).collect()
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
    let term = one.leads().await;
    let standing = stands(&two);
    sleep(Duration::from_millis(31_500)).await;
    assert_eq!(two.elector.leader().borrow().as_deref(), Some("one"));
    let released = Instant::now();
    term.release().await;
    let (_term, begun) = term_of(standing).await;
    assert_eq!(begun - released, Duration::ZERO);
    assert!(two.may_write() && !one.may_write());
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_leader_that_is_gone_is_taken_when_it_expires() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
    let _term = one.leads().await;
    let standing = stands(&two);
    sleep(secs(31)).await;
    let last = calls_of(&server, "one").last().unwrap().at;
    one.link.set(Weather::Hangs);
    let (_term, begun) = term_of(standing).await;
    assert_eq!(begun - last, secs(15));
    assert!(!one.may_write(), "the fence of the old leader closed before");
}

#[tokio::test(start_paused = true)]
async fn while_the_leader_renews_a_candidate_with_a_watch_asks_for_nothing() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
    let _term = one.leads().await;
    let mut standing = stands(&two);
    sleep(secs(1)).await;
    assert_eq!(methods(&calls_of(&server, "two")), [&Method::GET, &watch_method()]);
    sleep(secs(3600)).await;
    assert_eq!(methods(&calls_of(&server, "two")), Vec::<&Method>::new());
    assert!(standing.try_join_next().is_none() && one.may_write());
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_may_not_watch_polls_and_seldom_asks_again() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
    let term = one.leads().await;
    two.link.set_watches(Watches::Forbidden);
    let standing = stands(&two);
    sleep(secs(3600)).await;
    let calls = calls_of(&server, "two");
    let watches = calls.iter().filter(|call| call.method == watch_method()).count() as u64;
    assert!((3600 / (LONGEST_PAUSE.as_secs() + 5)..=3600 / LONGEST_PAUSE.as_secs() + 1).contains(&watches));
    let polls = calls.iter().filter(|call| call.method == Method::GET).count();
    assert!((3600 * 10 / 44..=3600 / 2).contains(&polls), "{polls} polls");
    let released = Instant::now();
    term.release().await;
    let (_term, begun) = term_of(standing).await;
    assert!(begun - released <= Duration::from_millis(4400), "after {:?}", begun - released);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_shows_nothing_delays_no_take_over_beyond_a_poll() {
    for watches in [Watches::Hang, Watches::Silent, Watches::End] {
        let server = LeaseServer::default();
        let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
        let term = one.leads().await;
        two.link.set_watches(watches);
        let standing = stands(&two);
        sleep(secs(3600)).await;
        let asked = calls_of(&server, "two");
        let opened = asked.iter().filter(|call| call.method == watch_method()).count();
        assert!(opened < 30, "{watches:?}: {opened} watches, although pauses double");
        let released = Instant::now();
        term.release().await;
        let (_term, begun) = term_of(standing).await;
        assert!(begun - released <= Duration::from_millis(6400), "{watches:?}: {:?}", begun - released);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stalls_makes_no_second_leader_and_is_replaced() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
    let term = one.leads().await;
    let mut standing = stands(&two);
    sleep(secs(9)).await;
    two.link.set_watches(Watches::Silent);
    sleep(secs(60)).await;
    assert!(standing.try_join_next().is_none() && one.may_write());
    two.link.set_watches(Watches::Served);
    // Longer than the pause before the next watch can be by now.
    sleep(secs(120)).await;
    let released = Instant::now();
    term.release().await;
    let (_term, begun) = term_of(standing).await;
    assert_eq!(begun - released, Duration::ZERO, "by another watch");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_ends_is_opened_again_at_once() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
    let term = one.leads().await;
    let standing = stands(&two);
    sleep(secs(9)).await;
    server.take_calls();
    server.end_watches();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(methods(&calls_of(&server, "two")), [&watch_method()]);
    let released = Instant::now();
    term.release().await;
    let (_term, begun) = term_of(standing).await;
    assert_eq!(begun - released, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_whose_calls_hang_takes_nothing_until_it_has_read_the_lease() {
    let server = LeaseServer::default();
    let (one, two) = (candidate(&server, "one"), Arc::new(candidate(&server, "two")));
    let term = one.leads().await;
    let mut standing = stands(&two);
    sleep(secs(9)).await;
    two.link.set(Weather::Hangs);
    sleep(secs(300)).await;
    assert!(standing.try_join_next().is_none() && one.may_write());
    two.link.set(Weather::Fair);
    sleep(secs(60)).await;
    assert!(standing.try_join_next().is_none() && one.may_write() && !two.may_write());
    term.release().await;
    term_of(standing).await;
}

#[tokio::test(start_paused = true)]
async fn the_stamps_of_a_leader_whose_clock_is_wrong_neither_hasten_nor_delay_a_take_over() {
    for stamp in ["1990-01-01T00:00:00.000000Z", "2190-01-01T00:00:00.000000Z"] {
        let server = LeaseServer::default();
        let spec = json!({
            "holderIdentity": "skewed", "leaseDurationSeconds": 15, "leaseTransitions": 7,
            "acquireTime": stamp, "renewTime": stamp,
        });
        server.put(spec);
        let two = Arc::new(candidate(&server, "two"));
        let mut standing = stands(&two);
        for renewal in 0..30 {
            sleep(secs(2)).await;
            // A clock that is wrong may also stand still or go back.
            let stamp = stamp.replace("00.000000", &format!("{:02}.000000", (renewal * 7) % 60));
            server.edit(|lease| lease["spec"]["renewTime"] = json!(stamp));
        }
        assert!(standing.try_join_next().is_none(), "the leader has renewed");
        let last = Instant::now();
        let (_term, begun) = term_of(standing).await;
        assert_eq!(begun - last, secs(15), "{stamp}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_one_takes_a_released_lease() {
    let server = LeaseServer::default();
    let one = candidate(&server, "one");
    let term = one.leads().await;
    let others: Vec<_> = (0..5).map(|n| Arc::new(candidate(&server, &format!("other-{n}")))).collect();
    let mut standing: Vec<_> = others.iter().map(stands).collect();
    sleep(secs(30)).await;
    term.release().await;
    sleep(Duration::from_millis(1)).await;
    let leaders = others.iter().filter(|other| other.elector.fence().admit().is_ok()).count();
    assert_eq!(leaders, 1);
    let ended: Vec<_> = standing.iter_mut().filter_map(JoinSet::try_join_next).collect();
    assert_eq!(ended.len(), 1);
    sleep(secs(60)).await;
    assert!(standing.iter_mut().all(|other| other.try_join_next().is_none()), "the leader renews");
}
