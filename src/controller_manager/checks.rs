//! The health checks of the manager: `/livez` and `/readyz`.

use std::time::Duration;

use steersman_controller::runner::{CacheHealth, ControllerHealth, Controllers};
use steersman_informer::SharedInformerFactory;
use steersman_informer::reflector::{Progress, WatchState};

use crate::serve::health::{Check, Checks};

/// A worker without progress for this long is stuck. A call to the API server takes less unless the API server is in trouble,
/// and readiness should show that as well. Waits for the rate limit count as progress.
const STUCK_AFTER: Duration = Duration::from_secs(25);
/// A cache without an open watch for this long is stale. A watch that ends is opened again within a second.
const UNWATCHED_AFTER: Duration = Duration::from_secs(25);
/// A cache whose open watch is silent for this long is stale, if the API server sends bookmarks: one comes each minute.
const SILENT_AFTER: Duration = Duration::from_secs(90);
/// A cache that has heard nothing for this long is stale, if the API server sends bookmarks, even if its watch is opened again
/// and again: each watch may delay a bookmark by a minute.
const UNHEARD_AFTER: Duration = Duration::from_secs(180);
/// A cache that has not begun to take in a change for this long is stale: a mapping hangs.
const QUEUED_AFTER: Duration = Duration::from_secs(25);
/// Maximum length of an error in a report of health, in characters. `/debug/controllers` shows more of it.
const LONGEST_ERROR: usize = 200;

/// The checks of liveness. The manager is alive if it answers and no informer has panicked, since only a restart brings a
/// panicked informer back. Caches that do not sync and calls that hang do not count: a restart would not help them.
pub(crate) fn live(informers: &SharedInformerFactory) -> Checks {
    let informers = informers.clone();
    Checks::new([Check::new("informers", move || {
        let panicked = panicked(&informers);
        if panicked.is_empty() { Ok(()) } else { Err(format!("panicked: {}", panicked.join(", "))) }
    })])
}

/// The resources whose informers have panicked.
fn panicked(informers: &SharedInformerFactory) -> Vec<String> {
    let informers = informers.informers();
    let panicked = informers.iter().filter(|informer| informer.has_panicked());
    panicked.map(|informer| informer.resource().to_string()).collect()
}

/// The checks of readiness. The manager is ready if its caches have synced and are up to date, and no worker is stuck, whether
/// it leads or stands by.
pub(crate) fn ready(informers: &SharedInformerFactory, controllers: &Controllers) -> Checks {
    let informers = informers.clone();
    let caches = Check::new("caches", move || {
        // Only the controllers' own kinds count. The API server may advertise a kind that no server serves.
        let informers = informers.permanent_informers();
        let unsynced = informers.iter().filter(|informer| !informer.has_synced());
        let unsynced: Vec<_> = unsynced.map(|informer| informer.resource().to_string()).collect();
        if unsynced.is_empty() { Ok(()) } else { Err(format!("not synced: {}", unsynced.join(", "))) }
    });
    let each = controllers.names().map(|name| {
        let controllers = controllers.clone();
        Check::new(name, move || {
            controllers.health().iter().find(|health| health.controller == name).map_or(Ok(()), |health| {
                let faults = faults(health);
                if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
            })
        })
    });
    Checks::new([caches].into_iter().chain(each))
}

/// Why a controller is not ready. Each fault is one line, which names the cache or the worker and its key.
pub(super) fn faults(health: &ControllerHealth) -> Vec<String> {
    let waits =
        (!health.unsynced.is_empty()).then(|| format!("waiting for caches: {}", health.unsynced.join(", ")));
    let stale = health.caches.iter().filter_map(|CacheHealth { resource, progress }| {
        stale(progress).map(|why| format!("the cache of {resource} is stale: {why}"))
    });
    let stuck = health.stuck(STUCK_AFTER).map(ToString::to_string);
    waits.into_iter().chain(stale).chain(stuck).collect()
}

