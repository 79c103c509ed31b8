//! Turns a response body into a stream of its parts.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http_body_util::BodyExt;
use kube::client::Body;

use super::Error;
use crate::wire::frames::Splitter;

/// A stream of the parts of a body.
pub(super) type Parts<P> = BoxStream<'static, Result<P, Error>>;

/// Splits a body. The stream ends with the body, or after one error. It fails if the connection brings no byte for the time
/// that `patience` returns, which it calls before each wait.
pub(super) fn parts<S: Splitter + 'static>(
    body: Body,
    splitter: S,
    patience: impl Fn() -> Duration + Send + 'static,
) -> Parts<S::Part>
where
    S::Part: Send,
{
    struct State<S, P> {
        body: Body,
        splitter: S,
        patience: P,
    }
    futures::stream::try_unfold(State { body, splitter, patience }, |mut state| async move {
        loop {
            if let Some(part) = state.splitter.next()? {
                return Ok(Some((part, state)));
            }
            let patience = (state.patience)();
            match tokio::time::timeout(patience, state.body.frame()).await {
                Err(_) => return Err(Error::Idle(patience)),
                Ok(None) => {
                    state.splitter.finish()?;
                    return Ok(None);
                }
                Ok(Some(Err(error))) => return Err(Error::Body(Box::new(error))),
                Ok(Some(Ok(frame))) => {
                    if let Ok(piece) = frame.into_data() {
                        state.splitter.push(piece);
                    }
                }
            }
        }
    })
    .boxed()
}
