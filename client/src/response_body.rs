//! The body of a response, which reports its size and the request's duration to the metrics.

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

use crate::{host_metrics::HostMetrics, service::RawBody};

/// The body of a response.
///
/// When it has been read to its end, has failed, or is dropped, the client observes the size of the response and the
/// duration of the whole request, except for watches.
pub struct ResponseBody {
    body: RawBody,
    /// `None` for a watch, and once observed: a body that has ended is dropped later.
    measurement: Option<Measurement>,
}

/// What is known of a request before its response has been read.
pub(crate) struct Measurement {
    /// When the caller sent the request.
    pub(crate) started: Instant,
    pub(crate) method: Method,
    /// The bytes of the body read so far.
    pub(crate) bytes: u64,
    pub(crate) metrics: Arc<HostMetrics>,
}

impl ResponseBody {
    /// A body that is not measured.
    pub(crate) fn unmeasured(body: RawBody) -> Self {
        Self { body, measurement: None }
    }

    /// A body that completes `measurement`.
    pub(crate) fn measured(body: RawBody, measurement: Measurement) -> Self {
        Self { body, measurement: Some(measurement) }
    }

    fn observe(&mut self) {
        if let Some(Measurement { started, method, bytes, metrics }) = self.measurement.take() {
            metrics.took(&method, started.elapsed());
            metrics.received(&method, bytes);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match (&frame, &mut self.measurement) {
            (Some(Ok(frame)), Some(measurement)) => {
                measurement.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            (Some(Ok(_)), None) => {}
            (Some(Err(_)) | None, _) => self.observe(),
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

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.observe();
    }
}