/// Why a cache that has synced counts as stale. `None` if it is up to date, as far as the process can tell.
pub(super) fn stale(progress: &Progress) -> Option<String> {
    let Progress { state, unwatched_for, silent_for, has_bookmarks, queued, queued_for, .. } = progress;
    let longer = |time: Option<Duration>, limit: Duration| {
        time.filter(|time| *time >= limit).map(|time| time.as_secs())
    };
    if let Some(seconds) = longer(*unwatched_for, UNWATCHED_AFTER) {
        let error = progress.last_error.as_ref().map(|last| {
            let line = last.error.lines().next().unwrap_or_default();
            format!(", after: {}", line.chars().take(LONGEST_ERROR).collect::<String>())
        });
        return Some(format!("{seconds}s without a watch ({state}{})", error.unwrap_or_default()));
    }
    if let Some(seconds) = longer(*queued_for, QUEUED_AFTER) {
        return Some(format!("{queued} changes have waited for {seconds}s to be taken in"));
    }
    let silent = silent_for.filter(|_| *has_bookmarks);
    // A new watch may be silent for as long as one that has just had a bookmark.
    let within_watch =
        silent.filter(|_| *state == WatchState::Watching).map(|time| time.min(progress.in_state));
    let seconds = longer(within_watch, SILENT_AFTER).or_else(|| longer(silent, UNHEARD_AFTER))?;
    Some(format!("{seconds}s without an event or a bookmark"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::client::Body;
    use steersman_controller::runner::Busy;
    use steersman_informer::reflector::LastError;
    use steersman_informer::wire::object::Representation;
    use steersman_informer::wire::{DecodeError, Encoding, Selection};
    use steersman_informer::{GroupVersionResource, Meta, Object, factory};
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A kind whose decoder panics.
    #[derive(Debug)]
    struct Trap;

    impl Object for Trap {
        const REPRESENTATION: Representation = Representation::Json;

        fn resource() -> Option<GroupVersionResource> {
            Some(GroupVersionResource::new("", "v1", "traps"))
        }
        fn meta(&self) -> &Meta {
            unreachable!("no trap is ever decoded")
        }
        fn decode(_: &axum::body::Bytes, _: Encoding, _: u64) -> Result<Self, DecodeError> {
            panic!("as this test wants")
        }
        fn unreadable(_: Meta) -> Self {
            Self
        }
        fn with_meta(&self, _: Meta) -> Self {
            Self
        }
    }

    impl Selection for Trap {
        type Kind = Self;
        const GROUPS: u64 = 0;
    }

    #[tokio::test]
    async fn a_manager_is_not_alive_once_an_informer_has_panicked() {
        let server = tower::service_fn(|_: http::Request<Body>| {
            let event = r#"{"type": "ADDED", "object": {"metadata": {"name": "a"}}}"#;
            let response = http::Response::new(Body::from(format!("{event}\n").into_bytes()));
            std::future::ready(Ok::<_, std::convert::Infallible>(response))
        });
        let client = kube::Client::new(server, "default");
        let informers = SharedInformerFactory::new(client, factory::Options::default());
        let traps = informers.informer::<Trap>().unwrap().any();
        // An informer that is stopped before its first list, as in an early shutdown, has not panicked.
        let stopped = informers.dynamic(&GroupVersionResource::new("", "v1", "nodes"));
        let stop = CancellationToken::new();
        stop.cancel();
        Arc::clone(&stopped).run(stop).await;
        assert!(stopped.is_stopped() && !stopped.has_synced());
        assert!(panicked(&informers).is_empty());
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&traps).run(CancellationToken::new()));
        assert!(tasks.join_next().await.unwrap().unwrap_err().is_panic());
        assert_eq!(panicked(&informers), [traps.resource().to_string()]);
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The reflector of a cache that is up to date.
    fn watching() -> Progress {
        Progress {
            state: WatchState::Watching,
            in_state: seconds(300),
            unwatched_for: None,
            silent_for: Some(seconds(60)),
            has_bookmarks: true,
            lists: 1,
            failures: 0,
            last_error: None,
            queued: 0,
            queued_for: None,
        }
    }

    #[test]
    fn a_controller_is_unhealthy_with_an_unsynced_or_stale_cache_or_a_stuck_worker() {
        let busy = |silent: u64| Busy {
            loop_name: "job".into(),
            worker: 1,
            key: "ns/pi".into(),
            running_for: seconds(300),
            silent_for: seconds(silent),
        };
        let cache = |silent: u64| CacheHealth {
            resource: "jobs.batch".into(),
            progress: Progress { silent_for: Some(seconds(silent)), ..watching() },
        };
        let faults = |unsynced: &[&str], cache, busy| {
            let unsynced = unsynced.iter().copied().map(str::to_owned).collect();
            faults(&ControllerHealth {
                controller: "job-controller",
                unsynced,
                caches: vec![cache],
                busy: vec![busy],
            })
        };
        assert!(faults(&[], cache(60), busy(25)).is_empty());
        let stuck = "worker 1 of job has been on ns/pi for 300s, 26s without progress";
        assert_eq!(faults(&[], cache(60), busy(26)), [stuck]);
        let stale = "the cache of jobs.batch is stale: 90s without an event or a bookmark";
        assert_eq!(faults(&["pods"], cache(90), busy(26)), ["waiting for caches: pods", stale, stuck]);
    }

    #[test]
    fn a_cache_is_stale_without_a_watch_or_news_or_if_it_takes_nothing_in() {
        let gone =
            |state, unwatched| Progress { state, unwatched_for: Some(seconds(unwatched)), ..watching() };
        let silent = |silent| Progress { silent_for: Some(seconds(silent)), ..watching() };
        let opened = |ago, silent| Progress {
            in_state: seconds(ago),
            silent_for: Some(seconds(silent)),
            ..watching()
        };
        let queued = |queued, since| Progress { queued, queued_for: Some(seconds(since)), ..watching() };
        let refused = LastError { error: "the API server answered: no\nmore".into(), ago: seconds(3) };
        for (progress, expected) in [
            (watching(), None),
            (gone(WatchState::BackingOff, 24), None),
            (gone(WatchState::BackingOff, 25), Some("25s without a watch (backing off)")),
            (gone(WatchState::Listing, 70), Some("70s without a watch (listing)")),
            (
                Progress { last_error: Some(refused), ..gone(WatchState::Opening, 30) },
                Some("30s without a watch (opening the watch, after: the API server answered: no)"),
            ),
            (silent(89), None),
            (silent(90), Some("90s without an event or a bookmark")),
            // The API server caches no events, so there are no bookmarks of that kind.
            (Progress { has_bookmarks: false, ..silent(10_000) }, None),
            (opened(5, 120), None),
            (opened(90, 120), Some("90s without an event or a bookmark")),
            (opened(5, 180), Some("180s without an event or a bookmark")),
            (queued(256, 24), None),
            (queued(256, 25), Some("256 changes have waited for 25s to be taken in")),
        ] {
            assert_eq!(stale(&progress).as_deref(), expected, "{progress:?}");
        }
    }
}
