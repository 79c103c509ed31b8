use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use futures::poll;

use super::*;

fn uid() -> Uid {
    Uid::from("p")
}

fn status(name: &str) -> PodStatus {
    PodStatus { name: name.into(), ..PodStatus::unknown_to_runtime(uid()) }
}

fn failure() -> RuntimeError {
    Arc::new(std::io::Error::other("no answer"))
}

/// Seconds after a fixed moment.
fn at(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

/// What `get_newer_than` has at once, if anything: the status's name, or its error.
fn now(reader: &StatusReader, newer_than: Instant) -> Option<Result<String, String>> {
    let status = reader.get_newer_than(&uid(), newer_than).now_or_never()?;
    Some(status.map(|status| status.name.clone()).map_err(|error| error.to_string()))
}

fn is(name: &str) -> Option<Result<String, String>> {
    Some(Ok(name.into()))
}

#[tokio::test(start_paused = true)]
async fn an_unknown_pod_has_an_empty_status() {
    let cache = StatusCache::new();
    assert_eq!(*cache.reader().get(&uid()).unwrap(), PodStatus::unknown_to_runtime(uid()));
    assert!(now(&cache.reader(), Instant::now()).is_none(), "before the first list nothing is known");
}

#[tokio::test(start_paused = true)]
async fn a_status_is_what_was_last_set() {
    let (cache, start) = (StatusCache::new(), Instant::now());
    cache.set(&uid(), Ok(status("a")), start);
    assert_eq!(cache.reader().get(&uid()).unwrap().name, "a");
    cache.set(&uid(), Err(failure()), start);
    assert_eq!(cache.reader().get(&uid()).unwrap_err().to_string(), "inspect the pod: no answer");
    cache.delete(&uid());
    assert_eq!(*cache.reader().get(&uid()).unwrap(), PodStatus::unknown_to_runtime(uid()));
}

#[tokio::test(start_paused = true)]
async fn newer_is_by_the_pods_own_time_or_by_that_of_all() {
    let start = Instant::now();
    // The times of the pod and of all, the time asked for, and whether there is an answer.
    for (own, all, asked, answer) in [
        (Some(10), None, 9, is("a")),
        (Some(10), None, 10, None),
        (Some(10), None, 11, None),
        (Some(10), Some(12), 11, is("a")),
        (Some(10), Some(12), 12, None),
        (Some(14), Some(12), 13, is("a")),
        (None, Some(12), 11, is("")),
        (None, Some(12), 12, None),
    ] {
        let cache = StatusCache::new();
        if let Some(all) = all {
            cache.observed_all(at(start, all));
        }
        if let Some(own) = own {
            cache.set(&uid(), Ok(status("a")), at(start, own));
        }
        assert_eq!(now(&cache.reader(), at(start, asked)), answer, "{own:?} {all:?} {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observation_makes_a_status_newer_and_never_older() {
    let (cache, start) = (StatusCache::new(), Instant::now());
    cache.set(&uid(), Ok(status("a")), at(start, 10));
    cache.observed(&uid(), at(start, 20));
    cache.observed(&uid(), at(start, 5));
    assert_eq!(now(&cache.reader(), at(start, 19)), is("a"));
    cache.observed_all(at(start, 30));
    cache.observed_all(at(start, 7));
    assert_eq!(now(&cache.reader(), at(start, 29)), is("a"));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_answered_when_the_time_comes() {
    let (cache, start) = (StatusCache::new(), Instant::now());
    let (reader, uid) = (cache.reader(), uid());
    cache.set(&uid, Ok(status("old")), at(start, 1));
    let mut early = pin!(reader.get_newer_than(&uid, at(start, 10)));
    let mut late = pin!(reader.get_newer_than(&uid, at(start, 20)));
    assert!(poll!(&mut early).is_pending() && poll!(&mut late).is_pending());

    cache.set(&uid, Ok(status("new")), at(start, 9));
    cache.observed(&uid, at(start, 9));
    cache.observed_all(at(start, 9));
    assert!(poll!(&mut early).is_pending());

    cache.observed(&uid, at(start, 15));
    assert_eq!(early.await.unwrap().name, "new");
    assert!(poll!(&mut late).is_pending());
    cache.observed_all(at(start, 20));
    assert_eq!(late.await.unwrap().name, "new");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_unknown_pod_is_answered_by_the_next_list() {
    let (cache, start) = (StatusCache::new(), Instant::now());
    let (reader, uid) = (cache.reader(), uid());
    cache.set(&uid, Ok(status("a")), at(start, 1));
    let mut waiting = pin!(reader.get_newer_than(&uid, at(start, 10)));
    assert!(poll!(&mut waiting).is_pending());
    cache.delete(&uid);
    assert!(poll!(&mut waiting).is_pending());
    cache.observed_all(at(start, 11));
    assert_eq!(*waiting.await.unwrap(), PodStatus::unknown_to_runtime(uid.clone()));
}

#[tokio::test(start_paused = true)]
async fn a_held_pod_is_not_given_out_as_new_before_it_is_set() {
    let (cache, start) = (StatusCache::new(), Instant::now());
    let (reader, uid) = (cache.reader(), uid());
    cache.set(&uid, Ok(status("old")), at(start, 1));
    cache.hold(&uid);
    let mut waiting = pin!(reader.get_newer_than(&uid, at(start, 5)));
    assert!(poll!(&mut waiting).is_pending());
    cache.observed(&uid, at(start, 10));
    cache.observed_all(at(start, 10));
    assert!(poll!(&mut waiting).is_pending(), "the list knows only that it changed");
    assert!(now(&reader, at(start, 5)).is_none());
    assert_eq!(reader.get(&uid).unwrap().name, "old", "who does not mind its age gets it");

    cache.set(&uid, Ok(status("new")), at(start, 10));
    assert_eq!(waiting.await.unwrap().name, "new");
    cache.observed_all(at(start, 12));
    assert_eq!(now(&reader, at(start, 11)), is("new"));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_an_answer() {
    let (cache, start) = (StatusCache::new(), Instant::now());
    let (reader, uid) = (cache.reader(), uid());
    let mut waiting = pin!(reader.get_newer_than(&uid, start));
    assert!(poll!(&mut waiting).is_pending());
    cache.set(&uid, Err(failure()), at(start, 1));
    assert!(matches!(waiting.await, Err(Error::Inspect(_))));
}

#[tokio::test(start_paused = true)]
async fn who_goes_is_forgotten_and_who_waits_is_told_the_end() {
    let (cache, start) = (StatusCache::new(), Instant::now());
    let (reader, uid) = (cache.reader(), uid());
    assert!(reader.get_newer_than(&uid, at(start, 10)).now_or_never().is_none());
    assert_eq!(reader.shared.lock().waiting.len(), 1);
    cache.observed_all(start);
    assert!(reader.shared.lock().waiting.is_empty());

    let mut waiting = pin!(reader.get_newer_than(&uid, start));
    assert!(poll!(&mut waiting).is_pending());
    drop(cache);
    assert!(matches!(waiting.await, Err(Error::Stopped)));
    assert!(matches!(reader.get_newer_than(&uid, start).await, Err(Error::Stopped)));
}
