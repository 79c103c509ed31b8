//! The open connections of a server, and which of them is closed when there is no room for a new one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::once_per_minute::OncePerMinute;
use crate::origin::{Origin, Origins};
use crate::socket;

/// How long to wait after a connection could not be accepted, such as for want of file descriptors.
const RETRY: Duration = Duration::from_millis(100);

/// One connection, as far as it decides whether it must make room for a new one.
pub trait Evictable: Send + Sync + 'static {
    /// The property that decides. Called for all connections when there is no room.
    fn standing(&self) -> Standing;
}

/// The property of a connection that decides whether it must make room for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its client has not authenticated itself since the connection was accepted, at this time. On a port that authenticates
    /// nobody, it is the time of the last request, if there was one.
    Stranger(Instant),
    /// Its client has authenticated itself, and has had no request under way since this time.
    Idle(Instant),
    /// Its client has authenticated itself since the connection was accepted, at this time, and has a request under way.
    Busy(Instant),
}

/// The tasks that serve connections. Dropping it ends all of them.
#[derive(Default)]
pub struct Connections {
    tasks: JoinSet<()>,
    /// The connections in `tasks`, except those that were already told to end.
    open: HashMap<Id, Open>,
    idle: Arc<Notify>,
}

struct Open {
    connection: Arc<dyn Evictable>,
    origin: Origin,
    /// Ends the task.
    close: CancellationToken,
}

/// Accepts connections until `stop` is cancelled. Then closes the listener, and returns the connections that are still open.
///
/// At most `most` are open at a time. Beyond that, a new connection closes one of the others:
///
/// - a stranger's, if there is any: the oldest from the origin that has the most strangers. The oldest has had the most time to
///   authenticate itself;
/// - otherwise an idle connection, if there is any. Of the origins with idle connections, the one with the most connections loses
///   the connection that has been idle longest;
/// - otherwise, if one origin has more than half of all connections, its oldest connection; or the new connection, if it comes from
///   that origin. Any user with a token can keep connections busy, and must not lock out the others.
///
/// So a flood from one address displaces only itself. If no connection can go by this rule, the new one waits until one ends or
/// becomes idle.
///
/// `start` returns how a new connection stands, and the future that serves it, which is dropped if the connection must make room.
/// The [`Notify`] is to be notified whenever a connection becomes idle.
pub async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    most: usize,
    stop: &CancellationToken,
    mut start: impl FnMut(TcpStream, SocketAddr, &Arc<Notify>) -> (Arc<dyn Evictable>, F),
) -> Connections {
    let mut connections = Connections::default();
    let (mut full, mut failing) = (OncePerMinute::default(), OncePerMinute::default());
    let accepting = async {
        loop {
            let accepted = tokio::select! {
                () = connections.one_ended() => continue,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if failing.is_due() {
                        tracing::warn!(%error, "Failed to accept connections");
                    }
                    sleep(RETRY).await;
                    continue;
                }
            };
            let origin = Origin::of(address.ip());
            if connections.tasks.len() >= most {
                if full.is_due() {
                    tracing::warn!(limit = most, peer = %address, "Too many connections are open, closing one for each new one");
                }
                if !connections.make_room(most, origin).await {
                    continue;
                }
            }
            if let Err(error) = socket::prepare(&stream) {
                tracing::debug!(peer = %address, %error, "Connection is gone");
                continue;
            }
            let (connection, served) = start(stream, address, &connections.idle);
            connections.spawn(connection, origin, served);
        }
    };
    let _: Option<std::convert::Infallible> = stop.run_until_cancelled(accepting).await;
    connections
}

