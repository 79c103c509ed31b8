//! The service that every client sends its requests to, and the body of its responses.

use http::{Request, Response};
use kube::client::Body;
use tower::BoxError;
use tower::util::BoxCloneSyncService;

/// A response's body as the service returns it, before anything is measured.
pub(crate) type RawBody = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, BoxError>;

/// Sends one request to the API server: over the [transport](crate::transport), or to a server in this process.
pub(crate) type BaseService = BoxCloneSyncService<Request<Body>, Response<RawBody>, BoxError>;

/// Boxes the body of a response.
pub(crate) fn box_body<B>(response: Response<B>) -> Response<RawBody>
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    use http_body_util::BodyExt;
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
