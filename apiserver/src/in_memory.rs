//! The server without sockets.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use tower::Service;

use crate::access::Identity;
use crate::codec::Format;
use crate::refusal::Refusal;
use crate::rest::{ApiServer, Deadline, Endless, Reset, ResponseBody, refuse};

/// The server as a service: a request in, an answer out, in the caller's own task.
///
/// Nothing waits for real time, so that tokio's clock may be paused. While the server is stopped, and where a fault
/// breaks the connection, calls end with [`Reset`].
#[derive(Clone)]
pub struct InMemory {
    pub(crate) server: ApiServer,
    /// Who asks by it.
    pub(crate) who: Identity,
}

impl Service<Request<Body>> for InMemory {
    type Response = Response<ResponseBody>;
    type Error = Reset;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Reset>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Reset>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.who.clone());
        let server = self.server.clone();
        Box::pin(async move { read_and_answer(&server, request).await })
    }
}

/// Reads the body, within the limit, and answers.
pub(crate) async fn read_and_answer<B>(
    server: &ApiServer,
    request: Request<B>,
) -> Result<Response<ResponseBody>, Reset>
where
    B: http_body::Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut parts, body) = request.into_parts();
    // Before the body: nobody has us read what nobody may say.
    if let Err(refusal) = server.let_in(&mut parts) {
        return Ok(refuse(&refusal, Format::Json));
    }
    let limit = server.settings().body_limit;
    let until = parts.extensions.get::<Deadline>().copied();
    // What is asked has an end, even where the answer has none.
    let until = until.or_else(|| Deadline::after(server.settings().request_timeout));
    let reading = Limited::new(body, limit).collect();
    let Some(read) = Deadline::met(until, reading).await else {
        return Ok(refuse(&Refusal::timed_out(), Format::Json));
    };
    let body = match read {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Ok(refuse(&Refusal::too_large(limit), Format::Json));
        }
        Err(_) => return Err(Reset),
    };
    let endless = parts.extensions.get::<Endless>().copied();
    let mut answer = server.answer(Request::from_parts(parts, body)).await?;
    if let Some(endless) = endless.filter(|_| answer.status().is_success()) {
        answer.extensions_mut().insert(endless);
    }
    Ok(answer)
}