impl Connections {
    /// Waits until all connections have ended.
    pub async fn wait(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.forget(ended);
        }
    }

    /// Ends all connections, and waits until they are closed.
    pub async fn close(&mut self) {
        self.open.clear();
        self.tasks.shutdown().await;
    }

    /// Serves a connection in a task of its own.
    fn spawn(
        &mut self,
        connection: Arc<dyn Evictable>,
        origin: Origin,
        served: impl Future<Output = ()> + Send + 'static,
    ) {
        let close = CancellationToken::new();
        let closed = close.clone();
        let task = self.tasks.spawn(async move {
            let _ = closed.run_until_cancelled(served).await;
        });
        self.open.insert(task.id(), Open { connection, origin, close });
    }

    /// Waits until less than `most` are open, for a new connection from `newcomer`. Closes one for that, if [`first_to_go`] chooses
    /// one. Returns `false` if it is the new connection that must go.
    async fn make_room(&mut self, most: usize, newcomer: Origin) -> bool {
        let mut is_closing = false;
        while self.tasks.len() >= most {
            if !is_closing {
                match self.close_one(newcomer) {
                    Who::Newcomer => return false,
                    Who::One(()) => is_closing = true,
                    Who::Nobody => {}
                }
            }
            let idle = Arc::clone(&self.idle);
            tokio::select! {
                () = self.one_ended() => {}
                () = idle.notified(), if !is_closing => {}
            }
        }
        true
    }

    /// Closes the connection that [`first_to_go`] chooses, unless it is the new one.
    fn close_one(&mut self, newcomer: Origin) -> Who<()> {
        loop {
            let all = self.open.iter().map(|(id, open)| (*id, open.origin, open.connection.standing()));
            let (id, seen) = match first_to_go(all, newcomer) {
                Who::One(chosen) => chosen,
                Who::Newcomer => return Who::Newcomer,
                Who::Nobody => return Who::Nobody,
            };
            // A request may have begun since.
            if self.open.get(&id).is_some_and(|open| open.connection.standing() != seen) {
                continue;
            }
            if let Some(one) = self.open.remove(&id) {
                one.close.cancel();
            }
            return Who::One(());
        }
    }

    /// Resolves when a connection has ended; never if there is none.
    async fn one_ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.forget(ended),
            None => std::future::pending().await,
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "The task of a connection failed");
                error.id()
            }
        };
        self.open.remove(&id);
    }
}

/// Who must go if there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who<T> {
    /// An open connection.
    One(T),
    /// The new connection.
    Newcomer,
    /// Nobody: the new connection waits.
    Nobody,
}

