//! Tunnels: two upgraded connections, and the bytes that pass between them, whatever their protocol is.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::time::timeout;

/// How long one direction may go on after the other one has ended, so that data on their way arrive. Without that limit, a
/// peer that never ends its direction would hold both connections.
const LINGER: Duration = Duration::from_secs(30);

/// Waits until both connections are upgraded, then carries bytes in both directions until the tunnel ends:
///
/// - The end of one direction is passed on, and the other direction may go on for 30 seconds more.
/// - An error in either direction ends both at once, as upstream's proxy does (`UpgradeAwareHandler`).
///
/// Both connections are closed when this returns, or is dropped. Errors are logged.
pub async fn carry(
    client: impl Future<Output = hyper::Result<Upgraded>>,
    backend: impl Future<Output = hyper::Result<Upgraded>>,
) {
    let (client, backend) = match tokio::try_join!(client, backend) {
        Ok((client, backend)) => (TokioIo::new(client), TokioIo::new(backend)),
        Err(error) => {
            tracing::debug!(%error, "An upgrade broke off");
            return;
        }
    };
    if let Err(error) = carry_both(client, backend).await {
        tracing::debug!(%error, "A tunnel broke off");
    }
}

async fn carry_both<A, B>(a: A, b: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((a_read, a_write), (b_read, b_write)) = (split(a), split(b));
    let forth = pin!(carry_one(a_read, b_write));
    let back = pin!(carry_one(b_read, a_write));
    let (ended, rest) = match select(forth, back).await {
        Either::Left((ended, back)) => (ended, Either::Left(back)),
        Either::Right((ended, forth)) => (ended, Either::Right(forth)),
    };
    ended?;
    timeout(LINGER, rest).await.unwrap_or(Ok(()))
}

async fn carry_one(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncReadExt, DuplexStream, ReadBuf, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_one_direction_is_passed_on_and_the_other_one_goes_on() {
        let ((mut a, near), (far, mut b)) = (duplex(64), duplex(64));
        let (ended, ()) = tokio::join!(carry_both(near, far), async {
            a.write_all(b"question").await.unwrap();
            a.shutdown().await.unwrap();
            let mut text = String::new();
            b.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "question");
            b.write_all(b"answer").await.unwrap();
            b.shutdown().await.unwrap();
            text.clear();
            a.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "answer");
        });
        ended.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_direction_that_does_not_end_is_cut_off_after_the_other_one() {
        let ((a, near), (far, _b)) = (duplex(64), duplex(64));
        drop(a);
        let began = Instant::now();
        carry_both(near, far).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), LINGER.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_in_either_direction_ends_both_at_once() {
        for backend_breaks in [false, true] {
            let ((_a, near), (far, _b)) = (duplex(64), duplex(64));
            let began = Instant::now();
            let ended = match backend_breaks {
                false => carry_both(Reset(near), far).await,
                true => carry_both(near, Reset(far)).await,
            };
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "{backend_breaks}");
            assert_eq!(began.elapsed(), Duration::ZERO, "{backend_breaks}");
        }
    }

    /// A connection that the peer has reset: reads fail, and writes still go into the socket's buffer.
    struct Reset(DuplexStream);

    impl AsyncRead for Reset {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }

    impl AsyncWrite for Reset {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(cx, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }
}
