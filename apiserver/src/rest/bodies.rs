//! The memory that the bodies of all requests under way take together.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Counts the bytes of all bodies that are held. Clones count together.
#[derive(Clone)]
pub(crate) struct Bodies {
    limit: usize,
    held: Arc<AtomicUsize>,
}

/// The bytes of one request's body, counted until this is dropped.
pub(crate) struct Held {
    of: Bodies,
    bytes: usize,
}

/// No more bytes can be held at present. The client should try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bodies of the requests under way take too much memory")]
pub(crate) struct Full;

impl Bodies {
    /// Holds at most so many bytes at a time.
    pub(crate) fn limited_to(limit: usize) -> Self {
        Self { limit, held: Arc::default() }
    }

    /// The account of a request of whose body nothing has arrived yet.
    pub(crate) fn begin(&self) -> Held {
        Held { of: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// Counts bytes that have arrived. They are counted as they come, and not as they are announced: what a client announces
    /// and does not send keeps no other client out.
    fn add(&mut self, bytes: usize) -> Result<(), Full> {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.of.limit);
        self.of.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|_| Full)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A body whose bytes are counted while it is read. Ends with [`Full`] where they are too many.
pub(crate) struct Counted<'a, B> {
    body: Pin<&'a mut B>,
    held: &'a mut Held,
}

impl<'a, B> Counted<'a, B> {
    /// Counts the bytes of a body on the account of its request.
    pub(crate) fn new(body: Pin<&'a mut B>, held: &'a mut Held) -> Self {
        Self { body, held }
    }
}

impl<B> Body for Counted<'_, B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        use bytes::Buf;
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(Into::into)?;
            self.held.add(frame.data_ref().map_or(0, Buf::remaining))?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_up_to_the_limit_over_all_bodies_until_their_requests_end() {
        let bodies = Bodies::limited_to(10);
        let (mut one, mut other) = (bodies.begin(), bodies.begin());
        one.add(4).unwrap();
        other.add(6).unwrap();
        assert_eq!(one.add(1), Err(Full));
        drop(other);
        one.add(6).unwrap();
        drop(one);
        bodies.begin().add(10).unwrap();
        assert_eq!(bodies.begin().add(usize::MAX), Err(Full));
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }
}