/// Chooses who must go for a new connection from `newcomer`: [`accept`] has the rule.
fn first_to_go<T>(all: impl Iterator<Item = (T, Origin, Standing)>, newcomer: Origin) -> Who<(T, Standing)> {
    let all: Vec<_> = all.collect();
    let is_stranger = |standing: Standing| matches!(standing, Standing::Stranger(_));
    let has_strangers = all.iter().any(|(_, _, standing)| is_stranger(*standing));
    let counted = all.iter().filter(|(_, _, standing)| is_stranger(*standing) == has_strangers);
    let origins: Origins = counted.map(|(_, origin, _)| *origin).collect();
    let half = all.len() / 2;
    let candidates = all.into_iter().filter_map(|(connection, origin, standing)| {
        let count = origins.count(origin);
        let (rank, since) = match standing {
            Standing::Stranger(since) => (0, since),
            Standing::Idle(since) => (1, since),
            Standing::Busy(since) if count > half && origin != newcomer => (2, since),
            Standing::Busy(_) => return None,
        };
        Some(((rank, Reverse(count), since), connection, standing))
    });
    match candidates.min_by_key(|(key, _, _)| *key) {
        Some((_, connection, standing)) => Who::One((connection, standing)),
        None if origins.count(newcomer) > half => Who::Newcomer,
        None => Who::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures::FutureExt;
    use parking_lot::Mutex;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn strangers_make_room_first_then_the_connection_that_has_been_idle_longest() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let origin = |last| Origin::of([10, 0, 0, last].into());
        let stranger = |last, seconds| (origin(last), Standing::Stranger(at(seconds)));
        let idle = |last, seconds| (origin(last), Standing::Idle(at(seconds)));
        let busy_since = |last, seconds| (origin(last), Standing::Busy(at(seconds)));
        let busy = |last| busy_since(last, 0);
        for (all, expected) in [
            (vec![], Who::Nobody),
            (vec![busy(1), busy(2)], Who::Nobody),
            (vec![busy_since(1, 0), busy_since(2, 3), busy_since(2, 2)], Who::One(2)),
            (vec![busy(1), busy(2), busy(2), busy(3)], Who::Nobody),
            (vec![busy(9), busy(9), busy(2)], Who::Newcomer),
            (vec![busy(9), busy(9), idle(2, 0)], Who::One(2)),
            (vec![busy(1), idle(1, 1), idle(1, 0)], Who::One(2)),
            (vec![idle(2, 0), idle(1, 2), idle(1, 1)], Who::One(2)),
            // Busy connections count, too.
            (vec![idle(2, 0), busy(1), idle(1, 1)], Who::One(2)),
            (vec![idle(2, 0), busy(1), busy(1)], Who::One(0)),
            (vec![idle(1, 0), stranger(1, 2), stranger(1, 1)], Who::One(2)),
            (vec![busy(1), stranger(1, 2)], Who::One(1)),
            (vec![stranger(2, 0), stranger(1, 2), stranger(1, 1)], Who::One(2)),
            (vec![stranger(2, 0), stranger(1, 1)], Who::One(0)),
            // Known connections do not count where there are strangers.
            (vec![stranger(2, 0), stranger(1, 1), idle(1, 1), busy(1)], Who::One(0)),
        ] {
            let numbered = all.iter().enumerate().map(|(n, (origin, standing))| (n, *origin, *standing));
            let found = match first_to_go(numbered, origin(9)) {
                Who::One((n, _)) => Who::One(n),
                Who::Newcomer => Who::Newcomer,
                Who::Nobody => Who::Nobody,
            };
            assert_eq!(found, expected, "{all:?}");
        }
    }

    impl Evictable for Mutex<Standing> {
        fn standing(&self) -> Standing {
            *self.lock()
        }
    }

    fn origin(address: &str) -> Origin {
        Origin::of(address.parse::<IpAddr>().unwrap())
    }

    /// A stranger from that address. The receiver ends with the connection.
    fn stranger(connections: &mut Connections, from: &str) -> (Arc<Mutex<Standing>>, oneshot::Receiver<()>) {
        let standing = Arc::new(Mutex::new(Standing::Stranger(Instant::now())));
        let (open, closed) = oneshot::channel();
        let origin = origin(from);
        connections.spawn(Arc::clone(&standing) as Arc<dyn Evictable>, origin, async move {
            let _open = open;
            std::future::pending::<()>().await;
        });
        (standing, closed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_from_one_address_displaces_only_itself() {
        for (few, flood) in [
            ("10.0.0.2", ["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"]),
            ("2001:db8:1::1", ["2001:db8::1", "2001:db8::2", "2001:db8::3:4:5:6"]),
        ] {
            let mut connections = Connections::default();
            let (_, mut newcomer) = stranger(&mut connections, few);
            let mut closed = Vec::new();
            for from in flood {
                tokio::time::advance(Duration::from_secs(1)).await;
                closed.push(stranger(&mut connections, from).1);
            }
            for n in [0, 1] {
                assert!(connections.make_room(4 - n, origin("10.0.0.3")).await);
                assert!((&mut closed[n]).now_or_never().is_some(), "{few}: the oldest of the flood must go");
                assert!((&mut closed[n + 1]).now_or_never().is_none());
                assert!((&mut newcomer).now_or_never().is_none(), "{few}");
            }
            connections.make_room(2, origin("10.0.0.3")).await;
            assert!(newcomer.now_or_never().is_some(), "{few}: among equals, the oldest must go");
            connections.make_room(1, origin("10.0.0.3")).await;
            assert!((&mut closed[2]).now_or_never().is_some());
        }
    }

    #[tokio::test]
    async fn a_connection_of_a_known_client_makes_room_once_no_request_is_under_way() {
        let mut connections = Connections::default();
        let (standing, mut closed) = stranger(&mut connections, "10.0.0.1");
        let (other, mut stays) = stranger(&mut connections, "10.0.0.2");
        let busy = Standing::Busy(Instant::now());
        (*standing.lock(), *other.lock()) = (busy, busy);
        let idle = Arc::clone(&connections.idle);
        let mut room = std::pin::pin!(connections.make_room(2, origin("10.0.0.3")));
        assert!(room.as_mut().now_or_never().is_none());
        idle.notify_one();
        assert!(room.as_mut().now_or_never().is_none(), "it was idle, and is busy again");
        assert!((&mut closed).now_or_never().is_none());
        *standing.lock() = Standing::Idle(Instant::now());
        idle.notify_one();
        assert!(room.await);
        assert!(closed.now_or_never().is_some() && (&mut stays).now_or_never().is_none());
    }

    #[tokio::test]
    async fn the_port_is_free_when_no_more_connections_are_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let client = async {
            let client = TcpStream::connect(address).await.unwrap();
            // The connection holds the stream.
            client.readable().await.unwrap();
            stop.cancel();
            client
        };
        let start = |stream: TcpStream, peer: SocketAddr, _: &Arc<Notify>| {
            assert!(peer.ip().is_loopback());
            let connection: Arc<dyn Evictable> = Arc::new(Mutex::new(Standing::Stranger(Instant::now())));
            (connection, async move {
                stream.try_write(b"start").unwrap();
                std::future::pending::<()>().await;
            })
        };
        let (mut connections, client) = tokio::join!(accept(listener, 1, &stop, start), client);
        TcpListener::bind(address).await.unwrap();
        assert_eq!(connections.tasks.len(), 1);
        connections.close().await;
        assert_eq!(client.try_read(&mut [0; 8]).unwrap(), 5);
        client.readable().await.unwrap();
        assert_eq!(client.try_read(&mut [0; 8]).unwrap(), 0, "the connection must be closed");
    }
}
