//! The TCP connection below TLS. Reads from the kernel in larger pieces than rustls, and optionally at intervals.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};
use tower::{BoxError, Service};

/// Size of the read buffer in bytes: one TLS record. rustls alone would read 4 KB per system call.
const CAPACITY: usize = 16 << 10;

/// Number of bytes after which a read yields to other tasks, so that they decode what h2 has buffered before it buffers more.
const AT_A_TIME: usize = 64 << 10;

/// A TCP connection.
pub(crate) struct Socket {
    tcp: BufReader<TcpStream>,
    /// Number of bytes read since the last yield.
    in_a_row: usize,
    last_read: Arc<Mutex<Instant>>,
    pauses: Option<Pauses>,
}

/// The pauses between reads.
struct Pauses {
    length: Duration,
    /// The end of the last pause.
    end: Pin<Box<Sleep>>,
}

impl Socket {
    fn new(tcp: TcpStream) -> Self {
        let last_read = Arc::new(Mutex::new(Instant::now()));
        Self { tcp: BufReader::with_capacity(CAPACITY, tcp), in_a_row: 0, last_read, pauses: None }
    }

    /// The time of the last read that returned bytes, or of the socket's opening before the first. Each read updates it.
    pub(super) fn last_read(&self) -> Arc<Mutex<Instant>> {
        Arc::clone(&self.last_read)
    }

    /// The connection itself.
    #[cfg(target_os = "linux")]
    pub(super) fn tcp(&self) -> &TcpStream {
        self.tcp.get_ref()
    }

    /// Makes the socket wait for `length` after each read that has emptied the kernel's buffer. The next read then returns
    /// all bytes that arrived during the wait. Bytes that arrive after the wait are read immediately.
    pub(super) fn pause_between_reads(&mut self, length: Duration) {
        self.pauses = Some(Pauses { length, end: Box::pin(sleep_until(Instant::now())) });
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { tcp, in_a_row, last_read, pauses } = &mut *self;
        if !tcp.buffer().is_empty() {
            return Pin::new(tcp).poll_read(cx, into);
        }
        if let Some(pauses) = pauses {
            ready!(pauses.end.as_mut().poll(cx));
        }
        if *in_a_row >= AT_A_TIME {
            *in_a_row = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let outcome = Pin::new(&mut *tcp).poll_read(cx, into);
        if outcome.is_pending() {
            *in_a_row = 0;
        }
        ready!(outcome)?;
        let read = into.filled().len() - before + tcp.buffer().len();
        *in_a_row += read;
        let now = Instant::now();
        *last_read.lock() = now;
        if let Some(pauses) = pauses
            && read < CAPACITY
        {
            pauses.end.as_mut().reset(now + pauses.length);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        self.tcp.get_ref().connected()
    }
}

/// Opens sockets.
#[derive(Clone)]
pub(super) struct Connector(pub(super) HttpConnector);

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<TokioIo<Socket>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(BoxError::from)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = self.0.call(server);
        Box::pin(async move { Ok(TokioIo::new(Socket::new(connecting.await?.into_inner()))) })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        task::yield_now,
    };

    use super::*;

    const PAUSE: Duration = Duration::from_secs(3600);

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Socket::new(client), listener.accept().await.unwrap().0)
    }

    /// Reads so many bytes, as rustls does. Returns how long each part took.
    async fn read(socket: &mut Socket, length: usize) -> Vec<Duration> {
        let (mut left, mut times) = (length, Vec::new());
        while left > 0 {
            let (start, mut part) = (Instant::now(), vec![0; left.min(4096)]);
            left -= socket.read(&mut part).await.unwrap();
            times.push(start.elapsed());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn what_arrives_in_a_pause_is_read_together_at_its_end() {
        let (mut socket, mut server) = pair().await;
        for _ in 0..2 {
            server.write_all(b"a").await.unwrap();
            assert_eq!(read(&mut socket, 1).await, [Duration::ZERO], "there are no pauses yet");
        }
        socket.pause_between_reads(PAUSE);
        server.write_all(b"a").await.unwrap();
        assert_eq!(read(&mut socket, 1).await, [Duration::ZERO], "there was no read yet");
        server.write_all(b"b").await.unwrap();
        server.write_all(b"c").await.unwrap();
        assert_eq!(read(&mut socket, 2).await, [PAUSE], "both at once");
        tokio::time::advance(PAUSE).await;
        server.write_all(b"d").await.unwrap();
        assert_eq!(read(&mut socket, 1).await, [Duration::ZERO], "after a silence");
    }

    #[tokio::test(start_paused = true)]
    async fn reads_do_not_pause_before_all_that_has_arrived_is_read() {
        let (mut socket, mut server) = pair().await;
        socket.pause_between_reads(PAUSE);
        server.write_all(&vec![b'x'; 2 * CAPACITY]).await.unwrap();
        let times = read(&mut socket, 2 * CAPACITY).await;
        assert!(times.len() > 2 && times.iter().all(Duration::is_zero), "{times:?}");
    }

    #[tokio::test]
    async fn who_reads_much_lets_others_have_their_turn() {
        let (mut socket, server) = pair().await;
        let mut sent = 0;
        server.writable().await.unwrap();
        while let Ok(bytes) = server.try_write(&[b'x'; CAPACITY]) {
            sent += bytes;
        }
        let (mut turns, mut left) = (Vec::new(), sent);
        while left > 0 {
            let mut turn = 0;
            poll_fn(|cx| {
                let mut part = [0; 4096];
                let mut into = ReadBuf::new(&mut part);
                while Pin::new(&mut socket).poll_read(cx, &mut into).is_ready() {
                    turn += into.filled().len();
                    into.clear();
                }
                Poll::Ready(())
            })
            .await;
            left -= turn;
            turns.push(turn);
            yield_now().await;
        }
        assert!(sent > 2 * AT_A_TIME, "the kernel took only {sent} bytes");
        assert!(turns.iter().all(|turn| *turn <= AT_A_TIME + CAPACITY), "{turns:?}");
    }
}
