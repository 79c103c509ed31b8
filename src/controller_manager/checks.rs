//! The health checks of the manager: `/livez` and `/readyz`.

use std::time::Duration;

use steersman_controller::runner::{ControllerHealth, Controllers};
use steersman_informer::SharedInformerFactory;

use crate::serve::health::{Check, Checks};

/// A worker without progress for this long is stuck. A call to the API server, waits in the rate limiter included, takes
/// less unless the API server is in trouble, and readiness should show that as well.
const STUCK_AFTER: Duration = Duration::from_secs(60);

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

/// The checks of readiness. The manager is ready if its caches have synced and no worker is stuck, whether it leads or
/// stands by.
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
            controllers
                .health()
                .iter()
                .find(|health| health.controller == name)
                .map_or(Ok(()), check_controller)
        })
    });
    Checks::new([caches].into_iter().chain(each))
}

fn check_controller(health: &ControllerHealth) -> Result<(), String> {
    let waits =
        (!health.unsynced.is_empty()).then(|| format!("waiting for caches: {}", health.unsynced.join(", ")));
    let stuck = health.stuck(STUCK_AFTER).map(ToString::to_string);
    let faults: Vec<String> = waits.into_iter().chain(stuck).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::client::Body;
    use steersman_controller::runner::Busy;
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

    #[test]
    fn a_controller_is_unhealthy_with_an_unsynced_cache_or_a_stuck_worker() {
        let busy = |silent: u64| Busy {
            loop_name: "job".into(),
            worker: 1,
            key: "ns/pi".into(),
            running_for: Duration::from_secs(300),
            silent_for: Duration::from_secs(silent),
        };
        let health = |unsynced: &[&str], silent| ControllerHealth {
            controller: "job-controller",
            unsynced: unsynced.iter().copied().map(str::to_owned).collect(),
            busy: vec![busy(silent)],
        };
        assert_eq!(check_controller(&health(&[], 60)), Ok(()));
        let stuck = "worker 1 of job has been on ns/pi for 300s, 61s without progress";
        assert_eq!(check_controller(&health(&[], 61)), Err(stuck.to_owned()));
        assert_eq!(
            check_controller(&health(&["pods"], 61)),
            Err(format!("waiting for caches: pods; {stuck}"))
        );
    }
}
