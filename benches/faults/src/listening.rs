//! The port, which is closed while the server is absent.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::fault::Fault;
use crate::proxy::Proxy;

/// Accepts connections, except while the fault is [`Fault::Absent`].
///
/// # Errors
/// The port can't be bound.
pub(crate) async fn listen(
    proxy: Arc<Proxy>,
    address: SocketAddr,
    ready: impl FnOnce(),
) -> io::Result<Infallible> {
    let mut fault = proxy.fault();
    let mut connections = JoinSet::new();
    let mut ready = Some(ready);
    loop {
        // The sender lives as long as the proxy.
        let _ = fault.wait_for(|fault| *fault != Fault::Absent).await;
        let listener = TcpListener::bind(address).await?;
        if let Some(ready) = ready.take() {
            ready();
        }
        loop {
            select! {
                biased;
                _ = fault.wait_for(|fault| *fault == Fault::Absent) => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => _ = connections.spawn(serve(Arc::clone(&proxy), stream)),
                    // The client has hung up, or there are no descriptors left.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                },
            }
        }
    }
}

/// Serves one connection until either side ends it.
async fn serve(proxy: Arc<Proxy>, stream: TcpStream) {
    proxy.accepted.fetch_add(1, Ordering::Relaxed);
    let connection = proxy.connection();
    // A connection that the proxy closes is reset: the client sees what a crash looks like.
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    let _ = stream.set_nodelay(true);
    let config = match *proxy.fault().borrow() {
        Fault::ServerCertificate => proxy.identities.expired(),
        _ => proxy.identities.valid(),
    };
    let serving = async {
        let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
        let client = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
        let cut = connection.clone();
        let service = service_fn(move |request| {
            let (proxy, client, cut) = (Arc::clone(&proxy), client.clone(), cut.clone());
            async move { Ok::<_, Infallible>(proxy.answer(request, client.as_ref(), &cut).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // As many streams as an API server allows.
        builder.http2().max_concurrent_streams(100);
        // Both ends may break it.
        drop(builder.serve_connection(TokioIo::new(stream), service).await);
    };
    connection.run_until_cancelled(serving).await;
}
