//! The body of a watch, which can fall silent for good.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

/// Counts how often watches were stalled. A watch that was open then, or opened while they were stalled, is silent for
/// good.
#[derive(Clone, Default)]
pub(crate) struct Stalls(Arc<AtomicU64>);

impl Stalls {
    /// Silences all open watches.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The body of one watch.
pub(crate) struct Watching<B> {
    body: B,
    stalls: Stalls,
    /// The count of stalls when the watch was opened. `None` if it was silent from the start.
    opened_at: Option<u64>,
}

impl<B> Watching<B> {
    /// A watch that brings what `body` brings until the next stall.
    pub(crate) fn new(body: B, stalls: Stalls) -> Self {
        let opened_at = Some(stalls.count());
        Self { body, stalls, opened_at }
    }

    /// A watch that never brings anything.
    pub(crate) fn silent(body: B, stalls: Stalls) -> Self {
        Self { body, stalls, opened_at: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Watching<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        // Nothing wakes a silent watch but its client, who ends it.
        if self.opened_at != Some(self.stalls.count()) {
            return Poll::Pending;
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[test]
    fn a_watch_is_silent_for_good_after_a_stall_and_a_later_one_is_not() {
        let stalls = Stalls::default();
        let body = || Full::new(Bytes::from_static(b"event"));
        let mut before = Watching::new(body(), stalls.clone());
        stalls.begin();
        let mut meanwhile = Watching::silent(body(), stalls.clone());
        let mut after = Watching::new(body(), stalls);
        assert!(before.frame().now_or_never().is_none());
        assert!(meanwhile.frame().now_or_never().is_none());
        assert!(after.frame().now_or_never().is_some());
    }
}
