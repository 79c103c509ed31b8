//! Says in the log what to do while the caches can't be filled: once for each kind of trouble, and not for each cache.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_client::transport;
use steersman_informer::list_watch::Error;
use steersman_informer::reflector::WatchErrorHook;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::remedy::UNREACHABLE;

/// Minimum time between two lines about one kind of trouble.
const BETWEEN: Duration = Duration::from_secs(300);

/// Why lists and watches fail that a user of the cluster can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// No connection to the API server can be made.
    Unreachable,
    /// The API server does not know who this process is.
    Unauthorized,
    /// This process may not read a kind.
    Forbidden,
}

impl Trouble {
    /// The trouble that the error shows, if there is one.
    fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Status(status) if status.code == 401 => Some(Self::Unauthorized),
            Error::Status(status) if status.code == 403 => Some(Self::Forbidden),
            Error::Call(call) => {
                let mut chain = std::iter::successors(call.source(), |&error| error.source());
                let dial = |error: &transport::Error| matches!(error, transport::Error::Dial { .. });
                chain.any(|error| error.downcast_ref().is_some_and(dial)).then_some(Self::Unreachable)
            }
            _ => None,
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Unreachable => UNREACHABLE,
            Self::Unauthorized => {
                "the credentials in the kubeconfig, or the service account's token, are not valid there: `kubectl auth \
                 whoami` with the same file shows more"
            }
            Self::Forbidden => {
                "bind the ClusterRole in manifests/controller-manager, or system:kube-controller-manager, to the user that \
                 the error names"
            }
        }
    }
}

/// The hook for failed lists and watches.
pub(super) fn hook() -> WatchErrorHook {
    let told = Mutex::new([None::<Instant>; 3]);
    Arc::new(move |resource, error| {
        let Some(trouble) = Trouble::of(error) else { return };
        let mut told = told.lock();
        let last = &mut told[trouble as usize];
        if last.is_some_and(|last| last.elapsed() < BETWEEN) {
            return;
        }
        *last = Some(Instant::now());
        drop(told);
        tracing::warn!(?trouble, %resource, %error, remedy = trouble.remedy(), "Caches can't be filled, trying again");
    })
}

/// Says who leads if another process does when this one begins to stand by, and what to do if both should run controllers.
pub(super) async fn tell_of_leader(
    mut leader: watch::Receiver<Option<Arc<str>>>,
    identity: String,
    lease: String,
    stop: CancellationToken,
) {
    let seen = async {
        let leader = leader.wait_for(Option::is_some).await.ok()?;
        (*leader).clone()
    };
    if let Some(Some(leader)) = stop.run_until_cancelled(seen).await
        && *leader != *identity
    {
        tracing::info!(
            lease,
            %leader,
            remedy = "if both should run controllers, each its own: --leader-elect-resource-name and --controllers",
            "Standing by, as another process holds the lease"
        );
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::Status;

    use super::*;

    #[test]
    fn troubles_that_a_user_can_help_are_told_from_others() {
        let status = |code| Error::from(Status { code, ..Status::default() });
        let call = |error: transport::Error| Error::Call(Box::new(kube::Error::Service(error.into())));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let dial = transport::Error::Dial { server: "server:6443".into(), source: Arc::new(refused) };
        for (error, trouble) in [
            (status(401), Some(Trouble::Unauthorized)),
            (status(403), Some(Trouble::Forbidden)),
            (status(410), None),
            (call(dial), Some(Trouble::Unreachable)),
            (call(transport::Error::Closed), None),
            (Error::Incomplete, None),
        ] {
            assert_eq!(Trouble::of(&error), trouble, "{error}");
        }
    }
}
