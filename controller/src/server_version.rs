//! The version of Kubernetes that the API server runs.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use steersman_client::Sender;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::{Accept, Call};
use crate::controller::SyncError;

/// How long an answer of the API server serves. A cluster may be upgraded while this process runs.
const FRESH: Duration = Duration::from_secs(600);

/// The minor versions of Kubernetes 1 that this program is made for.
pub const SERVED: std::ops::RangeInclusive<u32> = 36..=37;

/// How long [`ServerVersion::follow`] waits after a failed call.
const RETRY: Duration = Duration::from_secs(10);

/// Reads the minor version of the API server when a controller first needs it, and again from time to time. Cheap to clone;
/// all clones share the answer.
#[derive(Clone)]
pub struct ServerVersion(Arc<Source>);

enum Source {
    Server { sender: Sender, last: Mutex<Option<Answer>> },
    Fixed(u32),
}

#[derive(Clone, Copy)]
struct Answer {
    minor: u32,
    at: Instant,
}

impl ServerVersion {
    /// The version of the API server that `sender` talks to.
    pub fn of(sender: Sender) -> Self {
        Self(Arc::new(Source::Server { sender, last: Mutex::default() }))
    }

    /// Kubernetes 1.`minor`, whatever the API server says. For tests.
    pub fn fixed(minor: u32) -> Self {
        Self(Arc::new(Source::Fixed(minor)))
    }

    /// The minor version, such as 36. Zero if the API server's answer has none.
    ///
    /// Asks the API server at most once in ten minutes. If it can't be asked again, the last answer serves.
    ///
    /// # Errors
    /// The call failed, and no call before it succeeded. The caller's sync should fail, so that its key is tried again.
    pub async fn minor(&self) -> Result<u32, SyncError> {
        let (sender, last) = match &*self.0 {
            Source::Fixed(minor) => return Ok(*minor),
            Source::Server { sender, last } => (sender, last),
        };
        // Held during the call, so that all who ask at the same time share one call.
        let mut last = last.lock().await;
        if let Some(answer) = last.filter(|answer| answer.at.elapsed() < FRESH) {
            return Ok(answer.minor);
        }
        match (read(sender).await, *last) {
            (Ok(minor), before) => {
                if before.is_none_or(|before| before.minor != minor) {
                    tell(minor);
                }
                *last = Some(Answer { minor, at: Instant::now() });
                Ok(minor)
            }
            (Err(error), Some(before)) => {
                tracing::warn!(%error, minor = before.minor, "Using the API server's last known version");
                *last = Some(Answer { at: Instant::now(), ..before });
                Ok(before.minor)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Reads the version now, and again whenever it is no longer fresh, until `stop` is cancelled: the log shows it from the
    /// start on, whichever controller needs it.
    pub async fn follow(self, stop: CancellationToken) {
        let reads = async {
            loop {
                let wait = match self.minor().await {
                    Ok(_) => FRESH,
                    Err(error) => {
                        tracing::debug!(%error, "Can't read the API server's version yet");
                        RETRY
                    }
                };
                tokio::time::sleep(wait).await;
            }
        };
        stop.run_until_cancelled(reads).await;
    }
}

/// Logs a version that is new to this process. Warns if this program is not [made for it](SERVED).
fn tell(minor: u32) {
    if SERVED.contains(&minor) {
        tracing::info!(minor, "Read the API server's minor version");
    } else {
        let served = format!("1.{} to 1.{}", SERVED.start(), SERVED.end());
        tracing::warn!(
            minor,
            served,
            "The API server is of a version that this program is not made for: what it does not know of objects it leaves as \
             it is, and names made from hashes of pod templates may differ from kube-controller-manager's"
        );
    }
}

async fn read(sender: &Sender) -> Result<u32, SyncError> {
    let call = Call {
        what: "reading the API server's version".into(),
        method: Method::GET,
        path: "/version".into(),
        accept: Accept::Json,
        content: None,
    };
    let version = call.send(sender).await?.json()?;
    Ok(minor_of(version["minor"].as_str().unwrap_or_default()))
}

/// The number at the beginning of a minor version. Some providers append a sign, as in `36+`.
fn minor_of(text: &str) -> u32 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::ready;

    use http::Response;
    use kube::client::Body;
    use parking_lot::Mutex as SyncMutex;
    use steersman_client::Clients;
    use tower::service_fn;

    use super::*;

    #[test]
    fn a_minor_version_is_its_leading_number() {
        for (text, expected) in [("36", 36), ("36+", 36), ("35-eks", 35), ("", 0), ("x", 0)] {
            assert_eq!(minor_of(text), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_version_is_read_again_from_time_to_time_and_an_old_answer_serves_in_between() {
        let answers = Arc::new(SyncMutex::new(VecDeque::from([
            (403, "{}"),
            (200, r#"{"minor": "35"}"#),
            (403, "{}"),
            (200, r#"{"minor": "36"}"#),
        ])));
        let script = Arc::clone(&answers);
        let server = service_fn(move |request: Request| {
            assert_eq!(request.uri().path(), "/version");
            let (code, body) = script.lock().pop_front().expect("no further call may be made");
            let response = Response::builder().status(code).body(Body::from(body.as_bytes().to_vec()));
            ready(Ok::<_, std::convert::Infallible>(response.unwrap()))
        });
        let version = ServerVersion::of(Clients::over(server).sender("test"));
        assert!(version.minor().await.is_err());
        assert_eq!(version.minor().await.unwrap(), 35);
        assert_eq!(version.clone().minor().await.unwrap(), 35);
        assert_eq!(answers.lock().len(), 2);
        for expected in [35, 36] {
            tokio::time::advance(FRESH).await;
            assert_eq!(version.minor().await.unwrap(), expected);
        }
        assert!(answers.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_version_is_followed_from_the_start_until_the_end() {
        let calls = Arc::new(SyncMutex::new(Vec::new()));
        let (seen, start) = (Arc::clone(&calls), Instant::now());
        let server = service_fn(move |_: Request| {
            seen.lock().push(start.elapsed().as_secs());
            let (code, body) = if seen.lock().len() == 1 { (500, "{}") } else { (200, r#"{"minor": "37"}"#) };
            let response = Response::builder().status(code).body(Body::from(body.as_bytes().to_vec()));
            ready(Ok::<_, std::convert::Infallible>(response.unwrap()))
        });
        let version = ServerVersion::of(Clients::over(server).sender("test"));
        let stop = CancellationToken::new();
        let mut following = tokio::task::JoinSet::new();
        following.spawn(version.clone().follow(stop.clone()));
        tokio::time::sleep(Duration::from_secs(700)).await;
        assert_eq!(*calls.lock(), [0, 10, 610]);
        stop.cancel();
        following.join_next().await.expect("a task must have been spawned").unwrap();
    }

    type Request = http::Request<Body>;
}
