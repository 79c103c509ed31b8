//! How a request on a connection fails.

use std::{error::Error, sync::Arc};

use http::Request;
use hyper::client::conn::TrySendError;
use kube::client::Body;

/// How a request failed.
pub(super) enum Failure {
    /// The connection had ended before any part of the request was sent. Contains the request.
    Unsent(Box<Request<Body>>),
    /// The request, or part of it, may have been sent.
    Sent(Arc<dyn Error + Send + Sync>),
}

impl Failure {
    /// The failure of a request of which any part may have been sent.
    pub(super) fn sent(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Sent(error.into().into())
    }
}

impl From<TrySendError<Request<Body>>> for Failure {
    fn from(mut error: TrySendError<Request<Body>>) -> Self {
        match error.take_message() {
            Some(request) => Self::Unsent(Box::new(request)),
            None => Self::sent(error.into_error()),
        }
    }
}
