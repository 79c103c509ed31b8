//! The memory that the bodies of all requests under way take together, with a fair share for each user.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use steersman_serving::Shares;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Counts the bytes of all bodies that are held. Clones count together. A user may hold at most as many bytes as remain free.
#[derive(Clone)]
pub(crate) struct Bodies {
    held: Arc<Mutex<Shares<Arc<str>>>>,
}

/// The bytes of one request's body, counted until this is dropped.
pub(crate) struct Held {
    of: Bodies,
    user: Arc<str>,
    bytes: usize,
}

/// No more bytes can be held at present. The client should try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bodies of the requests under way take too much memory")]
pub(crate) struct Full;

impl Bodies {
    /// Holds at most so many bytes at a time.
    pub(crate) fn limited_to(limit: usize) -> Self {
        Self { held: Arc::new(Mutex::new(Shares::of(limit))) }
    }

    /// The account of a user's request, of whose body nothing has arrived yet.
    pub(crate) fn begin(&self, user: &str) -> Held {
        Held { of: self.clone(), user: user.into(), bytes: 0 }
    }
}

impl Held {
    /// Counts bytes that have arrived. They are counted as they come, and not as they are announced: what a client announces
    /// and does not send keeps no other client out.
    fn add(&mut self, bytes: usize) -> Result<(), Full> {
        if !self.of.held.lock().take(&self.user, bytes) {
            return Err(Full);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.held.lock().give_back(&self.user, self.bytes);
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
    fn a_user_may_hold_as_many_bytes_as_remain_free() {
        let bodies = Bodies::limited_to(12);
        let (mut hog, mut again) = (bodies.begin("hog"), bodies.begin("hog"));
        hog.add(4).unwrap();
        again.add(2).unwrap();
        // Half of the limit, in two requests.
        assert_eq!(again.add(1), Err(Full));
        let mut second = bodies.begin("second");
        second.add(3).unwrap();
        assert_eq!(second.add(1), Err(Full));
        bodies.begin("third").add(1).unwrap();
        drop(hog);
        second.add(2).unwrap();
    }

    #[test]
    fn bytes_count_until_their_request_ends() {
        let bodies = Bodies::limited_to(10);
        let mut one = bodies.begin("one");
        one.add(5).unwrap();
        assert_eq!(bodies.begin("one").add(usize::MAX), Err(Full));
        drop(one);
        bodies.begin("other").add(5).unwrap();
    }
}
