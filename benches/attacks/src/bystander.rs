//! A client that means no harm, and how long it waits.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::connect::Target;

/// Between two requests.
const PACE: Duration = Duration::from_millis(100);
/// A request without an answer after this long has failed. Probes of the Go components' manifests wait up to 15 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// Gets one path again and again, each time on a new connection.
#[derive(Debug, Clone)]
pub(crate) struct Bystander {
    target: Target,
    path: String,
}

/// What a bystander saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How long each answer took, from before the connection was made, in ascending order.
    took: Vec<Duration>,
    /// Requests without an answer.
    pub(crate) failed: usize,
}

impl Seen {
    /// How long the given share of the answers took at most; nothing without answers.
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index, rounded down")]
        let at = (self.took.len().saturating_sub(1) as f64 * share) as usize;
        self.took.get(at).copied()
    }
}

impl Bystander {
    pub(crate) fn new(target: Target, path: String) -> Self {
        Self { target, path }
    }

    /// Asks for so long, one request at a time, on a thread of its own.
    pub(crate) async fn watch_apart(&self, length: Duration) -> Seen {
        let (seen, sees) = oneshot::channel();
        let this = self.clone();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let _ = runtime.map(|runtime| seen.send(runtime.block_on(this.watch(length))));
        });
        let seen = sees.await.unwrap_or_default();
        let _ = thread.join();
        seen
    }

    /// Asks for so long, one request at a time.
    pub(crate) async fn watch(&self, length: Duration) -> Seen {
        let mut seen = Seen::default();
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = Instant::now() + length;
        while Instant::now() < end {
            ticks.tick().await;
            let begin = Instant::now();
            match timeout(PATIENCE, self.ask()).await {
                Ok(Some(())) => seen.took.push(begin.elapsed()),
                _ => seen.failed += 1,
            }
        }
        seen.took.sort_unstable();
        seen
    }

    async fn ask(&self) -> Option<()> {
        let stream = self.target.connect().await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let request = Request::get(&self.path)
            .header("host", self.target.host())
            .header("connection", "close")
            .body(Empty::<Bytes>::new())
            .ok()?;
        let answer = async { sender.send_request(request).await.ok()?.into_body().collect().await.ok() };
        let (answer, _) = tokio::join!(answer, connection);
        answer.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_was_answered() {
        let took = (1..=101).map(Duration::from_millis).collect();
        let seen = Seen { took, failed: 0 };
        let of = |share| seen.quantile(share).unwrap().as_millis();
        assert_eq!([of(0.0), of(0.5), of(0.99), of(1.0)], [1, 51, 100, 101]);
        assert_eq!(Seen::default().quantile(0.5), None);
    }
}
