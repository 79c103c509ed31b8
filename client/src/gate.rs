//! The gate before writes, which the leadership fence implements.

use std::borrow::Cow;

use futures::future::BoxFuture;
use http::Method;
use tower::BoxError;

/// Decides whether this process may write.
///
/// A gated client calls [`admit`](WriteGate::admit) when the caller sends a write, and again just before each attempt
/// is handed to the connection, since the attempt may have waited for the rate limit or for `Retry-After`. It
/// abandons a write under way as soon as [`closed`](WriteGate::closed) resolves. Reads and watches always pass.
///
/// A gate may open again: `closed` concerns only the opening at the time of its call.
pub trait WriteGate: Send + Sync {
    /// Decides whether a write may be sent now. Must be quick, and must compare the clock instead of relying on a
    /// timer: a process that resumes after a pause calls this before its timers have run.
    ///
    /// # Errors
    /// If the gate is closed.
    fn admit(&self) -> Result<(), GateClosed>;

    /// Resolves when the gate closes for the first time after this *call*, and at once if the gate is closed now. A
    /// later opening does not delay it, so a caller that calls this before [`admit`](WriteGate::admit) misses no
    /// closing.
    fn closed(&self) -> BoxFuture<'static, ()>;
}

/// Why a gate is closed, as text for a log line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GateClosed(pub Cow<'static, str>);

impl GateClosed {
    /// Creates the error from a reason such as `not the leader`.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

/// A write that a gate stopped. The caller should drop its work: the process that may write now will do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing was sent.
    #[error("write refused: {0}")]
    Refused(#[source] GateClosed),
    /// The gate closed while the write was under way. The server may have carried it out.
    #[error("write abandoned, its outcome is unknown: the gate closed while it was under way")]
    Abandoned,
}

/// Whether a request can change the cluster: every method but GET, HEAD and OPTIONS.
pub(crate) fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Performs `write` while `gate` admits it.
///
/// # Errors
/// [`Error::Refused`] if the gate is closed; [`Error::Abandoned`] if it closes before `write` has ended; otherwise
/// the error of `write`.
pub(crate) async fn guard<T>(
    gate: &dyn WriteGate,
    write: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    let closed = gate.closed();
    gate.admit().map_err(Error::Refused)?;
    tokio::select! {
        // The gate first: if both are due after a pause of the process, the write must not win.
        biased;
        () = closed => Err(Error::Abandoned.into()),
        outcome = write => outcome,
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::{sync::watch, time::timeout};

    use super::*;
    use crate::{
        Clients, Limits,
        fault::surely_not_done,
        testing::{Reply, Scripted, answer, request},
    };

    /// A gate that a test opens and closes.
    struct Door(watch::Sender<bool>);

    impl Door {
        fn new(open: bool) -> Arc<Self> {
            Arc::new(Self(watch::Sender::new(open)))
        }
    }

    impl WriteGate for Door {
        fn admit(&self) -> Result<(), GateClosed> {
            if *self.0.borrow() { Ok(()) } else { Err(GateClosed::because("not the leader")) }
        }

        fn closed(&self) -> BoxFuture<'static, ()> {
            let mut open = self.0.subscribe();
            Box::pin(async move {
                open.wait_for(|open| !open).await.unwrap();
            })
        }
    }

    fn stopped(error: &kube::Error) -> Option<&Error> {
        let kube::Error::Service(error) = error else { return None };
        error.downcast_ref()
    }

    #[tokio::test]
    async fn a_closed_gate_refuses_writes_and_only_writes() {
        let service = Scripted::in_turn([]);
        let door = Door::new(false);
        let clients = Clients::over(service.clone());
        let gated = clients.gated(door.clone()).component("job");
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let error = gated.send(request(method, "/api/v1/namespaces/a/pods/b")).await.unwrap_err();
            assert!(matches!(stopped(&error), Some(Error::Refused(_))), "{error}");
            assert!(error.to_string().contains("not the leader") && surely_not_done(&error));
        }
        assert_eq!(service.seen().len(), 0);
        gated.send(request(Method::GET, "/api/v1/pods")).await.unwrap();
        clients.component("ungated").send(request(Method::POST, "/api/v1/namespaces/a/pods")).await.unwrap();
        let lease = clients.gated(door.clone()).lease_client("leader");
        lease.send(request(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/b")).await.unwrap();
        assert_eq!(service.seen().len(), 3);

        door.0.send_replace(true);
        gated.send(request(Method::POST, "/api/v1/namespaces/a/pods")).await.unwrap();
        assert_eq!(service.seen().len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_under_way_is_abandoned_when_the_gate_closes() {
        let service = Scripted::new(|_| Reply::Hang);
        let door = Door::new(true);
        let gated = Clients::over(service.clone()).gated(door.clone()).component("job");
        let mut write = Box::pin(gated.send(request(Method::POST, "/api/v1/namespaces/a/pods")));
        let mut read = Box::pin(gated.send(request(Method::GET, "/api/v1/pods")));
        assert!(timeout(Duration::from_secs(60), &mut write).await.is_err());
        assert!(timeout(Duration::from_secs(60), &mut read).await.is_err());
        assert_eq!(service.seen().len(), 2);
        door.0.send_replace(false);
        let error = write.await.unwrap_err();
        assert_eq!(stopped(&error), Some(&Error::Abandoned));
        assert!(!surely_not_done(&error));
        assert!(timeout(Duration::from_secs(60), &mut read).await.is_err(), "a read goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waits_for_its_turn_is_not_sent_once_the_gate_has_closed() {
        for wait in ["limit", "retry-after"] {
            let service = Scripted::in_turn([match wait {
                "limit" => answer(200, "{}"),
                _ => Reply::Answer(429, &[("retry-after", "5")], String::new()),
            }]);
            let door = Door::new(true);
            let gated =
                Clients::over(service.clone()).gated(door.clone()).component_with("job", Limits::new(0.1, 1));
            if wait == "limit" {
                gated.send(request(Method::POST, "/api/v1/namespaces/a/pods")).await.unwrap();
            }
            let mut write = Box::pin(gated.send(request(Method::POST, "/api/v1/namespaces/a/pods")));
            assert!(timeout(Duration::from_secs(1), &mut write).await.is_err());
            door.0.send_replace(false);
            write.await.unwrap_err();
            tokio::time::advance(Duration::from_secs(60)).await;
            assert_eq!(service.seen().len(), 1, "waiting for {wait}");
        }
    }

    /// A gate whose timers have not run, as in a process that was stopped and goes on.
    struct Sleeper {
        admitted: std::sync::atomic::AtomicU32,
    }

    impl WriteGate for Sleeper {
        fn admit(&self) -> Result<(), GateClosed> {
            match self.admitted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => Ok(()),
                _ => Err(GateClosed::because("the lease has expired meanwhile")),
            }
        }

        fn closed(&self) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_is_asked_again_just_before_sending() {
        let service = Scripted::in_turn([]);
        let gate = Arc::new(Sleeper { admitted: 0.into() });
        let gated = Clients::over(service.clone()).gated(gate).component("job");
        let error = gated.send(request(Method::POST, "/api/v1/namespaces/a/pods")).await.unwrap_err();
        assert!(matches!(stopped(&error), Some(Error::Refused(_))), "{error}");
        assert_eq!(service.seen().len(), 0);
    }
}
