//! The server without sockets.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Limited};
use kube::client::Body;
use tower::Service;

use crate::access::Identity;
use crate::codec::Format;
use crate::monitoring::Entry;
use crate::refusal::Refusal;
use crate::rest::{
    ApiServer, Connection, Counted, Deadline, Endless, Full, Reset, ResponseBody, Warned, refuse, takes_body,
    with_warnings,
};

/// When a client should try again for whose body there was no room, in seconds. Upstream's figure for full servers.
const AFTER_FULL: i32 = 1;

/// The server as a service: a request in, an answer out, in the caller's own task.
///
/// Nothing waits for real time, so that tokio's clock may be paused. While the server is stopped, and where a fault
/// breaks the connection, calls end with [`Reset`].
#[derive(Clone)]
pub struct InMemory {
    pub(crate) server: ApiServer,
    /// Who asks by it.
    pub(crate) who: Identity,
    /// Whether it is a part of the cluster itself.
    pub(crate) is_component: bool,
}

/// An extension of the requests of the cluster's own parts: they get through when users send too much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfComponent;

impl Service<Request<Body>> for InMemory {
    type Response = Response<ResponseBody>;
    type Error = Reset;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Reset>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Reset>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.who.clone());
        if self.is_component {
            request.extensions_mut().insert(OfComponent);
        }
        let server = self.server.clone();
        Box::pin(async move { read_and_answer(&server, request).await })
    }
}

/// Reads the body, within the limits, and answers.
pub(crate) async fn read_and_answer<B>(
    server: &ApiServer,
    request: Request<B>,
) -> Result<Response<ResponseBody>, Reset>
where
    B: http_body::Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let connection = parts.extensions.get::<Connection>().cloned();
    let peer = connection.as_ref().map(Connection::peer);
    let mut entry = server.monitoring().begin(&parts, peer, server.clock());
    let mut answer = admit_and_answer(server, parts, body, &mut entry).await?;
    let endless = answer.extensions().get::<Endless>().copied();
    entry.answered(&mut answer, endless);
    Ok(match connection {
        // The body has ended, and the tunnel goes on.
        Some(connection) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
            connection.keep_with_tunnel(entry);
            answer
        }
        _ => answer.map(|body| body.keeping(entry)),
    })
}

/// Answers. `entry` gets what there is to tell of the request until its answer begins.
async fn admit_and_answer<B>(
    server: &ApiServer,
    mut parts: Parts,
    body: B,
    entry: &mut Entry,
) -> Result<Response<ResponseBody>, Reset>
where
    B: http_body::Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Nothing is read of clients that may not send it.
    if let Err(refusal) = server.let_in(&mut parts, entry) {
        return Ok(refuse(&refusal, Format::Json));
    }
    let limit = server.settings().body_limit;
    let until = parts.extensions.get::<Deadline>().copied();
    // What is asked has an end, even where the answer has none.
    let until = until.or_else(|| Deadline::after(server.settings().request_timeout));
    // Its bytes count until the request is answered.
    let who = parts.extensions.get::<Identity>().expect("an admitted request must have an identity");
    let mut held = server.bodies().begin(&who.user);
    let body = std::pin::pin!(Limited::new(body, limit));
    let reading = async {
        match takes_body(&parts) {
            true => Counted::new(body, &mut held).collect().await.map(Collected::to_bytes),
            false => Ok(Bytes::new()),
        }
    };
    let Some(read) = Deadline::met(until, reading).await else {
        return Ok(refuse(&Refusal::timed_out(), Format::Json));
    };
    let body = match read {
        Ok(body) => body,
        Err(error) if error.is::<Full>() => {
            return Ok(refuse(&Refusal::too_many_requests(Some(AFTER_FULL)), Format::Json));
        }
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Ok(refuse(&Refusal::too_large(limit), Format::Json));
        }
        Err(_) => return Err(Reset),
    };
    let endless = parts.extensions.get::<Endless>().copied();
    let warned = parts.extensions.get::<Warned>().copied();
    let mut answer = server.answer(Request::from_parts(parts, body)).await?;
    let status = answer.status();
    let goes_on = status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS;
    if let Some(endless) = endless.filter(|_| goes_on) {
        answer.extensions_mut().insert(endless);
    }
    if let Some(Warned(warning)) = warned {
        answer = with_warnings(answer, &[warning.to_owned()]);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;
    use crate::rest::{Outbound, Settings};

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    fn server(settings: Settings) -> ApiServer {
        ApiServer::new(settings, Outbound::new(None, None).unwrap())
    }

    /// These bytes, and then nothing more, without an end.
    fn endless(bytes: Vec<u8>) -> impl http_body::Body<Data = Bytes, Error = Reset> + Send {
        let frames = stream::iter([Ok(Frame::data(Bytes::from(bytes)))]).chain(stream::pending());
        StreamBody::new(frames)
    }

    async fn code<B>(server: &ApiServer, method: &str, path: &str, body: B) -> u16
    where
        B: http_body::Body + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        read_and_answer(server, request).await.unwrap().status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_request_that_has_no_use_for_one_is_not_read() {
        let server = server(Settings { request_timeout: None, ..Settings::default() });
        for (method, path, expected) in [
            ("GET", MAPS, 200),
            ("GET", "/api/v1/namespaces/default/configmaps?watch=true", 200),
            ("GET", "/healthz", 200),
            ("GET", "/openapi/v3", 200),
            ("POST", "/nowhere", 405),
            ("POST", "/api/v1/namespaces/default/pods/p/exec?command=x", 404),
        ] {
            let answered = code(&server, method, path, endless(vec![0; 8]));
            let answered = tokio::time::timeout(Duration::from_secs(60), answered).await;
            assert_eq!(answered, Ok(expected), "{method} {path}");
        }
        // What a proxy passes on, whatever the method, is read.
        let proxied = code(&server, "GET", "/api/v1/namespaces/default/pods/p/proxy/x", endless(vec![0; 8]));
        assert!(tokio::time::timeout(Duration::from_secs(60), proxied).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_take_so_much_memory_over_all_requests_and_no_more() {
        // One user may hold half of it.
        let settings = Settings { bodies_limit: 2000, request_timeout: None, ..Settings::default() };
        let server = server(settings);
        let map = |bytes: usize| {
            let object = r#"{"metadata": {"generateName": "a-"}}"#;
            http_body_util::Full::new(Bytes::from(format!("{object:bytes$}")))
        };
        // Two that never end.
        let mut one = Box::pin(code(&server, "POST", MAPS, endless(vec![b' '; 400])));
        let mut other = Box::pin(code(&server, "POST", MAPS, endless(vec![b' '; 400])));
        assert!(futures::poll!(&mut one).is_pending() && futures::poll!(&mut other).is_pending());
        assert_eq!(code(&server, "POST", MAPS, map(201)).await, 429);
        assert_eq!(code(&server, "POST", MAPS, map(200)).await, 201);
        assert_eq!(code(&server, "GET", MAPS, map(900)).await, 200);
        drop(one);
        assert_eq!(code(&server, "POST", MAPS, map(600)).await, 201);
        drop(other);
        assert_eq!(code(&server, "POST", MAPS, map(1000)).await, 201);
        assert_eq!(code(&server, "POST", MAPS, map(1001)).await, 429);
    }
}
