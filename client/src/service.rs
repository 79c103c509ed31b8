//! What every layer between a client and its connections is made of.

use http::{Request, Response};
use kube::client::Body;
use tower::BoxError;
use tower::util::BoxCloneSyncService;

/// The body of an answer.
pub type ResponseBody = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, BoxError>;

/// What all clients stand on: a request of any kind in, an answer out.
pub(crate) type BaseService = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>;

/// An answer, whatever body it has, as all layers pass it on.
pub(crate) fn box_body<B>(response: Response<B>) -> Response<ResponseBody>
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    use http_body_util::BodyExt;
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
