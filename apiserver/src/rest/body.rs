//! Bodies of answers.

use std::any::Any;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};

/// The connection broke, or the server is down: the client can't know what became of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by the server")]
pub struct Reset;

/// A piece of a body: slices that belong together, shared with other bodies that send them.
pub(crate) type Piece = Vec<Bytes>;

/// The body of an answer: all at once, or a stream that goes on for as long as a watch does.
///
/// The caller that polls the body drives the watch. The watch has no task.
pub struct ResponseBody {
    /// What is sent before anything more is asked of `more`.
    ready: VecDeque<Bytes>,
    more: Option<BoxStream<'static, Result<Piece, Reset>>>,
    /// What is to last for as long as the body.
    kept: Option<Box<dyn Any + Send>>,
}

impl ResponseBody {
    /// All of it.
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let ready = if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([bytes]) };
        Self { ready, more: None, kept: None }
    }

    /// One piece.
    pub(crate) fn pieces(pieces: Piece) -> Self {
        Self { ready: pieces.into(), more: None, kept: None }
    }

    /// Piece by piece.
    pub(crate) fn stream(more: impl Stream<Item = Result<Piece, Reset>> + Send + 'static) -> Self {
        Self { ready: VecDeque::new(), more: Some(Box::pin(more)), kept: None }
    }

    /// Keeps something until the body has been sent, or is given up.
    pub(crate) fn keeping(mut self, kept: impl Send + 'static) -> Self {
        self.kept = Some(Box::new(kept));
        self
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let Some(more) = &mut self.more else { return Poll::Ready(None) };
            match std::task::ready!(more.as_mut().poll_next(cx)) {
                Some(Ok(piece)) => self.ready.extend(piece.into_iter().filter(|bytes| !bytes.is_empty())),
                Some(Err(reset)) => {
                    self.more = None;
                    return Poll::Ready(Some(Err(reset)));
                }
                None => {
                    self.more = None;
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.more.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.more {
            None => SizeHint::with_exact(self.ready.iter().map(|bytes| bytes.len() as u64).sum()),
            Some(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").field("streams", &self.more.is_some()).finish_non_exhaustive()
    }
}
