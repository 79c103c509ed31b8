//! The bodies of answers on their way to a client.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::activity::{UnderWay, Watched};
use crate::rest::{Reset, ResponseBody};

/// The body of an answer. Its request is under way until this is dropped, or the watch that it is has been given up.
pub(super) enum Answering {
    /// An answer that has an end, or a stream.
    Plain(Held),
    /// A watch.
    Watch(Arc<Watch>),
}

/// A body with its request.
pub(super) struct Held {
    body: ResponseBody,
    _under_way: UnderWay,
}

/// A watch whose events somebody is to read.
///
/// The HTTP library asks a body for more only when its client has read enough of what came before. So a watch that was not
/// asked since it gave an event is one that nobody reads. It can't end itself then, and keeps what it has yet to tell: its
/// connection takes all of it away, and the client finds the stream reset if it ever reads on.
pub(super) struct Watch(Mutex<State>);

struct State {
    /// `None` once the watch has ended, or was given up.
    held: Option<Held>,
    /// Since when an event waits for its client; `None` while the client waits for an event.
    unread_since: Option<Instant>,
    /// It was given up, and its client has yet to be told.
    given_up: bool,
}

impl Answering {
    /// An answer that has an end, or a stream.
    pub(super) fn plain(body: ResponseBody, under_way: UnderWay) -> Self {
        Self::Plain(Held { body, _under_way: under_way })
    }

    /// A watch, which its connection gives up where nobody reads it.
    pub(super) fn watch(body: ResponseBody, under_way: UnderWay) -> Self {
        Self::Watch(Arc::new_cyclic(|watch: &Weak<Watch>| {
            under_way.watched(watch.clone());
            let held = Some(Held { body, _under_way: under_way });
            Watch(Mutex::new(State { held, unread_since: Some(Instant::now()), given_up: false }))
        }))
    }
}

impl State {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        let Some(held) = &mut self.held else {
            return Poll::Ready(std::mem::take(&mut self.given_up).then_some(Err(Reset)));
        };
        self.unread_since = None;
        let frame = ready!(Pin::new(&mut held.body).poll_frame(cx));
        self.unread_since = frame.as_ref().map(|_| Instant::now());
        Poll::Ready(frame)
    }
}

impl Watched for Watch {
    fn give_up_after(&self, unread: Duration, now: Instant) -> Option<Instant> {
        let mut state = self.0.lock();
        let until = state.unread_since? + unread;
        if now < until {
            return Some(until);
        }
        let held = state.held.take();
        (state.unread_since, state.given_up) = (None, held.is_some());
        drop(state);
        if held.is_some() {
            tracing::debug!("a watch was given up: its events were not read for too long");
        }
        drop(held);
        None
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        match self.get_mut() {
            Self::Plain(held) => Pin::new(&mut held.body).poll_frame(cx),
            Self::Watch(watch) => watch.0.lock().poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(held) => held.body.is_end_stream(),
            Self::Watch(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(held) => held.body.size_hint(),
            Self::Watch(_) => SizeHint::default(),
        }
    }
}
