//! An answer's body that tells the metrics when it has been read.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tower::BoxError;

use crate::{metrics::Metrics, service::ResponseBody};

/// Observes the whole request's duration, and the answer's size, once the body has ended or is dropped.
pub(crate) struct MeasuredBody {
    pub(crate) body: ResponseBody,
    pub(crate) started: Instant,
    pub(crate) method: Method,
    pub(crate) host: Arc<str>,
    pub(crate) metrics: Metrics,
    /// What has been read.
    pub(crate) bytes: u64,
    /// Set once observed: a body that ended is dropped later.
    pub(crate) observed: bool,
}

impl MeasuredBody {
    fn observe(&mut self) {
        if !std::mem::replace(&mut self.observed, true) {
            self.metrics.took(self.method.as_str(), &self.host, self.started.elapsed());
            self.metrics.received(self.method.as_str(), &self.host, self.bytes);
        }
    }
}

impl Body for MeasuredBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(_)) | None => self.observe(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for MeasuredBody {
    fn drop(&mut self) {
        self.observe();
    }
}
