//! Responses and resets that hyper's server never sends, from a server built on `h2`.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::DropGuard, task::TaskTracker};

use super::*;

/// A server that allows one stream at a time. What it does with a request is in the path:
/// - `/cut`: sends a part of the response, then resets the stream without an error;
/// - `/refused`: resets the stream with REFUSED_STREAM;
/// - `/goodbye`: closes the connection with GOAWAY, as if the request had not come;
/// - `/early`: answers, and neither reads the body nor resets the stream;
/// - all else: answers.
struct Sick {
    address: SocketAddr,
    _stop: DropGuard,
}

impl Sick {
    async fn start(authority: &Authority) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (tls, cut) = (TlsAcceptor::from(authority.server_config("h2")), stop.clone());
        tasks.clone().spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                let tcp = listener.accept().await.unwrap().0;
                let tls = tls.clone();
                tasks.spawn(cut.clone().run_until_cancelled_owned(async move {
                    serve(tls.accept(tcp).await.unwrap()).await;
                }));
            }
        }));
        Self { address, _stop: stop.drop_guard() }
    }

    fn url(&self) -> Uri {
        format!("https://{}", self.address).parse().unwrap()
    }
}

async fn serve(tls: tokio_rustls::server::TlsStream<tokio::net::TcpStream>) {
    let mut connection = h2::server::Builder::new().max_concurrent_streams(1).handshake(tls).await.unwrap();
    let mut unread = Vec::new();
    // The loop ends with an error when the client closes the connection.
    while let Some(Ok((request, respond))) = connection.accept().await {
        if request.uri().path() == "/goodbye" {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        } else {
            unread.push(answer(request, respond));
        }
    }
}

/// Returns handles that keep the stream open on the server's side.
fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> (RecvStream, SendResponse<Bytes>) {
    match request.uri().path() {
        "/refused" => respond.send_reset(Reason::REFUSED_STREAM),
        path => {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            let cut = path == "/cut";
            stream.send_data(Bytes::from_static(b"ok\n"), !cut).unwrap();
            if cut {
                stream.send_reset(Reason::NO_ERROR);
            }
        }
    }
    (request.into_body(), respond)
}

#[tokio::test]
async fn a_response_that_breaks_off_is_not_taken_for_a_whole_one() {
    let authority = Authority::new();
    let server = Sick::start(&authority).await;
    let (_transport, service) = start(config(server.url(), &authority), Options::default());
    let outcome = match get(&service, "/cut").await {
        Ok(answer) => timeout(SOON, answer.into_body().collect()).await.unwrap().map(|_| ()),
        Err(error) => Err(error),
    };
    assert_eq!(Fault::of(&*outcome.unwrap_err()), Fault::Broken);
    assert_eq!(body(get(&service, "/").await.unwrap()).await, "ok\n");
}

#[tokio::test]
async fn nobody_is_sure_about_requests_that_a_server_resets() {
    let authority = Authority::new();
    let server = Sick::start(&authority).await;
    let (_transport, service) = start(config(server.url(), &authority), Options::default());
    for path in ["/refused", "/goodbye"] {
        let error = get(&service, path).await.unwrap_err();
        assert_eq!(Fault::of(&*error), Fault::Broken, "{path}: {error}");
        assert_eq!(body(get(&service, "/").await.unwrap()).await, "ok\n", "after {path}");
    }
}

#[tokio::test]
async fn a_server_that_answers_and_reads_no_body_keeps_no_stream() {
    let authority = Authority::new();
    let server = Sick::start(&authority).await;
    let (transport, service) = start(config(server.url(), &authority), Options::default());
    for _ in 0..3 {
        assert_eq!(body(put(&service, "/early", 1 << 20).await).await, "ok\n");
    }
    assert_eq!(transport.connections(Traffic::Write), 1);
}
